"""Which runs began and which ended since the last look: by ids, which grow, and by asking for those that were alive."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from duetime.core.clock import Clock, Instant
from duetime.core.model import LIVE, Run, RunId, ScheduleId
from duetime.core.store import Page

BATCH: Final = 500
"""Of one sort, in one look; whoever hears of more at once reads the lists again."""
SLACK: Final = 5.0
"""Seconds that a commit may take: the ids of one that comes late lie below what was seen already."""
_BACK: Final = 1000
"""Runs before the last one that was told: one that has ended since may be among them."""
_LATEST: Final = 5
_TOUCHED: Final = 20

Ask = Callable[..., Page[Run]]
"""Pages of the runs that may be told of, by the names of a RunQuery."""


class RunNews(NamedTuple):
    begun: list[Run]
    over: list[Run]
    crowded: bool
    """There were more than can be told."""


class RunFollower:
    """`low` is the last run that the listener has heard of, `resumed` that there was one before."""

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
        """The highest id that was seen a while ago: nothing below it will still appear."""
        return self._tops[0][1]

    def look(self, touched: Sequence[ScheduleId], since: Instant) -> RunNews:
        """`touched`: schedules that people did something to, a retry for example, at or after `since`."""
        fresh = self._ask(above=self._low)
        alive = {run.id: run for run in self._ask(status="live").items}
        seen = [*fresh.items, *self._gone(alive), *self._before(since), *self._of(touched, since)]
        known = {run.id: run for run in (*seen, *alive.values())}
        begun = [run for run in known.values() if self._begins(run)]
        over = [run for run in known.values() if self._ends(run)]
        self._live = {run.id for run in known.values() if run.status in LIVE}
        self._ended |= {run.id: run.finished for run in over}
        self._move_on((run.id for run in fresh.items), since, crowded=fresh.cursor is not None)
        return RunNews(
            sorted(begun, key=lambda run: run.id),
            sorted(over, key=lambda run: (run.finished or run.due, run.id)),
            fresh.cursor is not None,
        )

    def _gone(self, alive: dict[RunId, Run]) -> list[Run]:
        gone = sorted(self._live - alive.keys(), reverse=True)[:BATCH]
        return self._ask(ids=tuple(gone)).items if gone else []

    def _before(self, since: Instant) -> list[Run]:
        """What ended while nobody listened, asked once."""
        if self._back is None:
            return []
        back, self._back = self._back, None
        return _finished(self._ask(above=back).items, since)

    def _of(self, touched: Sequence[ScheduleId], since: Instant) -> list[Run]:
        """A run that was retried by hand may have begun and ended between two looks."""
        pages = (self._ask(schedule=schedule, limit=_LATEST) for schedule in touched[:_TOUCHED])
        return [run for page in pages for run in _finished(page.items, since)]

    def _begins(self, run: Run) -> bool:
        """What did not run at all never began."""
        if run.status in LIVE:
            return run.id not in self._live
        return run.started is not None and run.id not in self._live and self._ends(run)

    def _ends(self, run: Run) -> bool:
        return run.status not in LIVE and (run.id not in self._ended or self._ended[run.id] != run.finished)

    def _move_on(self, ids: Iterable[RunId], since: Instant, *, crowded: bool) -> None:
        now = self._clock.monotonic()
        self._tops.append((now, max(ids, default=self.top)))
        while len(self._tops) > 1 and (crowded or now - self._tops[1][0] >= SLACK):
            self._tops.popleft()
        self._ended = {id: at for id, at in self._ended.items() if id > self._low or (at or 0) >= since}


def _finished(runs: Iterable[Run], since: Instant) -> list[Run]:
    return [run for run in runs if run.finished is not None and run.finished >= since]
