"""Reads from the scheduler that several pages share, each with few and bounded queries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

from duetime.dashboard.kind_forms import may_create
from duetime.dashboard.request import PageRequest
from duetime.dashboard.timeline.axis import Window
from duetime.dashboard.timeline.bins import Density
from duetime.engine.clock import Instant
from duetime.engine.model import Run, Schedule
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.service.client_configs import CLIENTS, Reach
from duetime.service.errors import refuse, unwrap
from duetime.service.presenters import View, coming_shape, run_shapes, trigger_shape
from duetime.settings.sections import INBOX

_PAGE: Final = 750


class ReadLimits(NamedTuple):
    """Limits on what is read. Beyond them, only the schedules that fire first and the latest runs are included."""

    schedules: int = 500
    runs: int = 1_500
    all_until: bool = True
    """Whether the query itself ends at the end of the window. Among a million schedules of other owners, that takes
    longer than reading the first few and dropping those beyond the window."""


def schedule_at(request: PageRequest) -> Schedule:
    schedule = request.scheduler.find(request.caller, request.http.path_params["id"])
    if schedule is None:
        raise refuse("not_found", "There is no such schedule; it may have been deleted.")
    return schedule


def schedule_or_tombstone(request: PageRequest) -> Schedule:
    """Return the schedule, even if it was deleted: its history stays with its owner."""
    number = request.scheduler.number_of(request.caller, request.http.path_params["id"])
    remains = None if number is None else request.scheduler.store.get(number)
    if remains is None:
        raise refuse("not_found", "There is no such schedule.")
    return remains


def runs(request: PageRequest, **asked: Any) -> list[View]:
    """Return views of runs, without counting the total."""
    page = unwrap(request.scheduler.runs(request.caller, RunQuery(**{"count_to": 0, **asked})))
    return run_shapes(request.scheduler, page.items, request.zone, brief=True)


def coming_row(request: PageRequest, instant: Instant, schedule: Schedule) -> View:
    row = coming_shape(instant, schedule, request.zone)
    trigger = trigger_shape(schedule.definition.trigger)
    return row | {"owner": schedule.definition.owner, "timezone": trigger.get("timezone")}


class Found(NamedTuple):
    """The occurrences in a window, and what was left out."""

    density: Density
    more_schedules: bool
    past_from: Instant | None


class Shown(NamedTuple):
    """The schedules and runs that a chart shows."""

    owner: str | None = None
    kind: str | None = None
    text: str | None = None


EVERYTHING: Final = Shown()


def occurrences_in(request: PageRequest, window: Window, most: ReadLimits, shown: Shown = EVERYTHING) -> Found:
    density = Density(window)
    schedules = []
    if not window.ends_with(request.now):
        until = window.end if most.all_until else None
        schedules = request.scheduler.coming(
            request.caller, until, most.schedules + 1, shown.owner, kind=shown.kind, text=shown.text
        )
        density.add_coming(schedules[: most.schedules], request.now)
    past_from = None
    if window.start < request.now:
        found, past_from = _past(request, window, most.runs, shown)
        density.add_past(found, request.scheduler.store.public_ids([run.schedule for run in found]))
    more = len(schedules) > most.schedules and (schedules[-1].progress.next or 0) < window.end
    return Found(density, more, past_from)


def _past(request: PageRequest, window: Window, most: int, shown: Shown) -> tuple[list[Run], Instant | None]:
    """Return the latest runs back to the start of the window. If there are too many, also return where they start.

    Runs are read in the order of their creation, which is nearly that of their due instants. A range of skipped or
    missed occurrences may have been created long before its last occurrence, so ranges are read separately.
    """
    query = RunQuery(owner=shown.owner, kind=shown.kind, limit=min(most, _PAGE), count_to=0)
    if window.end < request.now:
        query = replace(query, below=request.scheduler.store.first_run_due(window.end))
    of_ranges = replace(query, below=None, overlapping=(window.start, window.end), limit=_PAGE)
    ranges = unwrap(request.scheduler.runs(request.caller, of_ranges)).items
    found: list[Run] = []
    past_from: Instant | None = None
    while past_from is None:
        page = unwrap(request.scheduler.runs(request.caller, query))
        found += page.items
        if page.cursor is None or page.items[-1].due < window.start:
            break
        past_from = found[-1].due if len(found) >= most else None
        query = replace(query, cursor=page.cursor)
    whole = {run.id: run for run in (*found, *ranges)}.values()
    inside = [run for run in whole if run.due < window.end and (run.last or run.due) >= window.start]
    return [run for run in inside if shown.text is None or shown.text.lower() in run.name.lower()], past_from


# First steps that a page offers to somebody who has no schedule yet.


class FirstSteps(NamedTuple):
    kinds: list[tuple[str, str]]
    """Name and title of each kind that can be created in the dashboard."""
    connect: str
    """The command that connects an agent's client on this machine; empty if it cannot be known."""
    trial: str
    """The form value that requests a test message; empty if no kind has one."""


def first_steps(request: PageRequest) -> FirstSteps | None:
    """Return the first steps for a caller without any schedule; None if there is one."""
    query = ScheduleQuery(owner=request.caller.owner, limit=1, count_to=0)
    if unwrap(request.scheduler.search(request.caller, query)).items:
        return None
    services, command = request.call.services, request.context.commands.stdio
    kinds = [(name, spec.title or name) for name, spec in services.specs.items() if may_create(spec)]
    connect = next(iter(CLIENTS.values())).stdio(Reach("", None, command)) if request.sees_workers and command else ""
    owner = request.caller.owner
    trials = (f"{kind}:{INBOX}" for kind in services.kinds if services.hooks(kind).trial(INBOX, owner) is not None)
    return FirstSteps(kinds, connect or request.command("connect", "claude-code"), next(trials, ""))
