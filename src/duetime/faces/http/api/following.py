"""What happens to an owner's schedules, told in order: found by looking, so that no write has to tell anybody.

What people did is found by when they did it, what ran by its ids. A look costs the same however much is stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

from duetime.core.clock import SECOND, Instant
from duetime.core.kind import Caller
from duetime.core.model import Run, RunId, Schedule, ScheduleId, ScheduleState, status_of
from duetime.core.scheduler import Scheduler
from duetime.core.store import Page, RunQuery, ScheduleQuery
from duetime.faces.http.api.following_runs import BATCH, SLACK, RunFollower
from duetime.faces.http.api.refusing import taken
from duetime.faces.views import run_shape, schedule_shape

_WINDOW: Final = int(2 * SLACK * SECOND)
"""How far back a look reaches: whoever wrote may be slow to commit, and its clock a little behind."""
_POSITION = re.compile(r"([0-9a-f]{1,15})-([0-9a-f]{1,15})")


class Position(NamedTuple):
    """How far somebody has heard."""

    instant: Instant
    run: RunId

    def __str__(self) -> str:
        return f"{self.instant:x}-{self.run:x}"


def position_of(text: str | None) -> Position | None:
    """None for what no stream ever said, as for nothing."""
    match = None if text is None else _POSITION.fullmatch(text)
    return None if match is None else Position(Instant(int(match[1], 16)), RunId(int(match[2], 16)))


class Event(NamedTuple):
    type: str
    data: dict[str, Any]


class Look(NamedTuple):
    events: list[Event]
    position: Position


class Follower:
    """For one listener, and one thread at a time. `owner` None follows all owners, for an operator."""

    def __init__(
        self, scheduler: Scheduler, caller: Caller, owner: str | None, zone: str, since: Position | None = None
    ) -> None:
        self._scheduler, self._caller, self._zone = scheduler, caller, zone
        self._query = RunQuery(owner=owner, limit=BATCH, count_to=0)
        self._owner = owner
        now, newest = scheduler.clock.now(), scheduler.store.newest_run()
        self._since = Instant(now - _WINDOW)
        self._told: dict[ScheduleId, tuple[Instant, int, str]] = {}
        if since is None:
            self._remember(self._changed().items)
        else:
            self._since = Instant(min(since.instant - _WINDOW, now))
        low = newest if since is None else min(since.run, newest)
        self._runs = RunFollower(self._ask, scheduler.clock, low, resumed=since is not None)

    def look(self) -> Look:
        now = self._scheduler.clock.now()
        changed = self._changed()
        events = [*self._about_schedules(changed), *self._about_runs(changed.items)]
        self._since = max(self._since, Instant(now - _WINDOW))
        self._told = {id: mark for id, mark in self._told.items() if mark[0] >= self._since}
        return Look(events, Position(now, self._runs.top))

    # -- what people did ------------------------------------------------------------------------------------------

    def _changed(self) -> Page[Schedule]:
        query = ScheduleQuery(owner=self._owner, changed_since=self._since, limit=BATCH, count_to=0)
        return taken(self._scheduler.search(self._caller, query))

    def _remember(self, schedules: Iterable[Schedule]) -> None:
        self._told |= {each.definition.id: _mark(each) for each in schedules}

    def _about_schedules(self, page: Page[Schedule]) -> Iterator[Event]:
        for schedule in page.items:
            known = self._told.get(schedule.definition.id)
            if known != _mark(schedule):
                yield self._schedule_event(schedule, fresh=known is None)
        self._remember(page.items)
        if page.cursor is not None:
            yield _gap("schedules")

    def _schedule_event(self, schedule: Schedule, *, fresh: bool) -> Event:
        definition = schedule.definition
        if schedule.progress.state == ScheduleState.DELETED:
            return Event("schedule.deleted", {"id": definition.public_id, "kind": definition.kind})
        made = fresh and definition.updated == definition.created
        return Event("schedule.created" if made else "schedule.changed", schedule_shape(schedule, self._zone))

    # -- what ran -------------------------------------------------------------------------------------------------

    def _ask(self, **asked: Any) -> Page[Run]:
        return taken(self._scheduler.runs(self._caller, replace(self._query, **asked)))

    def _about_runs(self, changed: Iterable[Schedule]) -> Iterator[Event]:
        touched = [each.definition.id for each in changed if each.definition.updated != each.definition.created]
        begun, over, crowded = self._runs.look(touched, self._since)
        schedules = {id: self._scheduler.store.get(id) for id in sorted({run.schedule for run in (*begun, *over)})}
        for run in begun:
            yield Event("run.fired", self._run_data(run, schedules[run.schedule]))
        for run in over:
            yield Event("run.ended", self._run_data(run, schedules[run.schedule]))
        if crowded:
            yield _gap("runs")

    def _run_data(self, run: Run, schedule: Schedule | None) -> dict[str, Any]:
        """Without its result, which may be large: whoever wants it asks for the run."""
        ids = {} if schedule is None else {run.schedule: schedule.definition.public_id}
        data = run_shape(run._replace(result=None), ids, self._zone)
        del data["result"]
        return {**data, "schedule_status": None if schedule is None else status_of(schedule.progress)}


def _mark(schedule: Schedule) -> tuple[Instant, int, str]:
    """What of a schedule differs after something that people do to it. What runs change is told with the runs."""
    state = schedule.progress.state
    lasting = ScheduleState.ACTIVE if state == ScheduleState.ENDED else state
    return schedule.definition.updated, schedule.definition.version, lasting


def _gap(what: str) -> Event:
    return Event("gap", {"of": what, "detail": "More happened at once than is told here; read the lists again."})
