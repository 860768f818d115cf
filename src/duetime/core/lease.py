"""Who is alive: a worker's own deadline, and its judgement of the others by their beats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from duetime.core.clock import SECOND, Clock
from duetime.core.model import WorkerId, WorkerRow

REVIVAL = 4.0
"""Seconds that others get beyond the lease to find the store again after it was away: nobody knocks all the time."""


class Lease:
    """A worker's right to act. It is counted from before each beat, so it ends before anybody else's patience does."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self.seconds = seconds
        self._deadline = clock.boottime() + seconds

    def renew(self, asked_at: float) -> None:
        """`asked_at` is the boot time before the beat was sent. Answers may be heard out of order."""
        self._deadline = max(self._deadline, asked_at + self.seconds)

    @property
    def left(self) -> float:
        return self._deadline - self._clock.boottime()

    def expired(self) -> bool:
        return self.left < 0


@dataclass(slots=True)
class _Seen:
    beat: int
    unchanged: float
    last_read: float


class Judge:
    """Declares a worker dead after a full lease, that worker's, of successful reads of the same beat.

    Time is measured on the judge's own monotonic clock.

    A gap between two reads (a database that was away, a laptop asleep, a stopped process) proves nothing about
    the others: observation then begins anew.
    """

    def __init__(self, clock: Clock, lease: float, interval: float) -> None:
        self._clock = clock
        self._interval = interval
        self._longest_gap = max(4 * interval, lease / 4)
        self._seen: dict[WorkerId, _Seen] = {}
        self._first = 0.0

    def observe(self, workers: Sequence[WorkerRow], me: WorkerId | None) -> list[WorkerRow]:
        """The workers that are dead by now. To be called with every successful read."""
        now = self._clock.monotonic()
        others = [row for row in workers if row.id != me]
        self._seen = {row.id: self._look(row, now) for row in others}
        self._first = 0.0
        return [row for row in others if self._seen[row.id].unchanged * SECOND >= row.lease]

    def _look(self, row: WorkerRow, now: float) -> _Seen:
        seen = self._seen.get(row.id)
        if seen is None:
            return _Seen(row.beat, self._first, now)
        if seen.beat != row.beat or now - seen.last_read > self._longest_gap:
            return _Seen(row.beat, 0.0, now)
        return _Seen(
            row.beat, seen.unchanged + min(now - seen.last_read, max(self._interval, row.lease / SECOND / 4)), now
        )

    def forget(self) -> None:
        """After a read that failed: the store was away, for the others as well."""
        self._seen.clear()
        self._first = -REVIVAL
