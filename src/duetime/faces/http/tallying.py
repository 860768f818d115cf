"""How runs went, summed up from the store: whichever process did them, and however long this one has been asked.

Counting begins with the first question. A range of ids is counted for good once nothing below its end can still appear;
what is above is counted anew each time. Runs that were alive then are asked for again by their ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from duetime.core.clock import Clock
from duetime.core.figures import BOUNDS, UNKNOWN, Living, Tally, tally_of
from duetime.core.model import LIVE, Run, RunId
from duetime.core.store import RunQuery, Store

SLACK: Final = 5.0
"""Seconds that a commit may take: on some stores the ids of one that comes late lie below others."""
_CHUNK: Final = 1000


class Spread(NamedTuple):
    """Of one kind: how many runs were within each bound, and their sum in microseconds."""

    within: list[int]
    total: int


class Sums:
    """What is told: runs that ended by kind and status, those that began by kind, and two spreads by kind."""

    def __init__(self) -> None:
        self.ended: Counter[tuple[str, str]] = Counter()
        self.begun: Counter[str] = Counter()
        self._late: Counter[tuple[str, int]] = Counter()
        self._took: Counter[tuple[str, int]] = Counter()
        self._late_for: Counter[str] = Counter()
        self._took_for: Counter[str] = Counter()

    def add(self, tally: Tally, *, begun_before: bool = False) -> None:
        if tally.begun and not begun_before:
            self.begun[tally.kind] += tally.number
        if tally.status in LIVE:
            return
        self.ended[tally.kind, tally.status] += tally.number
        if tally.late != UNKNOWN:
            self._late[tally.kind, tally.late] += tally.number
            self._late_for[tally.kind] += tally.late_for
        if tally.took != UNKNOWN:
            self._took[tally.kind, tally.took] += tally.number
            self._took_for[tally.kind] += tally.took_for

    def with_(self, tallies: Iterable[Tally]) -> Sums:
        both = Sums()
        for name in vars(self):
            getattr(both, name).update(getattr(self, name))
        for tally in tallies:
            both.add(tally)
        return both

    def lateness(self) -> dict[str, Spread]:
        return _spreads(self._late, self._late_for)

    def durations(self) -> dict[str, Spread]:
        return _spreads(self._took, self._took_for)


def _spreads(counted: Counter[tuple[str, int]], sums: Counter[str]) -> dict[str, Spread]:
    kinds = sorted({kind for kind, _ in counted})
    return {kind: Spread([counted[kind, at] for at in range(len(BOUNDS) + 1)], sums[kind]) for kind in kinds}


class Tallies:
    """For one thread at a time."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._settled = store.newest_run()
        self._mark = (clock.monotonic(), self._settled)
        self._sums = Sums()
        self._alive = {one.id: bool(one.begun) for one in store.living()}
        """Runs of what is settled that have not ended, and whether their beginning is counted already."""

    def look(self, living: Sequence[Living]) -> Sums:
        """`living` is what the store just said: those are left out of what is counted for good, and followed."""
        newest, now = self._store.newest_run(), self._clock.monotonic()
        if now - self._mark[0] >= SLACK:
            self._settle(self._mark[1], living)
            self._mark = (now, newest)
        self._follow({one.id for one in living})
        return self._sums.with_(self._store.tally(self._settled, newest))

    def _settle(self, upto: RunId, living: Sequence[Living]) -> None:
        followed = [one for one in living if self._settled < one.id <= upto]
        for tally in self._store.tally(self._settled, upto, [one.id for one in followed]):
            self._sums.add(tally)
        for one in followed:
            self._alive[one.id] = bool(one.begun)
            self._sums.begun[one.kind] += one.begun
        self._settled = upto

    def _follow(self, alive: set[RunId]) -> None:
        """Whoever is not among the living has ended, unless there are more of them than were looked at."""
        gone = sorted(self._alive.keys() - alive)
        for begin in range(0, len(gone), _CHUNK):
            chunk = gone[begin : begin + _CHUNK]
            ended = [run for run in self._runs(chunk) if run.status not in LIVE]
            for run in ended:
                self._sums.add(tally_of(run), begun_before=self._alive.pop(run.id))

    def _runs(self, ids: Sequence[RunId]) -> list[Run]:
        return self._store.runs(RunQuery(ids=tuple(ids), limit=_CHUNK, count_to=0)).items
