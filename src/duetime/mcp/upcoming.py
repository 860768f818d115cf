"""The tool `list_upcoming`: what fires next, over all kinds."""

from __future__ import annotations

from typing import Any

from duetime.mcp.definitions import Arguments, Reply, Tool, number, text, tool
from duetime.mcp.schemas import WARNINGS, ZONE, with_owner, zone_of
from duetime.mcp.served import Served, instant_in, with_tool_id
from duetime.service.kind_spec import Window
from duetime.service.services import Call
from duetime.service.upcoming import upcoming

MOST = 100


def upcoming_tool(served: Served) -> Tool:
    def list_upcoming(call: Call, given: Arguments) -> Reply:
        zone = zone_of(call, given)
        window = Window(
            call.scheduler.clock.now(),
            given.get("count", 20),
            instant_in(call, given, "from", zone),
            instant_in(call, given, "until", zone, last=True),
            served.kinds(given),
            given.get("topic"),
            given.get("include_paused", False),
        )
        found = upcoming(call.services, call.caller, window, zone)
        rows = [_row(call, row) for row in found.rows]
        answer = {"upcoming": rows, "count": len(rows), "more": found.more, "timezone": zone}
        further = {"later": [_row(call, row) for row in found.later], "warnings": found.warnings}
        return Reply(answer | {name: value for name, value in further.items() if value})

    list_upcoming.__doc__ = (
        f"What fires next, in time order, over {served.plurals}: answers 'what is scheduled?'. more: the list was cut; "
        "later has the schedules that are not in it."
    )
    return tool(
        list_upcoming,
        "What fires next",
        {
            "from": text("From then: tomorrow."),
            "until": text("Until then: 2026-02-10."),
            "kind": served.kind_argument,
            "topic": text("Only to this topic."),
            "include_paused": {"type": "boolean", "description": "Paused ones too."},
            "count": number("At most; default 20.", minimum=1, maximum=MOST),
            "timezone": ZONE,
        },
        {
            "upcoming": {"type": "array", "items": {"type": "object"}},
            "count": {"type": "integer"},
            "more": {"type": "boolean"},
            "later": {"type": "array", "items": {"type": "object"}},
            "timezone": {"type": "string"},
            "warnings": WARNINGS["warnings"],
        },
        read_only=True,
        idempotent=True,
        lists_schedules=True,
    )


def _row(call: Call, row: dict[str, Any]) -> dict[str, Any]:
    owner = row.pop("owner")
    shown = {name: value for name, value in with_tool_id(row).items() if value is not None}
    return with_owner(call, shown, owner)
