"""A kind from another package that brings no tools: an agent schedules, lists and cancels with generated ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Literal

from mcp.client import Client

from duetime.mcp.catalog import OF_ANY_ANSWER
from duetime.mcp.schemas import flat_schema
from duetime.mcp.standard_tools import standard_tools
from duetime.service.kind_spec import KindSpec
from duetime.service.payload_fields import fields_of
from tests.support.agents import over_stdio, talk

TOYKIND = Path(__file__).parents[1] / "toykind"
WHEN = {"name": "morning", "trigger_type": "cron", "trigger_config": {"expression": "0 9 * * *"}}


@dataclass
class Inner:
    day: date
    after: Inner | None = None


@dataclass
class Hard:
    name: str
    mode: Literal["slow", "fast"]
    inner: Inner
    maybe: int | None
    timezone: str = "here"
    either: int | str = 1
    numbers: list[int] = field(default_factory=list)
    any: Any = None


async def structured(client: Client, tool: str, **given: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, given)
    assert not result.is_error, result.content
    content: dict[str, Any] = result.structured_content or {}
    return content


def test_it_is_created_listed_and_cancelled(tmp_path: Path) -> None:
    async def say(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"schedule_beep", "list_beeps", "cancel_beep", "schedule_job"} <= set(tools)
        offered = tools["schedule_beep"].input_schema
        assert offered["required"] == ["name", "text", "file"]
        assert offered["properties"]["text"] == {"type": "string", "description": "What it writes."}
        assert offered["properties"]["times"] == {"type": "integer", "description": "How often."}
        assert {"timezone", "max_attempts", "catch_up", "deliver_to", "idempotency_key"} <= set(offered["properties"])

        made = await structured(
            client, "schedule_beep", **WHEN, text="hi", file="/nowhere", times=None, timezone="Europe/Berlin"
        )
        assert made["id"].startswith("beep_") and made["status"] == "pending" and "T09:00:00+0" in made["next_run"]
        named = {*(tools["schedule_beep"].output_schema or {})["properties"], *OF_ANY_ANSWER}
        assert set(made) <= named and "next_run" in named
        listed = await structured(client, "list_beeps")
        assert [row["id"] for row in listed["beeps"]] == [made["id"]] and listed["total"] == 1
        upcoming = await structured(client, "list_upcoming", count=1)
        assert [row["id"] for row in upcoming["upcoming"]] == [made["id"]]
        assert await structured(client, "cancel_beep", id=made["id"]) == {"cancelled": True, "id": made["id"]}
        assert (await structured(client, "list_beeps", status="pending"))["total"] == 0

    talk(over_stdio(tmp_path, "legacy", PYTHONPATH=str(TOYKIND)), say)


def test_what_is_refused_says_what_to_do(tmp_path: Path) -> None:
    async def say(client: Client) -> None:
        wrong = {**WHEN, "trigger_config": {"expression": "61 * * * *"}}
        assert "error" in await structured(client, "schedule_beep", **wrong, text="hi", file="f")
        unknown = await structured(client, "schedule_beep", **WHEN, text="hi", file="f", timezone="Mars/Olympus")
        assert "Mars/Olympus" in unknown["error"]
        refused = await client.call_tool("schedule_beep", {**WHEN, "text": 5, "file": "f"})
        assert refused.is_error and "text must be a string" in refused.content[0].text  # type: ignore[union-attr]
        gone = await structured(client, "cancel_beep", id="beep_7_7")
        assert gone == {"cancelled": False, "error": "No beep has the id beep_7_7; list_beeps shows the ids."}

    talk(over_stdio(tmp_path, "legacy", PYTHONPATH=str(TOYKIND)), say)


def test_every_schema_is_flat() -> None:
    flat = {each.name: flat_schema(each.schema) for each in fields_of(Hard)}
    assert flat["mode"] == {"type": "string", "enum": ["slow", "fast"]}
    assert flat["maybe"] == {"type": ["integer", "null"]}
    assert flat["either"] == {"type": ["integer", "string"]}
    assert flat["numbers"] == {"type": "array", "items": {"type": "integer"}}
    assert flat["inner"] == {
        "type": "object",
        "properties": {"day": {"type": "string", "format": "date"}, "after": {"type": ["object", "null"]}},
        "required": ["day"],
    }


def test_an_argument_that_every_kind_has_keeps_its_name() -> None:
    spec = KindSpec(name="hard", plural="hards", build="", payload=f"{__name__}:Hard")
    arguments = standard_tools(spec)[0].input["properties"]
    assert {"name", "hard_name", "timezone", "hard_timezone"} <= set(arguments)
