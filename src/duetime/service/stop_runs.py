"""Stopping runs that are in progress or wait, while their schedule goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from duetime.engine.kind import Caller
from duetime.engine.model import LIVE, Run, RunId, RunStatus, Schedule, ScheduleState
from duetime.engine.result import Err, Ok, Result
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import RunQuery
from duetime.service.masking import masked
from duetime.service.presenters import instant_view

MOST: Final = 1_000
"""Runs of one status that one round stops."""
_ROUNDS: Final = 3
_PAGE: Final = 100
_NAMED: Final = 20
"""Runs that a confirmation names one by one."""
_IN_TURN: Final = (RunStatus.QUEUED, RunStatus.PENDING, RunStatus.WAITING, RunStatus.RUNNING)
"""Queued runs first, since the end of an active one starts the next of them."""
_NOT_YET: Final = "It has not ended yet: a task ends when it checks for the request, or at its timeout."


class Stopped(NamedTuple):
    """The runs that were stopped, and the schedule that goes on."""

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


def stop_runs(scheduler: Scheduler, caller: Caller, schedule: Schedule) -> Result[Stopped]:
    """Stop every run of a schedule that is in progress or waits. A very long queue keeps its oldest runs."""
    stopped: dict[RunId, Run] = {}
    for _ in range(_ROUNDS):  # again for what has begun or fallen due meanwhile
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
    """Stop what a query finds, the latest first and at most `MOST`, and add it to `stopped`."""
    most = len(stopped) + MOST
    while len(stopped) < most:
        found = scheduler.runs(caller, query)
        if isinstance(found, Err):
            return found
        for run in found.value.items:
            if run.id in stopped or len(stopped) == most:  # what was asked to stop has not ended yet
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
    """Return a sentence about each run, and one about when the schedule goes on."""
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
