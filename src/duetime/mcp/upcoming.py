"""The tool `list_upcoming`: what fires next, across all families."""

from __future__ import annotations

from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.times import read_time
from duetime.mcp.schemas import WARNINGS, ZONE, with_owner, zone_of
from duetime.mcp.tool import Arguments, Reply, Tool, ToolProblem, number, object_schema, result_schema, text
from duetime.service.services import Call

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
