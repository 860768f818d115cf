"""`tools/list` over stdio: how many bytes every conversation carries, and that what is left explains itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from duetime.app import build, mcp_server
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import LOCAL, Caller
from duetime.kinds import load_specs
from duetime.mcp.catalog import OF_ANY_ANSWER, catalog_of
from duetime.service.services import Call
from duetime.settings.settings_file import load_only
from tests.support.agents import ERAS, call, over_stdio, talk
from tests.support.raw import stdio_line

BAR = 34_000
"""Bytes. Before the list was made light, it had 68,619 with the same 27 tools."""


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with stdio_line(tmp_path_factory.mktemp("list"), "2025-11-25") as line:
        yield json.dumps(json.loads(line.ask("tools/list")), ensure_ascii=False, separators=(",", ":"))  # as it is sent


def tools_in(answer: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(answer)["result"]["tools"]
    return found


def test_the_list_is_light(answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It has every tool."""
    tools, size = tools_in(answer), len(answer.encode())
    with capsys.disabled():
        print(f"\ntools/list: {size} bytes for {len(tools)} tools")  # noqa: T201  the figure is to be seen
    assert {tool["name"] for tool in tools} == {tool.name for tool in catalog_of(load_specs().values()).tools}
    assert size <= BAR, f"{size} bytes: shorten descriptions, or add fields to what any answer may have"


def test_every_tool_and_argument_is_described(answer: str) -> None:
    for tool in tools_in(answer):
        assert tool["description"].endswith("."), tool["name"]
        for name, argument in tool["inputSchema"]["properties"].items():
            words = argument["description"]
            assert words.endswith(".") and words.strip(".").lower() != name, (tool["name"], name)
            assert len(words) >= 10 or "enum" in argument, (tool["name"], name, words)


def test_nothing_is_said_twice(answer: str) -> None:
    for tool in tools_in(answer):
        assert "title" not in tool["annotations"], tool["name"]
        assert not {"$defs", "additionalProperties", "title"} & {*tool["inputSchema"], *tool["outputSchema"]}
        for name, argument in tool["inputSchema"]["properties"].items():
            assert "default" not in argument and "title" not in argument, (tool["name"], name)
            choices = argument.get("enum", ())
            assert sum(choice in argument["description"].split() for choice in choices) < 2, (tool["name"], name)


def test_every_field_of_an_answer_is_named(answer: str) -> None:
    defined = {tool.name: tool.output for tool in catalog_of(load_specs().values()).tools}
    for tool in tools_in(answer):
        output, listed = defined[tool["name"]], tool["outputSchema"]
        assert {*listed["properties"], *OF_ANY_ANSWER} >= set(output["properties"]), tool["name"]
        assert listed.get("required", []) == output["required"], tool["name"]


def test_what_any_answer_may_have_is_in_the_instructions() -> None:
    instructions = catalog_of(load_specs().values()).instructions
    assert all(name in instructions for name in OF_ANY_ANSWER)


async def names_of(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


def test_single_tools_can_be_chosen_beside_families(tmp_path: Path) -> None:
    async def say(client: Client) -> None:
        assert await names_of(client) == {"schedule", "get_current_time", "history"}
        assert [each.name for each in (await client.list_prompts()).prompts] == []

    talk(over_stdio(tmp_path, ERAS[0], "--tools", "schedule,get_current_time,history"), say)
    specs = load_specs().values()
    jobs = {tool.name for tool in catalog_of(specs, ["jobs"]).tools}
    assert {tool.name for tool in catalog_of(specs, ["jobs", "schedule"]).tools} == jobs | {"schedule"}
    with pytest.raises(InvalidInput, match="no family and no tool 'nonsense'"):
        catalog_of(specs, ["jobs", "nonsense"])


def test_tools_for_all_kinds_serve_no_family_that_is_off() -> None:
    specs = load_specs().values()
    for names in (["jobs", "schedule"], ["list_jobs", "edit_schedule"]):
        edit = next(tool for tool in catalog_of(specs, names).tools if tool.name == "edit_schedule")
        assert "task" in edit.input["properties"] and "prompt" not in edit.input["properties"]


WOKEN = '[agents.echo]\ntype = "command"\ncommand = ["/bin/cat"]\n'


def test_taking_is_listed_where_a_prompt_names_the_inbox(tmp_path: Path) -> None:
    """Also where all others wake an agent."""
    file = tmp_path / "settings.toml"
    file.write_text(f'agent = "echo"\n{WOKEN}')

    async def say(client: Client) -> None:
        assert {"take_prompt", "finish_prompt"} <= await names_of(client)
        told = (await call(client, "schedule", prompt="x", at="tomorrow", agent="inbox"))["status"]
        assert told == "pending"
        assert (await call(client, "take_prompt"))["message"] == "Nothing is due."

    with closing(build(replace(load_only(file), db=str(tmp_path / "my.db")))) as app:
        server = mcp_server(app.settings.tools, lambda: Call(app.services, Caller(LOCAL), "UTC"), services=app.services)
        talk(Client(server.sdk, mode=ERAS[0]), say)
