"""Starts and stops runs of schedules of every kind: now, again with an edited input, after a failure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Final, NamedTuple

from duetime.engine.clock import Instant
from duetime.engine.encoding import json_object
from duetime.engine.errors import DuetimeError, Refused
from duetime.engine.model import LIVE, Cause, Run, RunId, RunStatus, Schedule, ScheduleState
from duetime.engine.policy.options import is_gated, policy_for_ending
from duetime.engine.scheduler import Scheduler
from duetime.engine.scopes import DELETE
from duetime.engine.store import RunQuery
from duetime.engine.value_class import dataclass
from duetime.service import MOST_SECONDS
from duetime.service.errors import refuse
from duetime.service.lookup import find
from duetime.service.masking import masked, masked_payload, unmasked_payload
from duetime.service.operations.change_runs import IN_TURN
from duetime.service.operations.dead_letters import chosen_runs
from duetime.service.operations.declaration import Answer, Field, OperationRequest, ScheduleReference
from duetime.service.operations.history import ShowRun, show_run
from duetime.service.presenters import instant_view, trigger_shape
from duetime.service.services import Call
from duetime.service.when import duration

InputFields = Annotated[
    Mapping[str, Any] | None,
    Field(
        "Fields of the input to change for this run; the others stay.",
        brief="Inputs changed for a new run: {prompt: ...}.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNow(OperationRequest):
    """A run of a schedule besides its own times."""

    schedule: Annotated[ScheduleReference, Field("Its id or name.")]
    fields: InputFields = None
    force: Annotated[bool, Field("Without a check of its condition `only_if`.", brief="Whatever only_if says.")] = False
    wait_seconds: Annotated[
        float,
        Field(
            "How long to wait for the run to end.", "Wait for the outcome; default 0.", minimum=0, maximum=MOST_SECONDS
        ),
    ] = 0
    kind: str | None = None
    """The only kind that is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAgain(OperationRequest):
    """A new run with the input of an earlier one. The schedule keeps its own input."""

    run: Annotated[int, Field("The number of a run.", name="run_id")]
    payload: Annotated[Mapping[str, Any] | None, Field("The whole input, instead of `fields`.")] = None
    fields: InputFields = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRun(OperationRequest):
    """Another attempt of a run that failed, was lost or was cancelled. It keeps its number."""

    run: Annotated[int, Field("The number of the run.", brief="Or a failed run, to try it again.", name="run_id")]
    only_dead: bool = False
    """Find no run that neither failed nor was lost."""


def run_now(call: Call, request: RunNow) -> Answer[Run]:
    """Run a schedule in addition to its trigger. Interfaces wait for the run with `look_again`."""
    schedule = find(call, request.schedule, request.kind)
    if request.force and call.caller.depth and is_gated(schedule.definition.policy):
        raise refuse("not_possible", "force: an agent's run cannot pass over only_if; ask a person to do it", "force")
    if request.fields:
        return _answer(call, _run_edited(call, schedule, None, request.fields, force=request.force))
    return _answer(call, call.scheduler.run_now(call.caller, schedule.definition.public_id, force=request.force))


def run_again(call: Call, request: RunAgain) -> Answer[Run]:
    """Start a new run of a run's schedule with the input of that run, with a whole new input, or with some fields
    changed.

    The input is checked like that of a new schedule. Values that are sent back masked are restored, unless the input
    would go to a different destination.
    """
    run = show_run(call, ShowRun(run=request.run)).value
    schedule = call.scheduler.schedule_of(call.caller, run)
    if schedule is None:
        raise refuse("not_possible", "its schedule was deleted; create a new one with this input")
    if request.payload is not None and request.fields:
        raise refuse("invalid", "payload: give either the whole input or the fields to change", "payload")
    force = call.caller.depth == 0  # a person who repeats this very input wants it now
    return _answer(call, _run_edited(call, schedule, request.payload, request.fields or {}, force=force))


def retry(call: Call, request: RetryRun) -> Answer[Run]:
    """Retry a run that failed, was lost or was cancelled."""
    run = show_run(call, ShowRun(run=request.run)).value
    if request.only_dead and run.status not in (RunStatus.FAILED, RunStatus.LOST):
        raise refuse("not_found", "there is no such run among those that failed")
    return _answer(call, call.scheduler.retry(call.caller, request.run))


def _run_edited(
    call: Call, schedule: Schedule, payload: Mapping[str, Any] | None, fields: Mapping[str, Any], *, force: bool
) -> Run:
    """Start a new run of a schedule with its input, with a whole new input, or with some fields changed."""
    definition, stored = schedule.definition, json_object(schedule.definition.payload) or {}
    input = {**masked_payload(definition.kind, stored), **fields} if payload is None else dict(payload)
    restored = unmasked_payload(definition.kind, input, stored, call.caller.depth)
    # The run names its recipient, such as an agent, so that it stays theirs if the schedule is given to another one.
    recipient = call.services.hooks(definition.kind).handed_to({}, definition.subject)
    return call.scheduler.run_with(call.caller, schedule, recipient | restored, force=force)


def _answer(call: Call, run: Run) -> Answer[Run]:
    """Return a run that was started, with the reasons why it might not begin, and whether anything follows it."""
    with suppress(DuetimeError):  # the run was started, whether or not the store can be reached at this moment
        note = _last_allowed(call.scheduler, run)
        return Answer(run, call.services.worker_warnings(run.kind), [] if note is None else [note])
    return Answer(run)


