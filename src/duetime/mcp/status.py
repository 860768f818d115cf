"""The tool `status`: what is set up, whether it runs, what was used and what failed."""

from __future__ import annotations

from duetime.mcp.definitions import Arguments, Reply, Schema, Tool, tool
from duetime.mcp.schemas import ZONE, zone_of
from duetime.mcp.served import tool_id
from duetime.service.services import Call

_OBJECT: Schema = {"type": "object"}
_ROWS: Schema = {"type": "array", "items": _OBJECT}


def status(call: Call, given: Arguments) -> Reply:
    """What is set up and whether it works: server, workers, channels, topics, agents, limits, spending, failures, what
    happens while the server is off, and what each warning code means."""
    from duetime.service.status import status as read_status  # every client waits for what is imported at the start

    view = read_status(call._replace(zone=zone_of(call, given)))
    failures = view["failures_of_the_last_day"]
    latest = [{**row, "id": tool_id(row["id"])} if row["id"] else row for row in failures["latest"]]
    return Reply({**view, "failures_of_the_last_day": {**failures, "latest": latest}})


def status_tool() -> Tool:
    return tool(
        status,
        "Status",
        {"timezone": ZONE},
        {
            "now": {"type": "string"},
            "timezone": {"type": "string"},
            "server": _OBJECT,
            "channels": _ROWS,
            "topics": {"type": "array", "items": {"type": "string"}},
            "default_topic": {"type": ["string", "null"]},
            "agents": _ROWS,
            "limits": _OBJECT,
            "spent": _OBJECT,
            "failures_of_the_last_day": _OBJECT,
            "when_off": {"type": "string"},
            "warnings": _ROWS,
            "warning_codes": _OBJECT,
        },
        read_only=True,
        idempotent=True,
    )
