"""The tools for runs of all kinds: `run_now` starts a run besides the trigger and waits for its outcome if asked to,
`stop_run` stops runs while the schedule continues, and `mark_runs` marks messages and failed runs as dealt with."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from duetime.engine.errors import DuetimeError
from duetime.mcp.definitions import Arguments, Reply, Tool, errors_as_results, tool
from duetime.mcp.manage_tools import BRIEF
from duetime.mcp.operation_tools import inputs_of, request_of
from duetime.mcp.read_tools import rows_of
from duetime.mcp.schemas import ERROR, LOOKUP, WARNINGS, ZONE, with_owner, with_warnings
from duetime.mcp.served import ID, Served, one_of, tool_id
from duetime.service import MOST_SECONDS
from duetime.service.masking import masked
from duetime.service.operations.dead_letters import MarkRuns
from duetime.service.operations.dead_letters import mark_runs as mark
from duetime.service.operations.declaration import Answer
from duetime.service.operations.run import RetryRun, RunAgain, RunNow, Stop, retry, run_again, stop
from duetime.service.operations.run import run_now as start_run
from duetime.service.operations.waiting import has_ended, look_again, waited_for
from duetime.service.presenters import View, brief_view
from duetime.service.services import Call
from duetime.service.vocabulary import Run

_SHOWN = 100
"""Maximum number of runs that the answer lists."""


def run_now_tool(served: Served) -> Tool:
    def run_now(call: Call, given: Arguments) -> Reply:
        """Run a schedule of any kind once, now, besides its own times; or try a failed run again. With wait_seconds the
        answer has the outcome; else history shows it."""
        call = served.call(call, given)
        started = _started(call, given)
        run = started.value
        ids = call.scheduler.store.public_ids([run.schedule])
        about = {"id": tool_id(ids[run.schedule]), "run_id": run.id, "kind": run.kind, "name": masked(run.name)}
        view = with_owner(call, {**about, "status": run.status}, run.owner)
        return _unfinished(call, run, view, started)

    return tool(
        errors_as_results(run_now),
        "Run now",
        {
            "schedule_id": ID,
            **inputs_of(RetryRun),
            **inputs_of(RunNow, "schedule"),
            "wait_seconds": {
                "type": "number",
                "minimum": 0,
                "maximum": MOST_SECONDS,
                "description": "Wait for the outcome; default 0.",
            },
            "timezone": ZONE,
        },
        {
            "run": {"type": "object"},
            "ended": {"type": "boolean"},
            "reason": {"type": "string", "description": "Why it has not ended."},
            "note": {"type": "string"},
            **WARNINGS,
            "error": ERROR,
            **LOOKUP,
        },
        wait_argument="wait_seconds",
    )


def _started(call: Call, given: Arguments) -> Answer[Run]:
    if one_of(given, "schedule_id", "run_id") == "schedule_id":
        return start_run(call, request_of(RunNow, given, schedule=given["schedule_id"]))
    if given.get("fields"):
        return run_again(call, request_of(RunAgain, given))
    return retry(call, request_of(RetryRun, given))


def _unfinished(call: Call, run: Run, view: View, started: Answer[Run]) -> Reply:
    waited = {"ended": False}
    with suppress(DuetimeError):  # the run was started, whether or not the store can be reached at this moment
        waited = waited_for(call, run)
    note = " ".join([*started.notes, f"It has not ended yet; history with run_id {run.id} shows what comes of it."])
    answer = with_warnings({"run": view, **waited, "note": note}, started.warnings)
    return Reply(answer, later=partial(_look, call, run, view, started))


def _look(call: Call, run: Run, view: View, started: Answer[Run]) -> Reply:
    """Return the answer as of now."""
    try:
        seen = look_again(call, run)
        if has_ended(seen):
            return Reply({"run": rows_of(call, [seen])[0], "ended": True})
    except DuetimeError:
        return _unfinished(call, run, view, started)
    return _unfinished(call, seen, {**view, "status": seen.status}, started)


def stop_run_tool(served: Served) -> Tool:
    def stop_run(call: Call, given: Arguments) -> Reply:
        """Stop a run in progress, or one that waits; its schedule goes on. To end a schedule too, cancel it."""
        call = served.call(call, given)
        one_of(given, "schedule_id", "run_id")
        stopped = stop(call, request_of(Stop, given, schedule=given.get("schedule_id")))
        schedule, zone = stopped.value.schedule, call.zone
        view = {} if schedule is None else {"schedule_id": schedule.definition.public_id, **brief_view(schedule, zone)}
        runs = rows_of(call, stopped.value.runs[:_SHOWN])
        facts = {"stopped_count": len(stopped.value.runs), "confirmation": " ".join(stopped.notes)}
        return Reply({"stopped": runs, **facts, **view})

    return tool(
        errors_as_results(stop_run),
        "Stop a run",
        {"schedule_id": ID, **inputs_of(Stop, "schedule"), "timezone": ZONE},
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


def mark_runs_tool(served: Served) -> Tool:
    def mark_runs(call: Call, given: Arguments) -> Reply:
        """Mark messages as read, or dismiss messages and failed runs that are dealt with; history keeps them."""
        marked, _, notes = mark(served.call(call, given), request_of(MarkRuns, given))
        return Reply({"marked": marked} | ({"notes": list(notes)} if notes else {}))

    return tool(
        errors_as_results(mark_runs),
        "Mark runs",
        inputs_of(MarkRuns),
        {
            "marked": {"type": "integer"},
            "notes": {"type": "array", "items": {"type": "string"}, "description": "Why some were not marked."},
            "error": ERROR,
        },
        ("run_ids", "mark"),
        idempotent=True,
    )
