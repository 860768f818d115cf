"""The values that the methods of the Python API return, and the methods for one schedule: by its id, or of a
`Schedule`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import NoneType
from typing import Any, Concatenate, Unpack, overload

from duetime.api.edit import edit_schedule, read_time_of
from duetime.api.methods import (
    AsynchronousSchedule,
    BlockingSchedule,
    CallThreads,
    Method,
    Opened,
    P,
    S,
    Steps,
    T,
    method,
    waits,
)
from duetime.api.types import EditOptions, Id, RunFilters, RunList
from duetime.engine import model
from duetime.engine.clock import SystemClock
from duetime.engine.errors import NotFound
from duetime.engine.value_class import dataclass
from duetime.service import lookup
from duetime.service.answers import Created, Run
from duetime.service.errors import refuse
from duetime.service.operations.change import Cancel, ChangeRequest, Delete, Pause, Restore, Resume, change
from duetime.service.operations.declaration import Answer, check_type, is_naive, read_range
from duetime.service.operations.history import History, ShowRun, history_with_facts, run_views, show_run
from duetime.service.operations.run import RunNow, Stop, run_now, stop
from duetime.service.operations.schedules import detail_of, details_of
from duetime.service.operations.waiting import has_ended, waited_for
from duetime.service.options import Time
from duetime.service.presenters import schedule_shape
from duetime.service.services import Call
from duetime.service.warnings import warning_facts

OPEN = frozenset({"pending", "running", "paused"})
"""Statuses of schedules that may still fire."""
SECONDS_BETWEEN_READS = 0.05
"""How long to wait between two reads of the store while waiting."""


def schedule_method(function: Callable[Concatenate[S, P], Schedule]) -> Method[P, Schedule, AsyncSchedule]:
    """Declare a method that returns a schedule."""
    return Method(function, returns_schedules=True)


@overload
def schedules_method(
    function: Callable[Concatenate[S, P], list[Schedule]],
) -> Method[P, list[Schedule], list[AsyncSchedule]]: ...
@overload
def schedules_method(
    function: Callable[Concatenate[S, P], Schedule | None],
) -> Method[P, Schedule | None, AsyncSchedule | None]: ...
def schedules_method(function: Callable[..., Any]) -> Method[..., Any, Any]:
    """Declare a method that returns several schedules, or perhaps none."""
    return Method(function, returns_schedules=True)


class ScheduleMethods:
    """The methods for one schedule, to which `Duetime` passes an id and which a `Schedule` has itself."""

    __slots__ = ()

    @schedule_method
    def edit(self: Opened, id: Id, **changes: Unpack[EditOptions]) -> Schedule:
        """Change the times, policy, name or payload of a schedule. Anything not given stays as it is.

        If a recurring schedule is running, the change applies from its next run on; a one-off that is running cannot be
        edited.
        """
        (schedule, limits, running, _), warnings, notes = edit_schedule(self._call, find(self._call, id), changes)
        facts = warning_facts(warnings)
        return schedule_of(self._call, schedule, **facts, notes=notes, running=running, limits=limits)

    @schedule_method
    def pause(self: Opened, id: Id, *, until: Time | None = None, note: str | None = None) -> Schedule:
        """Pause a schedule until it is resumed, or until a time at which it resumes automatically. `note` says why."""
        schedule = find(self._call, id) if is_naive(until) else None
        time = read_time_of(self._call, schedule, until, "until")
        return change_schedule(self._call, Pause(schedule=id, until=time, note=note))

    @schedule_method
    def resume(self: Opened, id: Id) -> Schedule:
        """Resume a paused schedule, starting now."""
        return change_schedule(self._call, Resume(schedule=id))

    @schedule_method
    def cancel(self: Opened, id: Id) -> Schedule:
        """End a schedule and ask a run in progress to stop. Cancelling twice is not an error."""
        return change_schedule(self._call, Cancel(schedule=id))

    @schedule_method
    def delete(self: Opened, id: Id, *, forever: bool = False) -> Schedule:
        """Delete a schedule and return it as it was. Its history remains readable, and it can be restored for a day,
        unless it is deleted `forever`."""
        return change_schedule(self._call, Delete(schedule=id, forever=forever))

    @schedule_method
    def restore(self: Opened, id: Id) -> Schedule:
        """Restore a schedule that was cancelled, or deleted within the last day. It goes on from now, without catching
        up."""
        return change_schedule(self._call, Restore(schedule=id))

    @method
    @waits
    def run_now(self: Opened, id: Id, *, wait: float = 0, force: bool = False) -> Steps[Run]:
        """Run a schedule now, in addition to its times. `wait` is how many seconds to wait for the run to end. With
        `force`, its condition `only_if` is not checked."""
        check_type("wait", wait, float, int)
        check_type("force", force, bool)
        answer = run_now(self._call, RunNow(schedule=find(self._call, id), force=force))
        return (yield from wait_for_start(self._call, answer, wait))

    @schedule_method
    @waits
    def wait(self: Opened, id: Id, seconds: float | None = None) -> Steps[Schedule]:
        """Wait until a schedule is over or the time is up, and return it; its `status` says which.

        A recurring schedule is over after its `max_runs` or `end`, or when it is cancelled.
        """
        call = self._call
        return schedule_of(call, (yield from wait_for(lambda: find(call, id), _is_over, seconds)))


class OneScheduleMethods(ScheduleMethods):
    """Methods that only a `Schedule` has, under names that mean something else in `Duetime`."""

    __slots__ = ()

    @schedule_method
    def refresh(self: Opened, id: Id) -> Schedule:
        """Return it as it is now."""
        return schedule_of(self._call, find(self._call, id))

    @method
    def stop(self: Opened, id: Id) -> list[Run]:
        """Stop its runs that are in progress or wait, and return them; the schedule goes on."""
        return stop_runs(self._call, id)

    @method
    def history(self: Opened, id: Id, limit: int = 20, **filters: Unpack[RunFilters]) -> RunList:
        """Return its runs, the latest first. The options are those of `Duetime.history`."""
        return history(self._call, id, filters, limit)


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class ScheduleValue(Created):
    """A schedule as it was when it was read, with its payload as it was given."""

    created: bool = False
    """In the answer to a create: False if its key was used before, by this schedule."""
    running: bool = False
    """In the answer to an edit: whether a run was in progress. It keeps its values; the change applies from the next
    run on."""


class Schedule(ScheduleValue, OneScheduleMethods, BlockingSchedule):
    """A schedule, and what can be done with it.

    It is a frozen value: `refresh` and every change return a new one. Times are in the time zone of the settings. A
    naive `datetime` in an argument is a time in the zone of the schedule.
    """

    __slots__ = ("_call",)
    _call: Call

    def __init__(self, call: Call, id: str, plain: Callable[[], dict[str, Any]]) -> None:
        super().__init__(plain, call.zone)
        object.__setattr__(self, "_call", call)
        object.__setattr__(self, "id", id)  # so that nothing else has to be read for a change

    def _with_coroutines(self, session: CallThreads) -> AsyncSchedule:
        return AsyncSchedule(self, session)


class AsyncSchedule(ScheduleValue, OneScheduleMethods, AsynchronousSchedule):
    """A schedule, and what can be done with it: the methods of `Schedule` as coroutines."""

    __slots__ = ("_blocking", "_session")
    _blocking: Schedule
    _session: CallThreads

    def __init__(self, schedule: Schedule, session: CallThreads) -> None:
        super().__init__(schedule._plain, schedule._zone)
        object.__setattr__(self, "_blocking", schedule)
        object.__setattr__(self, "_session", session)


# -- schedules ---------------------------------------------------------------------------------------------------------


def find(call: Call, id: Id, *, deleted: bool = False) -> model.Schedule:
    check_type("schedule", id, str, int, model.Schedule)
    try:
        return lookup.find(call, id, deleted=deleted)
    except NotFound:
        raise refuse("not_found", _missing(id)) from None


def _missing(id: object) -> str:
    return f"there is no schedule {id!r}; schedules() returns all of them"


def schedule_of(call: Call, schedule: model.Schedule, **further: Any) -> Schedule:
    """Return a schedule with its payload as it was given: a program may have to send it back."""
    return _schedule(call, schedule, detail_of(call, schedule), further)


def schedules_of(call: Call, schedules: Sequence[model.Schedule]) -> list[Schedule]:
    details = details_of(call, schedules)
    return [_schedule(call, each, details.get(each.definition.id), {}) for each in schedules]


def _schedule(call: Call, schedule: model.Schedule, detail: str | None, further: Mapping[str, Any]) -> Schedule:
    return Schedule(call, schedule.definition.public_id, partial(_plain, schedule, call.zone, detail, further))


def _plain(schedule: model.Schedule, zone: str, detail: str | None, further: Mapping[str, Any]) -> dict[str, Any]:
    return {**schedule_shape(schedule, zone, detail, hidden=False), **warning_facts(()), **further}


def change_schedule(call: Call, request: ChangeRequest) -> Schedule:
    try:
        after = change(call, request).value
    except NotFound:
        raise refuse("not_found", _missing(request.schedule)) from None
    return schedule_of(call, after.schedule, **after.facts())


# -- runs --------------------------------------------------------------------------------------------------------------


def runs_of(call: Call, runs: Sequence[model.Run], **further: Any) -> list[Run]:
    """Return runs with their results unchanged."""
    shapes = run_views(call, runs)
    results = [None if run.result is None else json.loads(run.result) for run in runs]
    pairs = zip(shapes, results, strict=True)
    return [Run({**shape, "result": result, **further}.copy, call.zone) for shape, result in pairs]


def run_of(call: Call, run: model.Run, **further: Any) -> Run:
    return runs_of(call, [run], **further)[0]


def stop_runs(call: Call, id: Id) -> list[Run]:
    stopped, _, notes = stop(call, Stop(schedule=find(call, id)))
    return runs_of(call, stopped.runs, notes=list(notes))


def wait_for_start(call: Call, answer: Answer[model.Run], seconds: float) -> Steps[Run]:
    """Return a run that was started, after it has ended or the time is up."""
    facts = {**warning_facts(answer.warnings), "notes": list(answer.notes)}
    if seconds > 0:
        return (yield from wait_for_run(call, answer.value.id, seconds, **facts))
    return run_of(call, answer.value, **facts)


def wait_for_run(call: Call, run_id: int, seconds: float | None, **further: Any) -> Steps[Run]:
    run = yield from wait_for(lambda: show_run(call, ShowRun(run=run_id)).value, has_ended, seconds)
    return run_of(call, run, **waited_for(call, run), **further)


def _is_over(schedule: model.Schedule) -> bool:
    return model.status_of(schedule.progress) not in OPEN


def wait_for(read: Callable[[], T], is_over: Callable[[T], bool], seconds: float | None) -> Steps[T]:
    """Read until `is_over` or until the time has passed, in real time, because a settable clock stands still
    meanwhile."""
    check_type("seconds", seconds, float, int, NoneType)
    clock = SystemClock()
    deadline = None if seconds is None else clock.monotonic() + seconds
    while not is_over(state := read()):
        left = SECONDS_BETWEEN_READS if deadline is None else deadline - clock.monotonic()
        if left <= 0:
            break
        yield min(SECONDS_BETWEEN_READS, left)
    return state


def history(call: Call, id: Id | None, filters: RunFilters, limit: int) -> RunList:
    request = History(**chosen_by(call, id, filters), limit=limit, count_to=0)
    (page, _, notes), facts = history_with_facts(call, request)
    return RunList(runs_of(call, page.items), facts, notes, call.zone)


def chosen_by(call: Call, id: Id | None, filters: RunFilters) -> dict[str, Any]:
    """Return filters with the schedule, and with times that were read in its zone if they have none."""
    schedule = None if id is None else find(call, id, deleted=True)
    first = read_time_of(call, schedule, filters.get("since"), "since", past=True)
    last = read_time_of(call, schedule, filters.get("until"), "until", last=True, past=True)
    read_range(call, first, last, ("since", "until"))  # refuses one that ends before it starts
    return {**filters, "schedule": schedule, "since": first, "until": last}
