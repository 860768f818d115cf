"""What the MCP server offers: the tools, resources, prompts and instructions of the enabled families of tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.engine.times import read_time
from duetime.mcp.definitions import (
    Arguments,
    Recipe,
    Reply,
    Resource,
    Tool,
    ToolProblem,
    general_recipes,
    number,
    object_schema,
    result_schema,
    text,
)
from duetime.mcp.schemas import WARNINGS, ZONE, with_owner, zone_of
from duetime.mcp.standard_tools import standard_tools
from duetime.service.kind_spec import KindSpec, load
from duetime.service.services import Call
from duetime.service.text import listed

MOST = 100


def list_upcoming(call: Call, given: Arguments) -> Reply:
    zone = zone_of(call, given)
    until = _until(call, given, zone)
    count = given.get("count", 20)
    found = call.services.upcoming(call.caller, until, count, zone)
    rows = [with_owner(call, row, row.pop("owner")) for row in found.rows]
    answer = {"upcoming": rows, "count": len(rows), "timezone": zone}
    return Reply({**answer, "warnings": found.warnings} if found.warnings else answer)


def _until(call: Call, given: Arguments, zone: str) -> Instant | None:
    """Return the end of the range: a day without a time is included whole."""
    if "until" not in given:
        return None
    try:
        return read_time(given["until"], zone=zone, now=call.scheduler.clock.now()).last(zone)
    except DuetimeError as error:
        raise ToolProblem(f"until: {error.message} Try 'tomorrow 18:00' or 2026-02-10T18:00:00.") from error


def upcoming_tool(kinds: str) -> Tool:
    """Return the tool. `kinds` names what can be scheduled, such as "jobs and prompts"."""
    return Tool(
        name="list_upcoming",
        title="What fires next",
        description=(
            f"Everything of the caller's that fires next, in time order, over {kinds}: use it "
            "to answer 'what is scheduled?'. Of a schedule that repeats, the next three times are shown; reads_as says "
            "its rule. Each row has its kind and id; the id is what the tools of that kind take."
        ),
        input=object_schema(
            {
                "until": text("Only up to this time, for example 'tomorrow 18:00' or ISO 8601."),
                "count": number("How many at most; 20 if absent.", minimum=1, maximum=MOST),
                "timezone": ZONE,
            }
        ),
        output=result_schema(
            {
                "upcoming": {"type": "array", "items": {"type": "object"}},
                "count": {"type": "integer"},
                "timezone": {"type": "string"},
                "warnings": WARNINGS,
            }
        ),
        answer=list_upcoming,
        read_only=True,
        idempotent=True,
        lists_schedules=True,
    )


_PURPOSE = "Duetime makes things happen later."
_TIMES = (
    "Pass the user's `timezone` (IANA) whenever you know it: without it, times are read in the zone of the caller's "
    "token or of the server. After scheduling, tell the user the local time that the answer shows, and any warnings it "
    "carries."
)


class Catalog(NamedTuple):
    tools: list[Tool]
    resources: list[Resource]
    recipes: list[Recipe]
    instructions: str


def family_of(spec: KindSpec) -> str:
    """Return the name by which the tools of a kind are switched on; it is empty if the kind has none."""
    return spec.family or (spec.plural if spec.payload else "")


def families_of(specs: Iterable[KindSpec]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, map(family_of, specs))))


def tools_of(spec: KindSpec) -> list[Tool]:
    """Return the tools of a kind, which are generated from its payload model if it brings none."""
    if spec.tools or not spec.payload:
        return _loaded([spec.tools])
    return standard_tools(spec)


def catalog_of(specs: Iterable[KindSpec], families: Sequence[str] = ()) -> Catalog:
    """Load what the kinds of these families bring, or those of all families if none is named."""
    specs = list(specs)
    known = families_of(specs)
    for name in families:
        if name not in known:
            raise InvalidInput(field="tools", problem=f"there is no family {name!r}; there are {', '.join(known)}")
    chosen = [spec for name in families or known for spec in specs if family_of(spec) == name]
    upcoming = upcoming_tool(listed([spec.plural for spec in specs if family_of(spec)]))
    tools = [tool for spec in chosen for tool in tools_of(spec)]
    return Catalog(
        tools=[*tools, upcoming],
        resources=_loaded(spec.resources for spec in chosen),
        recipes=[*_loaded(spec.recipes for spec in chosen), *general_recipes([upcoming, *tools])],
        instructions=_instructions(chosen),
    )


def _loaded(paths: Iterable[str]) -> list[Any]:
    return [each for path in paths if path for each in load(path)]


def _instructions(specs: Sequence[KindSpec]) -> str:
    kinds = ", ".join(spec.instructions for spec in specs if spec.instructions)
    sentences = [_PURPOSE, f"{kinds[:1].upper()}{kinds[1:]}." if kinds else "", _TIMES]
    return " ".join(filter(None, [*sentences, *(spec.further_instructions for spec in specs)]))
