"""Change feed of an owner's schedules and runs, in order; it polls the store, so that no write has to publish events.

Edits are found by their time, runs by their ids. The cost of a poll does not grow with the size of the store.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from duetime.engine.clock import SECOND, Clock, Instant
from duetime.engine.model import LIVE, Run, RunId, Schedule, ScheduleId, ScheduleState, status_of
from duetime.engine.store import Page, RunQuery, ScheduleQuery
from duetime.service.operations.schedules import detail_of
from duetime.service.presenters import run_shape, schedule_shape
from duetime.service.services import Call

# -- runs that started or ended since the last poll; ids only grow, and runs that were live are queried again --------

BATCH: Final = 500
"""Maximum number of schedules or runs in one poll; beyond it, the listener is told to read the lists again."""
SLACK: Final = 5.0
"""Seconds that a commit may take: a late one has ids below those that were already seen."""
_BACK: Final = 1000
"""How many ids before the last reported run are read again, because some of those runs may have ended meanwhile."""
_LATEST: Final = 5
_TOUCHED: Final = 20

Ask = Callable[..., Page[Run]]
"""Returns a page of the runs that the listener may see; the keyword arguments are fields of a RunQuery."""


class RunNews(NamedTuple):
    begun: list[Run]
    over: list[Run]
    crowded: bool
    """Whether there were more runs than one poll reports."""
    known: list[Run]
    """All runs that were read: new ones, live ones, and those that were live at the last poll."""
    skipped: int
    """How many runs were not read, because too many were created since the last poll."""


class RunFollower:
    """Finds started and ended runs. `low` is the last run that the listener knows; `resumed` means that it has
    reconnected."""

    def __init__(self, ask: Ask, clock: Clock, low: RunId, *, resumed: bool) -> None:
        self._ask, self._clock = ask, clock
        self._tops = deque([(clock.monotonic(), low)])
        self._ended: dict[RunId, Instant | None] = {}
        self._live: set[RunId] = set() if resumed else {run.id for run in ask(status="live").items}
        self._back = RunId(max(0, low - _BACK)) if resumed else None

    @property
    def top(self) -> RunId:
        return self._tops[-1][1]

    @property
    def _low(self) -> RunId:
        """Return the highest id that was seen SLACK seconds ago, because no new run will appear below it."""
        return self._tops[0][1]

    def look(self, touched: Sequence[ScheduleId], since: Instant) -> RunNews:
        """Return the news since the last poll. `touched` are the schedules that users changed after `since`, for
        example by a retry."""
        fresh = self._ask(above=self._low)
        alive = {run.id: run for run in self._ask(status="live").items}
        seen = [*fresh.items, *self._gone(alive), *self._before(since), *self._of(touched, since)]
        known = {run.id: run for run in (*seen, *alive.values())}
        begun = [run for run in known.values() if self._begins(run)]
        over = [run for run in known.values() if self._ends(run)]
        self._live = {run.id for run in known.values() if run.status in LIVE}
        self._ended |= {run.id: run.finished for run in over}
        crowded = fresh.cursor is not None
        skipped = max(0, fresh.items[-1].id - self.top - 1) if crowded else 0
        self._move_on((run.id for run in fresh.items), since, crowded=crowded)
        return RunNews(
            sorted(begun, key=lambda run: run.id),
            sorted(over, key=lambda run: (run.finished or run.due, run.id)),
            crowded,
            list(known.values()),
            skipped,
        )

    def _gone(self, alive: dict[RunId, Run]) -> list[Run]:
        gone = sorted(self._live - alive.keys(), reverse=True)[:BATCH]
        return self._ask(ids=tuple(gone)).items if gone else []

    def _before(self, since: Instant) -> list[Run]:
        """Return the runs that ended while the listener was disconnected; only the first call queries them."""
        if self._back is None:
            return []
        back, self._back = self._back, None
        return _select_finished(self._ask(above=back).items, since)

    def _of(self, touched: Sequence[ScheduleId], since: Instant) -> list[Run]:
        """Return ended runs of these schedules, because a run that was retried manually may have started and ended
        between two polls."""
        pages = (self._ask(schedule=schedule, limit=_LATEST) for schedule in touched[:_TOUCHED])
        return [run for page in pages for run in _select_finished(page.items, since)]

    def _begins(self, run: Run) -> bool:
        """Return whether to report a start; a run that never started (missed, skipped) has none."""
        is_over = run.started is not None and self._ends(run)
        return run.id not in self._live and (run.status in LIVE or is_over)

    def _ends(self, run: Run) -> bool:
        return run.status not in LIVE and (run.id not in self._ended or self._ended[run.id] != run.finished)

    def _move_on(self, ids: Iterable[RunId], since: Instant, *, crowded: bool) -> None:
        now = self._clock.monotonic()
        self._tops.append((now, max(ids, default=self.top)))
        while len(self._tops) > 1 and (crowded or now - self._tops[1][0] >= SLACK):
            self._tops.popleft()
        self._ended = {id: at for id, at in self._ended.items() if id > self._low or (at or 0) >= since}


def _select_finished(runs: Iterable[Run], since: Instant) -> list[Run]:
    return [run for run in runs if run.finished is not None and run.finished >= since]


_WINDOW: Final = int(2 * SLACK * SECOND)
"""How far back a poll reads: a writer may be slow to commit, and its clock may be slightly behind."""
_POSITION = re.compile(r"([0-9a-f]{1,15})-([0-9a-f]{1,15})")


class Position(NamedTuple):
    """Position of a listener in the feed."""

    instant: Instant
    run: RunId

    def __str__(self) -> str:
        return f"{self.instant:x}-{self.run:x}"


def position_of(text: str | None) -> Position | None:
    """Parse a position; return None if it is absent or was not sent by a stream."""
    match = None if text is None else _POSITION.fullmatch(text)
    return None if match is None else Position(Instant(int(match[1], 16)), RunId(int(match[2], 16)))


class Event(NamedTuple):
    type: str
    data: dict[str, Any]


class Look(NamedTuple):
    events: list[Event]
    position: Position


class Follower:
    """The change feed of one listener, used by one thread at a time. `owner` is None for an operator who follows all
    owners."""

    def __init__(self, call: Call, owner: str | None, since: Position | None = None) -> None:
        scheduler = call.scheduler
        self._call, self._scheduler, self._caller, self._zone = call, scheduler, call.caller, call.zone
        self._query = RunQuery(owner=owner, limit=BATCH, count_to=0)
        self._owner = owner
        now, newest = scheduler.clock.now(), scheduler.store.newest_run()
        begin = since or Position(now, newest)
        self._since = Instant(min(begin.instant - _WINDOW, now))
        self._told: dict[ScheduleId, tuple[Instant, int, str]] = {}
        if since is None:
            self._remember(self._read_changes().items)
        self._runs = RunFollower(self._ask, scheduler.clock, min(begin.run, newest), resumed=since is not None)

    def look(self) -> Look:
        now = self._scheduler.clock.now()
        changed = self._read_changes()
        events = [*self._about_schedules(changed), *self._about_runs(changed.items)]
        self._since = max(self._since, Instant(now - _WINDOW))
        self._told = {id: mark for id, mark in self._told.items() if mark[0] >= self._since}
        return Look(events, Position(now, self._runs.top))

    # -- schedules ------------------------------------------------------------------------------------------------

    def _read_changes(self) -> Page[Schedule]:
        query = ScheduleQuery(owner=self._owner, changed_since=self._since, limit=BATCH, count_to=0)
        return self._scheduler.search(self._caller, query)

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
        is_new = fresh and definition.updated == definition.created
        detail = detail_of(self._call, schedule)
        return Event("schedule.created" if is_new else "schedule.changed", schedule_shape(schedule, self._zone, detail))

    # -- runs -----------------------------------------------------------------------------------------------------

    def _ask(self, **filters: Any) -> Page[Run]:
        return self._scheduler.runs(self._caller, replace(self._query, **filters))

    def _about_runs(self, changed: Iterable[Schedule]) -> Iterator[Event]:
        touched = [each.definition.id for each in changed if each.definition.updated != each.definition.created]
        begun, over, crowded, *_ = self._runs.look(touched, self._since)
        schedules = {id: self._scheduler.store.get(id) for id in sorted({run.schedule for run in (*begun, *over)})}
        for run in begun:
            yield Event("run.fired", self._run_data(run, schedules[run.schedule]))
        for run in over:
            yield Event("run.ended", self._run_data(run, schedules[run.schedule]))
        if crowded:
            yield _gap("runs")

    def _run_data(self, run: Run, schedule: Schedule | None) -> dict[str, Any]:
        """Return the run without its result, which may be large; a client that needs it reads the run."""
        ids = {} if schedule is None else {run.schedule: schedule.definition.public_id}
        data = run_shape(run._replace(result=None), ids, self._zone)
        del data["result"]
        return {**data, "schedule_status": None if schedule is None else status_of(schedule.progress)}


def _mark(schedule: Schedule) -> tuple[Instant, int, str]:
    """Return the values that an edit, a pause or another user action changes. Changes by runs are reported with the
    runs."""
    state = schedule.progress.state
    lasting = ScheduleState.ACTIVE if state == ScheduleState.ENDED else state
    return schedule.definition.updated, schedule.definition.version, lasting


def _gap(what: str) -> Event:
    return Event("gap", {"of": what, "detail": "More happened at once than these events show; read the lists again."})
