"""The tools for runs of all kinds: `run_now` starts a run besides the trigger and waits for its outcome if asked to,
`stop_run` stops runs while the schedule continues, and `mark_runs` marks messages and failed runs as dealt with."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from duetime.engine.errors import DuetimeError, Refused
from duetime.engine.model import Run, RunStatus
from duetime.engine.result import Err, Result, err_of
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
from duetime.mcp.schemas import ERROR, LOOKUP, WARNINGS, ZONE, lookup_fields, with_owner, with_warnings, zone_of
from duetime.mcp.served import ID, Served, find, one_of, served_run, tool_id
from duetime.service import MOST_SECONDS
from duetime.service.dead_letters import DeadLetterQuery, change_dead
from duetime.service.history import outcome_of
from duetime.service.inbox import mark_messages
from duetime.service.kind_spec import ScheduleWarning
from duetime.service.masking import masked
from duetime.service.presenters import View, brief_view
from duetime.service.run_control import (
    Stopped,
    has_ended,
    kept_elsewhere,
    last_allowed,
    look_again,
    run_again,
    run_edited,
    stop_runs,
    waited_for,
    what_was_stopped,
)
from duetime.service.run_control import stop_run as stop_one
from duetime.service.services import Call

_SHOWN = 100
"""Maximum number of runs that the answer lists."""
_MOST = 100
_MARKS = ("read", "dismiss", "restore")


def run_now_tool(served: Served) -> Tool:
    def run_now(call: Call, given: Arguments) -> Reply:
        """Run a schedule of any kind once, now, besides its own times; or try a failed run again. With wait_seconds the
        answer has the outcome; else history shows it."""
        zone = zone_of(call, given)
        started = _started(served, call, given)
        if isinstance(started, Err):
            return error_result(started)
        run = started.value
        ids = call.scheduler.store.public_ids([run.schedule])
        about = {"id": tool_id(ids[run.schedule]), "run_id": run.id, "kind": run.kind, "name": masked(run.name)}
        view = with_owner(call, {**about, "status": run.status}, run.owner)
        return _unfinished(call, run, zone, view, call.services.worker_warnings(run.kind))

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


def _started(served: Served, call: Call, given: Arguments) -> Result[Run]:
    fields = given.get("fields")
    if one_of(given, "schedule_id", "run_id") == "run_id":
        failed = served_run(call, given["run_id"], served)
        if isinstance(failed, Err):
            return failed
        if fields:
            return run_again(call.services, call.caller, failed.value.id, fields=fields)
        return call.scheduler.retry(call.caller, failed.value.id)
    found = find(call, given["schedule_id"], served)
    if isinstance(found, Err):
        return kept_elsewhere(call.services, call.caller, given["schedule_id"]) or found
    if fields:
        return run_edited(call.services, call.caller, found.value, None, fields)
    return call.scheduler.run_now(call.caller, found.value.definition.public_id)


def _unfinished(call: Call, run: Run, zone: str, view: View, warnings: Sequence[ScheduleWarning]) -> Reply:
    note = f"It has not ended yet; history with run_id {run.id} shows what comes of it."
    waited = {"ended": False}
    with suppress(DuetimeError):  # the run was started, whether or not the store can be reached at this moment
        waited = waited_for(call.services, run)
        note = " ".join(filter(None, (last_allowed(call.scheduler, run), note)))
    answer = with_warnings({"run": view, **waited, "note": note}, warnings)
    return Reply(answer, later=partial(_look, call, run, zone, view, warnings))


def _look(call: Call, run: Run, zone: str, view: View, warnings: Sequence[ScheduleWarning]) -> Reply:
    """Return the answer as of now."""
    try:
        seen = look_again(call.scheduler, run, call.caller)
        if has_ended(seen):
            return Reply({"run": row_of(call, outcome_of(call.scheduler, seen, zone)), "ended": True})
    except DuetimeError:
        return _unfinished(call, run, zone, view, warnings)
    return _unfinished(call, seen, zone, {**view, "status": seen.status}, warnings)


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
