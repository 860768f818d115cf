"""What several pages read from the scheduler, each in few and bounded questions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

from duetime.dashboard.request import PageRequest
from duetime.dashboard.timeline.axis import Window
from duetime.dashboard.timeline.bins import Density
from duetime.engine.clock import Instant
from duetime.engine.model import Run, Schedule
from duetime.engine.store import RunQuery
from duetime.rest.errors import refuse, taken
from duetime.service.presenters import View, coming_shape, run_shapes, trigger_shape

_PAGE: Final = 1000


class Most(NamedTuple):
    """How much is looked at: of more schedules, those that fire first; of more runs, the latest."""

    schedules: int = 10_000
    runs: int = 5_000
    all_until: bool = True
    """Whether the window's end is searched for. Among a million of others' that takes longer than to find the first
    few and leave out what lies beyond."""


def schedule_at(visit: PageRequest) -> Schedule:
    schedule = visit.scheduler.find(visit.caller, visit.request.path_params["id"])
    if schedule is None:
        raise refuse("not_found", "There is no such schedule; it may have been deleted.")
    return schedule


def remains_at(visit: PageRequest) -> Schedule:
    """The same, and what is left of one that was deleted: its history stays with its owner."""
    number = visit.scheduler.number_of(visit.caller, visit.request.path_params["id"])
    remains = None if number is None else visit.scheduler.store.get(number)
    if remains is None:
        raise refuse("not_found", "There is no such schedule.")
    return remains


def runs(visit: PageRequest, **asked: Any) -> list[View]:
    """Shapes of runs, without counting how many there are."""
    page = taken(visit.scheduler.runs(visit.caller, RunQuery(**{"count_to": 0, **asked})))
    return run_shapes(visit.scheduler, page.items, visit.zone, brief=True)


def coming_row(visit: PageRequest, instant: Instant, schedule: Schedule) -> View:
    row = coming_shape(instant, schedule, visit.zone)
    trigger = trigger_shape(schedule.definition.trigger)
    return row | {"owner": schedule.definition.owner, "timezone": trigger.get("timezone")}


class Seen(NamedTuple):
    """What lies in a window, and what had to be left out."""

    density: Density
    more_schedules: bool
    past_from: Instant | None


def seen_in(visit: PageRequest, window: Window, most: Most, owner: str | None = None) -> Seen:
    density = Density(window)
    schedules = []
    if window.end > visit.now:
        until = window.end if most.all_until else None
        schedules = visit.scheduler.coming(visit.caller, until, most.schedules + 1, owner)
        density.add_coming(schedules[: most.schedules], visit.now)
    past_from = None
    if window.start < visit.now:
        found, past_from = _past(visit, window, most.runs, owner)
        density.add_past(found, visit.scheduler.store.public_ids([run.schedule for run in found]))
    more = len(schedules) > most.schedules and (schedules[-1].progress.next or 0) < window.end
    return Seen(density, more, past_from)


def _past(visit: PageRequest, window: Window, most: int, owner: str | None) -> tuple[list[Run], Instant | None]:
    """The latest runs back to the window's begin, as far as there are not too many; then where they begin instead.

    Runs are read in the order in which they were made, which is nearly that of their due instants.
    """
    query = RunQuery(owner=owner, limit=min(most, _PAGE), count_to=0)
    found: list[Run] = []
    while len(found) < most:
        page = taken(visit.scheduler.runs(visit.caller, query))
        found += page.items
        if page.cursor is None or page.items[-1].due < window.start:
            return _inside(found, window), None
        query = replace(query, cursor=page.cursor)
    return _inside(found, window), found[-1].due


def _inside(found: list[Run], window: Window) -> list[Run]:
    return [run for run in found if run.due < window.end and (run.last or run.due) >= window.start]
