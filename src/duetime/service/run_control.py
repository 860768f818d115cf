"""Control of runs: run a schedule now, also with an edited input, wait for the outcome of a run, and stop runs."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from duetime.engine.encoding import json_object
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.engine.model import LIVE, Cause, Definition, Run, RunId, RunStatus, Schedule, ScheduleState, run_holder
from duetime.engine.policy.options import policy_for_ending
from duetime.engine.queries import NO_RUN, expected
from duetime.engine.result import Err, Ok, Result, err_of
from duetime.engine.scheduler import Scheduler
from duetime.engine.scopes import DELETE
from duetime.engine.store import RunQuery
from duetime.service.lookup import find_schedule
from duetime.service.masking import masked, masked_payload, unmasked_payload
from duetime.service.presenters import instant_view, trigger_shape
from duetime.service.services import NO_WORKER, OPERATOR, Call, Services
from duetime.service.state_details import why_unfinished

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


def run_now(services: Services, caller: Caller, given: str | int, kind: str | None = None) -> Result[Run]:
    """Run a schedule in addition to its trigger. The schedule is found by its id or its name."""
    found = find_schedule(services.scheduler, caller, given, kind)
    if isinstance(found, Err):
        return kept_elsewhere(services, caller, given) or found if found.code == "not_found" else found
    return services.scheduler.run_now(caller, found.value.definition.public_id)


def run_again(
    services: Services,
    caller: Caller,
    run_id: int,
    payload: Mapping[str, Any] | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Result[Run]:
    """Start a new run of a run's schedule with the input of that run, with a whole new input, or with some fields
    changed.

    The input is checked like that of a new schedule, and the schedule keeps its own. Values that are sent back masked
    are restored, unless the input would go to a different destination.
    """
    scheduler = services.scheduler
    run = scheduler.run(caller, run_id)
    if run is None:
        return NO_RUN
    schedule = scheduler.schedule_of(caller, run)
    if schedule is None:
        return Err("not_possible", "its schedule was deleted; create a new one with this input")
    if payload is not None and fields:
        return Err("invalid", "payload: give either the whole input or the fields to change", {"field": "payload"})
    return run_edited(services, caller, schedule, payload, fields or {})


def run_edited(
    services: Services, caller: Caller, schedule: Schedule, payload: Mapping[str, Any] | None, fields: Mapping[str, Any]
) -> Result[Run]:
    """Start a new run of a schedule with its input, with a whole new input, or with some fields changed."""
    definition = schedule.definition
    try:
        # The run names its recipient, such as an agent, so that it stays theirs if the schedule is given to another
        # one.
        whom = services.hooks(definition.kind).handed_to({}, definition.subject)
        given = whom | dict(_edited(definition, payload, fields, caller.depth))
    except InvalidInput as error:
        return err_of(error)
    return services.scheduler.run_with(caller, schedule, given)


def _edited(
    definition: Definition, payload: Mapping[str, Any] | None, fields: Mapping[str, Any], depth: int
) -> Mapping[str, Any]:
    stored = json_object(definition.payload) or {}
    if payload is None:
        payload = {**masked_payload(definition.kind, stored), **fields}
    restored: Mapping[str, Any] = unmasked_payload(definition.kind, dict(payload), stored, depth)
    return restored


def kept_elsewhere(services: Services, caller: Caller, given: str | int) -> Err | None:
    """Return the reason why a schedule that another service keeps cannot be run now; None if no service keeps it."""
    place = next((each.place for each in services.external() if each.actions(caller, str(given))), None)
    reason = f"{given} is kept at {place}, which sends it at its own time only"
    return None if place is None else Err("kept_elsewhere", reason)


def waited_for(services: Services, run: Run) -> dict[str, Any]:
    """Return whether a run has ended and the reason why not, for the answer to somebody who waited for it."""
    if has_ended(run):
        return {"ended": True, "reason": None}
    reason = why_unfinished(services.scheduler, run)
    if reason is None:
        idle = any(each.code == NO_WORKER for each in services.worker_warnings(run.kind))
        reason = "no worker is running" if idle else "no worker has started it"
    return {"ended": False, "reason": reason}


def last_allowed(scheduler: Scheduler, run: Run) -> str | None:
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


def has_ended(run: Run) -> bool:
    return run.status not in LIVE


def look_again(scheduler: Scheduler, run: Run, caller: Caller = OPERATOR) -> Run:
    """Return the run as it is now, and as the caller sees it."""
    return scheduler.run(caller, run.id) or run


def _pauses(seconds: float) -> Iterator[float]:
    """Yield pauses, short ones first, that add up to this many seconds."""
    pause = _FIRST_PAUSE
    while seconds > 0:
        yield min(pause, seconds)
        seconds -= pause
        pause = min(2 * pause, _LONGEST_PAUSE)


async def await_result(first: T, look: Callable[[T], Awaitable[T]], is_over: Callable[[T], bool], seconds: float) -> T:
    """Check again until something is over or the time has passed; return the last state. No thread is blocked between
    two checks, and a check is left out if the owner's other requests occupy all slots."""
    import anyio  # commands start without it

    from duetime.service.owner_limits import TooManyRequests

    seen, deadline = first, anyio.current_time() + seconds
    for pause in _pauses(seconds):
        if is_over(seen) or anyio.current_time() >= deadline:
            break
        await anyio.sleep(pause)
        try:
            seen = await look(seen)
        except TooManyRequests:
            continue
    return seen


