"""Running a schedule now, also with an edited input, and waiting for its end for a limited time."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeVar

from duetime.engine.encoding import json_object
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.engine.model import LIVE, Definition, Run, RunStatus, Schedule, ScheduleState
from duetime.engine.result import Err, Result, err_of
from duetime.engine.scheduler import NO_RUN, Scheduler
from duetime.engine.store import RunQuery
from duetime.service.lookup import find_schedule
from duetime.service.masking import masked_payload, unmasked_payload
from duetime.service.services import Services

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


def run_now(services: Services, caller: Caller, given: str | int, kind: str | None = None) -> Result[Run]:
    """Run a schedule in addition to its trigger. It is found by its id or its name."""
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
    """Start a new run of a run's schedule, with the input of that run, with another whole input, or with some fields of
    it changed. The input is checked as that of a new schedule, and the schedule keeps its own.

    Values that are sent back masked are restored, unless the input would go to another destination.
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
    services: Services,
    caller: Caller,
    schedule: Schedule,
    payload: Mapping[str, Any] | None,
    fields: Mapping[str, Any],
) -> Result[Run]:
    """Start a new run of a schedule with its input, with another whole input, or with some fields of it changed."""
    definition = schedule.definition
    try:
        # The run names whom it is for, such as an agent, so that it stays theirs if the schedule goes to another one.
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
    """Return why a schedule that another service keeps cannot be run now; None if no service keeps it."""
    place = next((each.place for each in services.external() if each.actions(caller, str(given))), None)
    reason = f"{given} is kept at {place}, which sends it at its own time only"
    return None if place is None else Err("kept_elsewhere", reason)


def why_it_waits(scheduler: Scheduler, run: Run) -> str | None:
    """Return why a run that was asked for does not start at once; None if it does."""
    if run.status != RunStatus.QUEUED:
        return None
    reason, schedule = "It is queued behind an earlier run", scheduler.store.get(run.schedule)
    if schedule is None or schedule.progress.state != ScheduleState.PAUSED:
        return f"{reason}."
    query = RunQuery(schedule=run.schedule, status="live", count_to=0)
    active = [each for each in scheduler.store.runs(query).items if each.status != RunStatus.QUEUED]
    held = [each for each in active if each.status == RunStatus.PENDING and scheduler.store.starts_at(each) is None]
    return f"{reason}, which waits until the schedule is resumed." if active and held == active else f"{reason}."


def has_ended(run: Run) -> bool:
    return run.status not in LIVE


def look_again(scheduler: Scheduler, run: Run) -> Run:
    """Return the run as it is now."""
    return scheduler.store.run(run.id) or run


def _pauses(seconds: float) -> Iterator[float]:
    """Yield pauses, short ones first, that take so many seconds together."""
    pause = _FIRST_PAUSE
    while seconds > 0:
        yield min(pause, seconds)
        seconds -= pause
        pause = min(2 * pause, _LONGEST_PAUSE)


async def await_result(first: T, look: Callable[[T], Awaitable[T]], is_over: Callable[[T], bool], seconds: float) -> T:
    """Look again until something is over or the time has passed; return what was seen last. No thread is blocked
    between two looks, and a look that the owner's other requests prevent is left out."""
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
