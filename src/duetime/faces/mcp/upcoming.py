"""`list_upcoming`: what fires next, over all families."""

from __future__ import annotations

from typing import Any

from duetime.core.clock import Instant
from duetime.core.errors import DuetimeError
from duetime.core.model import Schedule
from duetime.core.result import Err
from duetime.core.scheduler import upcoming
from duetime.core.store import ScheduleQuery
from duetime.core.times import read_time
from duetime.core.triggers import describe, trigger_from_json
from duetime.faces.mcp.shared import ZONE, with_owner, zone_of
from duetime.faces.mcp.tool import (
    Arguments,
    Call,
    Reply,
    Tool,
    ToolProblem,
    number,
    object_schema,
    optional,
    result_schema,
    text,
)
from duetime.faces.present import instant_view

MOST = 100
EACH = 3
"""Occurrences of one schedule: a frequent one must not hide the others."""


def list_upcoming(call: Call, given: Arguments) -> Reply:
    zone = zone_of(call, given)
    until = _until(call, given, zone)
    count = given.get("count", 20)
    query = ScheduleQuery(status="pending", due_to=until, by_time=True, limit=count)
    page = call.scheduler.search(call.caller, query)
    if isinstance(page, Err):
        raise ToolProblem(page.message)
    instants = sorted(
        ((instant, schedule) for schedule in page.value.items for instant in _instants(schedule, until, count)),
        key=lambda pair: pair[0],
    )[:count]
    rows = [with_owner(call, _row(at, schedule, zone), schedule.definition.owner) for at, schedule in instants]
    return Reply({"upcoming": rows, "count": len(rows), "timezone": zone})


def _until(call: Call, given: Arguments, zone: str) -> Instant | None:
    if "until" not in given:
        return None
    try:
        return read_time(given["until"], zone=zone, now=call.scheduler.clock.now()).instant
    except DuetimeError as error:
        raise ToolProblem(f"until: {error.message} Try 'tomorrow 18:00' or 2026-02-10T18:00:00.") from error


def _instants(schedule: Schedule, until: Instant | None, count: int) -> list[Instant]:
    """The next ones of a schedule: its own next instant first, since an edit may have moved it off its rule."""
    first = schedule.progress.next
    if first is None:
        return []
    following = upcoming(trigger_from_json(schedule.definition.trigger), first, min(count, EACH) - 1)
    return [each for each in (first, *following) if until is None or each <= until]


def _row(instant: Instant, schedule: Schedule, zone: str) -> dict[str, Any]:
    definition = schedule.definition
    return {
        "at": instant_view(instant, zone),
        "kind": definition.kind,
        "id": definition.public_id,
        "name": definition.name,
        "reads_as": describe(trigger_from_json(definition.trigger)),
    }


TOOLS = [
    Tool(
        name="list_upcoming",
        family="",
        title="What fires next",
        description=(
            "Everything of the caller's that fires next, in time order, over jobs, prompts and notifications: use it "
            "to answer 'what is scheduled?'. Of a schedule that repeats, the next three times are shown; reads_as says "
            "its rule. Each row has its kind and id; the id is what the tools of that kind take."
        ),
        input=object_schema(
            {
                "until": optional(text("Only up to this time, for example 'tomorrow 18:00' or ISO 8601.")),
                "count": optional(number("How many at most; 20 if absent.", minimum=1, maximum=MOST)),
                "timezone": ZONE,
            }
        ),
        output=result_schema(
            {
                "upcoming": {"type": "array", "items": {"type": "object"}},
                "count": {"type": "integer"},
                "timezone": {"type": "string"},
            }
        ),
        answer=list_upcoming,
        read_only=True,
        idempotent=True,
    )
]