def wait_for_end(scheduler: Scheduler, run: Run, seconds: float) -> Run:
    """Block the calling thread until the run has ended or the time has passed; return the run as it is then."""
    for pause in _pauses(seconds):
        if has_ended(run):
            break
        threading.Event().wait(pause)
        run = look_again(scheduler, run)
    return run


# Stopping runs that are in progress or waiting, while their schedule continues.

MOST: Final = 1_000
"""Maximum number of runs of one status that one round stops."""
_ROUNDS: Final = 3
_PAGE: Final = 100
_NAMED: Final = 20
"""Maximum number of runs that a confirmation names one by one."""
_IN_TURN: Final = (RunStatus.QUEUED, RunStatus.PENDING, RunStatus.WAITING, RunStatus.RUNNING)
"""Queued runs come first, because the end of an active run starts the next of them."""
_NOT_YET: Final = "It has not ended yet: a task ends when it checks for the request, or at its timeout."


class Stopped(NamedTuple):
    """The runs that were stopped, and their schedule, which continues."""

    runs: list[Run]
    """As they are now: cancelled, or still running and asked to stop."""
    schedule: Schedule | None
    """None if it was deleted."""


def stop_run(scheduler: Scheduler, caller: Caller, run_id: int) -> Result[Stopped]:
    """Stop one run. It ends at once if it has not begun, and is asked to stop if it has."""
    done = scheduler.cancel_run(caller, run_id)
    run = None if isinstance(done, Err) else scheduler.run(caller, run_id)
    if isinstance(done, Err) or run is None:
        return done if isinstance(done, Err) else Err("not_found", "there is no such run")
    return Ok(Stopped([run], scheduler.schedule_of(caller, run)))


@expected
def stop_runs(scheduler: Scheduler, caller: Caller, schedule: Schedule) -> Result[Stopped]:
    """Stop every run of a schedule that is in progress or waiting. In a very long queue, the oldest runs stay."""
    scheduler.check_scopes(caller, DELETE, schedule.definition)
    stopped: dict[RunId, Run] = {}
    for _ in range(_ROUNDS):  # again for runs that have begun or become due meanwhile
        before = len(stopped)
        for status in _IN_TURN:
            query = RunQuery(schedule=schedule.definition.id, status=status, limit=_PAGE, count_to=0)
            failed = _stop_found(scheduler, caller, query, stopped)
            if failed is not None:
                return failed
        if len(stopped) == before:
            break
    if not stopped:
        return Err("not_possible", "none of its runs is in progress or waits, so there is nothing to stop")
    active_first = sorted(stopped.values(), key=lambda run: run.status not in LIVE)
    return Ok(Stopped(active_first, scheduler.find(caller, schedule.definition.public_id)))


def _stop_found(scheduler: Scheduler, caller: Caller, query: RunQuery, stopped: dict[RunId, Run]) -> Err | None:
    """Stop the runs that a query finds, latest first and at most `MOST`, and add them to `stopped`."""
    most = len(stopped) + MOST
    while len(stopped) < most:
        found = scheduler.runs(caller, query)
        if isinstance(found, Err):
            return found
        for run in found.value.items:
            if run.id in stopped or len(stopped) == most:  # a run that was asked to stop has not ended yet
                continue
            done = stop_run(scheduler, caller, run.id)
            if not isinstance(done, Err):
                stopped[run.id] = done.value.runs[0]
            elif done.code != "not_possible":  # it has not ended by itself meanwhile
                return done
        if found.value.cursor is None:
            break
        query = replace(query, cursor=found.value.cursor)
    return None


def what_was_stopped(stopped: Stopped, zone: str) -> str:
    """Return a sentence about each run, and one about when the schedule continues."""
    asked = [run for run in stopped.runs if run.status in LIVE]
    said = [
        f"Run {run.id} of {masked(run.name)} {'was asked to stop' if run in asked else f'is {run.status}'}."
        for run in stopped.runs[:_NAMED]
    ]
    if len(stopped.runs) > _NAMED:
        said.append(f"{len(stopped.runs) - _NAMED} more were stopped or asked to stop.")
    if len(stopped.runs) >= MOST and stopped.schedule is not None and stopped.schedule.progress.queued:
        said.append("More are queued; stop it again to stop those too.")
    return " ".join([*said, _goes_on(stopped.schedule, zone), *([_NOT_YET] if asked else [])])


def _goes_on(schedule: Schedule | None, zone: str) -> str:
    if schedule is not None and schedule.progress.state == ScheduleState.PAUSED:
        return "Its schedule is paused."
    following = None if schedule is None else instant_view(schedule.progress.next, zone)
    return "Its schedule does not run again." if following is None else f"Its schedule runs next at {following}."


# Handovers: an agent that promised a later result may have it before the promise is stored.

CHECKS, PAUSE = 50, 0.1
"""How many times, and after how many seconds each, to check whether a run was handed over."""


async def await_handover(is_early: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the run can be finished, without blocking a thread. Call this before finishing, because the handover
    may come between a refusal and a check after it."""
    import anyio

    for _ in range(CHECKS):
        if not await is_early():
            break
        await anyio.sleep(PAUSE)


def is_own_run(call: Call, run_id: int) -> bool:
    """Return whether the caller's own token is for this run, and a worker still holds the run."""
    run = call.scheduler.run(call.caller, run_id)
    if run is None or run.status != RunStatus.RUNNING:
        return False
    return call.caller.holder == run_holder(run.id, run.fence)