def _last_allowed(scheduler: Scheduler, run: Run) -> str | None:
    """Return a sentence that nothing follows a requested run, because it is the last one that `max_runs` allows;
    otherwise None."""
    schedule = scheduler.store.get(run.schedule) if run.cause == Cause.MANUAL else None
    if schedule is None or schedule.progress.next is not None:
        return None
    limit = policy_for_ending(schedule.definition.policy).max_runs
    once = trigger_shape(schedule.definition.trigger)["type"] == "once"
    if limit is None or once or schedule.progress.run_count < limit:
        return None
    return f"It is the last of {limit} that max_runs allows, so that nothing follows; raise max_runs to let it go on."


# Stopping runs that are in progress or waiting, while their schedule continues.

_NAMED: Final = 20
"""Maximum number of runs that a confirmation names one by one."""
_LISTENING: Final = (
    "A task ends when it checks for the request, or at its timeout. One that runs in a process of its own (isolation "
    "process) is ended at once."
)
_NOT_YET: Final = f"It has not ended yet. {_LISTENING}"


class StoppedRuns(NamedTuple):
    """The runs that were stopped, and their schedule, which continues."""

    runs: list[Run]
    """As they are now: cancelled, or still running and asked to stop."""
    schedule: Schedule | None
    """None if it was deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(OperationRequest):
    """The end of a run, or of all runs of a schedule that are in progress or waiting, while the schedule continues."""

    schedule: Annotated[ScheduleReference | None, Field("Its id or name.")] = None
    run: Annotated[int | None, Field("One run of it.", brief="Or one run of it.", name="run_id")] = None
    after: Annotated[
        str | None,
        Field("Stop it only when it has run this long, such as 10m.", brief="Once it ran 10m.", max_length=200),
    ] = None
    kind: str | None = None
    """The only kind of schedule that is looked for."""


def stop(call: Call, request: Stop) -> Answer[StoppedRuns]:
    """Stop runs. One that has not begun ends at once; one that has begun is asked to stop."""
    if (request.schedule is None) == (request.run is None):
        raise refuse("invalid", "schedule: give either a schedule or a run to stop", "schedule")
    if request.after is not None and request.run is None:
        raise refuse("invalid", "after: is for one run; give its number", "after")
    if request.run is not None:
        one = ShowRun(run=request.run)
        run = show_run(call, one).value
        after = None if request.after is None else duration(request.after, "after")
        deadline = None if after is None else Instant((run.started or run.due) + after)
        call.scheduler.cancel_run(call.caller, request.run, deadline)
        run = show_run(call, one).value
        stopped = StoppedRuns([run], call.scheduler.schedule_of(call.caller, run))
        if deadline is not None:
            later = f"is asked to stop at {instant_view(deadline, call.zone)}, unless it ends before."
            return Answer(stopped, (), [f"Run {run.id} of {masked(run.name)} {later}", _LISTENING])
    else:
        assert request.schedule is not None
        stopped = _stop_all(call, find(call, request.schedule, request.kind))
    return Answer(stopped, (), _sentences(stopped, call.zone))


def _stop_all(call: Call, schedule: Schedule) -> StoppedRuns:
    """Stop every run of a schedule that is in progress or waiting."""
    call.scheduler.check_scopes(call.caller, DELETE, schedule.definition)
    stopped: dict[RunId, Run] = {}
    for status in (*IN_TURN, *IN_TURN):  # again for runs that have begun or become due meanwhile
        for runs, _ in chosen_runs(call, RunQuery(schedule=schedule.definition.id, status=status), None):
            # A run that was asked to stop has not ended yet, and one that has ended by itself is refused.
            results = call.scheduler.cancel_runs(call.caller, [run for run in runs if run.id not in stopped])
            stopped |= {run.id: run for run in results if not isinstance(run, Refused)}
    if not stopped:
        raise refuse("not_possible", "none of its runs is in progress or waits, so there is nothing to stop")
    active_first = sorted(stopped.values(), key=lambda run: run.status not in LIVE)
    return StoppedRuns(active_first, call.scheduler.find(call.caller, schedule.definition.public_id))


def _sentences(stopped: StoppedRuns, zone: str) -> list[str]:
    """Return a sentence about each run, and one about when the schedule continues."""
    stopping = [run for run in stopped.runs if run.status in LIVE]
    sentences = [
        f"Run {run.id} of {masked(run.name)} {'was asked to stop' if run in stopping else f'is {run.status}'}."
        for run in stopped.runs[:_NAMED]
    ]
    if len(stopped.runs) > _NAMED:
        sentences.append(f"{len(stopped.runs) - _NAMED} more were stopped or asked to stop.")
    return [*sentences, _goes_on(stopped.schedule, zone), *([_NOT_YET] if stopping else [])]


def _goes_on(schedule: Schedule | None, zone: str) -> str:
    if schedule is not None and schedule.progress.state == ScheduleState.PAUSED:
        return "Its schedule is paused."
    following = None if schedule is None else instant_view(schedule.progress.next, zone)
    return "Its schedule does not run again." if following is None else f"Its schedule runs next at {following}."
