"""The tools for runs of all kinds: `run_now` starts a run besides the trigger and waits for its outcome if asked to,
`stop_run` stops runs while the schedule continues, `emit_event` starts what waits for an event, and `mark_runs` marks
messages and failed runs as dealt with."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from duetime.engine.errors import DuetimeError
from duetime.mcp.definitions import COUNT, FLAG, OBJECT, ROWS, TEXT, TEXTS, Arguments, Reply
from duetime.mcp.manage_tools import BRIEF
from duetime.mcp.operation_tools import inputs_of, request_of
from duetime.mcp.read_tools import rows_of
from duetime.mcp.schemas import ERROR, LOOKUP, WARNINGS, ZONE, with_owner, with_warnings
from duetime.mcp.served import ID, GenericTools, one_of, tool_id
from duetime.service.masking import masked
from duetime.service.operations.attention import MarkRuns
from duetime.service.operations.attention import mark_runs as mark
from duetime.service.operations.declaration import Answer
from duetime.service.operations.emit import EmitEvent, EventEffect, emit, look_at_runs
from duetime.service.operations.run import RetryRun, RunAgain, RunNow, Stop, retry, run_again, stop
from duetime.service.operations.run import run_now as start_run
from duetime.service.operations.waiting import has_ended, look_again, waited_for
from duetime.service.presenters import View, brief_view
from duetime.service.services import Call
from duetime.service.vocabulary import Run

_SHOWN = 100
"""Maximum number of runs that the answer lists."""
_WAITED = {"ended": FLAG, "reason": {**TEXT, "description": "Why it has not ended."}, "note": TEXT}
tools = GenericTools()


@tools.declare(
    "Run now",
    {"schedule_id": ID, **inputs_of(RetryRun), **inputs_of(RunNow, "schedule"), "timezone": ZONE},
    {"run": OBJECT, **_WAITED, **WARNINGS, "error": ERROR, **LOOKUP},
    wait_argument="wait_seconds",
)
def run_now(call: Call, arguments: Arguments) -> Reply:
    """Run a schedule of any kind once, now, besides its own times; or try a failed run again. With wait_seconds the
    answer has the outcome; else history shows it."""
    answer = _start(call, arguments)
    run = answer.value
    ids = call.scheduler.store.public_ids([run.schedule])
    about = {"id": tool_id(ids[run.schedule]), "run_id": run.id, "kind": run.kind, "name": masked(run.name)}
    view = with_owner(call, {**about, "status": run.status}, run.owner)
    return _unfinished(call, run, view, answer)


def _start(call: Call, arguments: Arguments) -> Answer[Run]:
    if one_of(arguments, "schedule_id", "run_id") == "schedule_id":
        return start_run(call, request_of(RunNow, arguments, schedule=arguments["schedule_id"]))
    if arguments.get("fields"):
        return run_again(call, request_of(RunAgain, arguments))
    return retry(call, request_of(RetryRun, arguments))


def _unfinished(call: Call, run: Run, view: View, start: Answer[Run]) -> Reply:
    waited = {"ended": False}
    with suppress(DuetimeError):  # the run was started, whether or not the store can be reached at this moment
        waited = waited_for(call, run)
    note = " ".join([*start.notes, f"It has not ended yet; history with run_id {run.id} shows what comes of it."])
    answer = with_warnings({"run": view, **waited, "note": note}, start.warnings)
    return Reply(answer, later=partial(_look, call, run, view, start))


def _look(call: Call, run: Run, view: View, start: Answer[Run]) -> Reply:
    """Return the answer as of now."""
    try:
        seen = look_again(call, run)
        if has_ended(seen):
            return Reply({"run": rows_of(call, [seen])[0], "ended": True})
    except DuetimeError:
        return _unfinished(call, run, view, start)
    return _unfinished(call, seen, {**view, "status": seen.status}, start)


@tools.declare(
    "Stop a run",
    {"schedule_id": ID, **inputs_of(Stop, "schedule"), "timezone": ZONE},
    {
        "stopped": ROWS,
        "stopped_count": {**COUNT, "description": "How many have ended; the list shows at most 100."},
        "requested_count": {**COUNT, "description": "How many were asked to stop and go on for now."},
        "confirmation": TEXT,
        "schedule_id": TEXT,
        **{name: BRIEF[name] for name in ("kind", "name", "next_run", "reads_as", "paused_until", "note", "source")},
        "error": ERROR,
        **LOOKUP,
    },
    destructive=True,
    idempotent=True,
)
def stop_run(call: Call, arguments: Arguments) -> Reply:
    """Stop a run in progress, or one that waits; its schedule goes on. To end a schedule too, cancel it."""
    one_of(arguments, "schedule_id", "run_id")
    stopped = stop(call, request_of(Stop, arguments, schedule=arguments.get("schedule_id")))
    schedule, zone = stopped.value.schedule, call.zone
    view = {} if schedule is None else {"schedule_id": schedule.definition.public_id, **brief_view(schedule, zone)}
    runs = rows_of(call, stopped.value.runs[:_SHOWN])
    ended = sum(has_ended(run) for run in stopped.value.runs)
    counts = {"stopped_count": ended, "requested_count": len(stopped.value.runs) - ended}
    facts = {**counts, "confirmation": " ".join(stopped.notes)}
    return Reply({"stopped": runs, **facts, **view})


@tools.declare(
    "Send an event",
    {
        **inputs_of(EmitEvent),
        "data": {**OBJECT, "description": 'Fills {number} in texts: {"number": 42}. At most 256 KiB.'},
    },
    {"event_id": COUNT, "duplicate": FLAG, "runs": ROWS, **_WAITED, **WARNINGS, "error": ERROR},
    ("event",),
    wait_argument="wait_seconds",
)
def emit_event(call: Call, arguments: Arguments) -> Reply:
    """Say that something happened: schedules with when "on NAME" run, and get the data."""
    return _sent(call, emit(call, request_of(EmitEvent, arguments)))


def _sent(call: Call, sent: Answer[EventEffect]) -> Reply:
    effect, warnings, notes = sent
    view = {**effect._asdict(), "runs": rows_of(call, effect.runs), "note": " ".join(notes)}
    answer = with_warnings({name: value for name, value in view.items() if value not in (None, "")}, warnings)
    return Reply(answer, later=None if effect.ended else lambda: _sent(call, look_at_runs(call, sent)))


@tools.declare(
    "Mark runs",
    {"run_ids": inputs_of(MarkRuns)["ids"], **inputs_of(MarkRuns, "ids")},
    {"marked": COUNT, "notes": {**TEXTS, "description": "Why some were not marked."}, "error": ERROR},
    ("run_ids", "mark"),
    idempotent=True,
)
def mark_runs(call: Call, arguments: Arguments) -> Reply:
    """Mark messages as read, or resolve messages, failed runs and problems, which ends reminders."""
    marked, _, notes = mark(call, request_of(MarkRuns, arguments, ids=arguments["run_ids"]))
    return Reply({"marked": marked} | ({"notes": list(notes)} if notes else {}))
