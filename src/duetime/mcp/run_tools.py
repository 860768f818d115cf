"""The tools for runs of all kinds: `run_now` starts a run besides the trigger and waits for its outcome if asked to,
`stop_run` stops runs while the schedule continues, and `mark_runs` marks messages and failed runs as dealt with."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from duetime.engine.errors import DuetimeError, Refused
from duetime.engine.model import Run, RunStatus
from duetime.engine.result import Err, err_of
from duetime.mcp.definitions import (
    Arguments,
    Reply,
    Tool,
    ToolProblem,
    error_result,
    errors_as_results,
    number,
    text,
    tool,
)
from duetime.mcp.manage_tools import BRIEF
from duetime.mcp.read_tools import row_of
from duetime.mcp.schemas import ERROR, LOOKUP, WARNINGS, ZONE, lookup_fields, with_owner, with_warnings
from duetime.mcp.served import ID, Served, find, one_of, served_run, tool_id
from duetime.service import MOST_SECONDS
from duetime.service.dead_letters import DeadLetterQuery, change_dead
from duetime.service.errors import unwrap
from duetime.service.history import outcome_of
from duetime.service.inbox import mark_messages
from duetime.service.masking import masked
from duetime.service.operations.declaration import Answer
from duetime.service.operations.run import (
    Retry,
    RunAgain,
    RunNow,
    Stop,
    Stopped,
    retry,
    run_again,
    stop,
)
from duetime.service.operations.run import run_now as start_run
from duetime.service.presenters import View, brief_view
from duetime.service.run_control import has_ended, look_again, waited_for
from duetime.service.services import Call

_SHOWN = 100
"""Maximum number of runs that the answer lists."""
_MOST = 100
_MARKS = ("read", "dismiss", "restore")


def run_now_tool(served: Served) -> Tool:
    def run_now(call: Call, given: Arguments) -> Reply:
        """Run a schedule of any kind once, now, besides its own times; or try a failed run again. With wait_seconds the
        answer has the outcome; else history shows it."""
        call = call.in_zone(given.get("timezone"))
        started = _started(served, call, given)
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
            "run_id": number("Or a failed run, to try it again."),
            "fields": {"type": "object", "description": "Inputs changed for a new run: {prompt: ...}."},
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
        },
        wait_argument="wait_seconds",
    )


def _started(served: Served, call: Call, given: Arguments) -> Answer[Run]:
    fields = given.get("fields")
    if one_of(given, "schedule_id", "run_id") == "run_id":
        failed = unwrap(served_run(call, given["run_id"], served)).id
        return run_again(call, RunAgain(run=failed, fields=fields)) if fields else retry(call, Retry(run=failed))
    return start_run(call, RunNow(schedule=unwrap(find(call, given["schedule_id"], served)), fields=fields))


def _unfinished(call: Call, run: Run, view: View, started: Answer[Run]) -> Reply:
    waited = {"ended": False}
    with suppress(DuetimeError):  # the run was started, whether or not the store can be reached at this moment
        waited = waited_for(call.services, run)
    note = " ".join([*started.notes, f"It has not ended yet; history with run_id {run.id} shows what comes of it."])
    answer = with_warnings({"run": view, **waited, "note": note}, started.warnings)
    return Reply(answer, later=partial(_look, call, run, view, started))


def _look(call: Call, run: Run, view: View, started: Answer[Run]) -> Reply:
    """Return the answer as of now."""
    try:
        seen = look_again(call.scheduler, run, call.caller)
        if has_ended(seen):
            return Reply({"run": row_of(call, outcome_of(call.scheduler, seen, call.zone)), "ended": True})
    except DuetimeError:
        return _unfinished(call, run, view, started)
    return _unfinished(call, seen, {**view, "status": seen.status}, started)


def stop_run_tool(served: Served) -> Tool:
    def stop_run(call: Call, given: Arguments) -> Reply:
        """Stop a run in progress, or one that waits; its schedule goes on. To end a schedule too, cancel it."""
        call = call.in_zone(given.get("timezone"))
        try:
            stopped = _stopped(served, call, given)
        except DuetimeError as error:
            err = err_of(error)
            return Reply({**error_result(err).structured, **lookup_fields(err)})
        schedule, zone = stopped.value.schedule, call.zone
        view = {} if schedule is None else {"schedule_id": schedule.definition.public_id, **brief_view(schedule, zone)}
        runs = [row_of(call, outcome_of(call.scheduler, run, zone)) for run in stopped.value.runs[:_SHOWN]]
        facts = {"stopped_count": len(stopped.value.runs), "confirmation": " ".join(stopped.notes)}
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


def _stopped(served: Served, call: Call, given: Arguments) -> Answer[Stopped]:
    if one_of(given, "schedule_id", "run_id") == "run_id":
        return stop(call, Stop(run=unwrap(served_run(call, given["run_id"], served)).id))
    return stop(call, Stop(schedule=unwrap(find(call, given["schedule_id"], served))))


def mark_runs_tool(served: Served) -> Tool:
    def mark_runs(call: Call, given: Arguments) -> Reply:
        """Mark messages as read, or dismiss messages and failed runs that are dealt with; history keeps them."""
        return _mark_runs(served, call, given)

    return tool(
        errors_as_results(mark_runs),
        "Mark runs",
        {
            "run_ids": {"type": "array", "maxItems": _MOST, "description": "Each run_id, as in history."},
            "mark": text("restore undoes dismiss.", enum=list(_MARKS)),
        },
        {
            "marked": {"type": "integer"},
            "notes": {"type": "array", "items": {"type": "string"}, "description": "Why some were not marked."},
            "error": ERROR,
        },
        ("run_ids", "mark"),
        idempotent=True,
    )


def _mark_runs(served: Served, call: Call, given: Arguments) -> Reply:
    mark, ids, messages, failed = given["mark"], given["run_ids"], list[int](), list[int]()
    if not 1 <= len(ids) <= _MOST or any(not isinstance(id, int) or isinstance(id, bool) for id in ids):
        raise ToolProblem(f"run_ids: must be 1 to {_MOST} whole numbers, such as [12, 15].")
    for id in dict.fromkeys(ids):
        found = served_run(call, id, served)
        if isinstance(found, Err):
            return error_result(found)
        (messages if _is_message(call, found.value) else failed).append(id)
    if mark == "read" and failed:
        raise ToolProblem(
            f"Run {failed[0]} is not a message, so it cannot be marked as read; use dismiss for failed runs."
        )
    try:
        marked = mark_messages(call.services, call.caller, messages, mark) if messages else 0
    except Refused as refused:
        return error_result(err_of(refused))
    if not failed:
        return Reply({"marked": marked})
    changed = change_dead(call.services, call.caller, DeadLetterQuery(ids=failed), mark)
    if isinstance(changed, Err):
        return error_result(changed)
    notes = changed.value.reasons()
    return Reply({"marked": marked + len(changed.value.done)} | ({"notes": notes} if notes else {}))


def _is_message(call: Call, run: Run) -> bool:
    messenger = call.scheduler.store.messenger
    return messenger is not None and run.kind == messenger.kind and run.status == RunStatus.COMPLETED
