"""Stopping runs that are in progress or wait, while their schedule goes on."""

from __future__ import annotations

from typing import Final, NamedTuple

from duetime.engine.kind import Caller
from duetime.engine.model import LIVE, Run, Schedule, ScheduleState
from duetime.engine.result import Err, Ok, Result
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import RunQuery
from duetime.service.masking import masked
from duetime.service.presenters import instant_view

MOST: Final = 100
"""Runs of one schedule that one call stops."""


_NOT_YET: Final = "It has not ended yet: a task ends when it checks for the request, or at its timeout."


class Stopped(NamedTuple):
    """What was stopped, and the schedule that goes on."""

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
    """Stop every run of a schedule that is in progress or waits."""
    query = RunQuery(schedule=schedule.definition.id, status="live", limit=MOST, count_to=0)
    found = scheduler.runs(caller, query)
    if isinstance(found, Err):
        return found
    stopped: list[Run] = []
    for run in found.value.items:  # the latest first, since the end of a run starts the next one in the queue
        done = stop_run(scheduler, caller, run.id)
        if not isinstance(done, Err):
            stopped += done.value.runs
        elif done.code != "not_possible":  # it has not ended by itself meanwhile
            return done
    if not stopped:
        return Err("not_possible", "none of its runs is in progress or waits, so there is nothing to stop")
    return Ok(Stopped(stopped, scheduler.find(caller, schedule.definition.public_id)))


def what_was_stopped(stopped: Stopped, zone: str) -> str:
    """Return a sentence about each run, and one about when the schedule goes on."""
    asked = [run for run in stopped.runs if run.status in LIVE]
    said = [
        f"Run {run.id} of {masked(run.name)} {'was asked to stop' if run in asked else f'is {run.status}'}."
        for run in stopped.runs
    ]
    return " ".join([*said, _goes_on(stopped.schedule, zone), *([_NOT_YET] if asked else [])])


def _goes_on(schedule: Schedule | None, zone: str) -> str:
    if schedule is not None and schedule.progress.state == ScheduleState.PAUSED:
        return "Its schedule is paused."
    following = None if schedule is None else instant_view(schedule.progress.next, zone)
    return "Its schedule does not run again." if following is None else f"Its schedule runs next at {following}."
