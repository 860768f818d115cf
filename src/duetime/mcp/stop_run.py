"""The tool `stop_run`: stops what runs now, while its schedule goes on."""

from __future__ import annotations

from duetime.engine.result import Err, Result
from duetime.mcp.definitions import Arguments, Reply, Tool, error_result, errors_as_results, number, tool
from duetime.mcp.history import row_of
from duetime.mcp.manage_tools import BRIEF
from duetime.mcp.schemas import ERROR, LOOKUP, ZONE, lookup_fields, zone_of
from duetime.mcp.served import ID, Served, find, one_of, served_run
from duetime.service.history import outcome_of
from duetime.service.presenters import brief_view
from duetime.service.services import Call
from duetime.service.stop_runs import Stopped, stop_runs, what_was_stopped
from duetime.service.stop_runs import stop_run as stop_one

_SHOWN = 100
"""Runs that the answer lists."""


def stop_run_tool(served: Served) -> Tool:
    def stop_run(call: Call, given: Arguments) -> Reply:
        """Stop a run in progress, or one that waits; its schedule goes on. To end a schedule too, cancel it."""
        zone = zone_of(call, given)
        done = _stopped(served, call, given)
        if isinstance(done, Err):
            return Reply({**error_result(done).structured, **lookup_fields(done)})
        schedule = done.value.schedule
        view = {} if schedule is None else {"schedule_id": schedule.definition.public_id, **brief_view(schedule, zone)}
        runs = [row_of(call, outcome_of(call.scheduler, run, zone)) for run in done.value.runs[:_SHOWN]]
        facts = {"stopped_count": len(done.value.runs), "confirmation": what_was_stopped(done.value, zone)}
        return Reply({"stopped": runs, **facts, **view})

    return tool(
        errors_as_results(stop_run),
        "Stop a run",
        {"schedule_id": ID, "run_id": number("Or one run of it."), "timezone": ZONE},
        {
            "stopped": {"type": "array", "items": {"type": "object"}},
            "stopped_count": {"type": "integer", "description": "How many; the list shows at most 100."},
            "confirmation": {"type": "string"},
            "schedule_id": {"type": "string"},
            **{name: BRIEF[name] for name in ("kind", "name", "next_run", "reads_as", "paused_until", "note")},
            "error": ERROR,
            **LOOKUP,
        },
        destructive=True,
        idempotent=True,
    )


def _stopped(served: Served, call: Call, given: Arguments) -> Result[Stopped]:
    if one_of(given, "schedule_id", "run_id") == "run_id":
        run = served_run(call, given["run_id"], served)
        return run if isinstance(run, Err) else stop_one(call.scheduler, call.caller, run.value.id)
    found = find(call, given["schedule_id"], served)
    return found if isinstance(found, Err) else stop_runs(call.scheduler, call.caller, found.value)
