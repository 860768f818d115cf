"""Liveness: a worker's lease, the age of its last exchange, and the detection of dead workers by their heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from duetime.engine.clock import SECOND, Clock
from duetime.engine.model import WorkerId, WorkerRow
from duetime.engine.value_class import dataclass

REVIVAL = 4.0
"""Seconds beyond the lease that other workers get to reconnect after a store outage, because nobody retries
continuously."""


class Lease:
    """A worker's right to act. It is measured from before each heartbeat, so it expires before others declare the
    worker dead."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self.seconds = seconds
        self._deadline = clock.boottime() + seconds

    def renew(self, asked_at: float) -> None:
        """Extend the lease. `asked_at` is the boot time before the heartbeat was sent. A later deadline stays, because
        answers may arrive out of order."""
        self._deadline = max(self._deadline, asked_at + self.seconds)

    @property
    def left(self) -> float:
        return self._deadline - self._clock.boottime()

    def expired(self) -> bool:
        return self._clock.boottime() > self._deadline


@dataclass(slots=True)
class _Seen:
    beat: int
    unchanged: float
    last_read: float
    proven: float = 0.0
    """The part of `unchanged` that lies before a write that succeeded: the store could be used in that time."""


class FailureDetector:
    """Declares a worker dead after successful reads have shown the same heartbeat for that worker's full lease.

    Time is measured on the observer's own monotonic clock. A gap between two reads (store unavailable, laptop asleep,
    process stopped) proves nothing about the others, so that time does not count. Silence while nobody could write
    proves nothing either, for example while another process holds the write lock of a file that can still be read. Long
    silence therefore counts only while `probe` succeeds; it raises if the store cannot be written, and the caller must
    then call `forget`. Silence from before such an outage still counts as far as a probe had succeeded since, so that
    frequent outages do not keep a dead worker from being noticed; nobody is declared dead right after one.
    """

    def __init__(self, clock: Clock, lease: float, interval: float, probe: Callable[[], None] = lambda: None) -> None:
        self._clock = clock
        self._probe = probe
        self._probed = float("-inf")
        self._interval = interval
        self._longest_gap = max(4 * interval, lease / 4)
        self._seen: dict[WorkerId, _Seen] = {}
        self._first = 0.0
        self._outage = float("-inf")

    def observe(self, workers: Sequence[WorkerRow], me: WorkerId | None) -> list[WorkerRow]:
        """Return the workers that now count as dead. Call it with every successful read."""
        now = self._clock.monotonic()
        others = [row for row in workers if row.id != me]
        self._seen = {row.id: self._look(row, now) for row in others}
        self._first = 0.0
        # Probe the store if a worker has missed a heartbeat, but rarely enough to cost nothing. A probe that has to
        # wait for long is a gap between two reads, like any other.
        silent = [row for row in others if self._seen[row.id].unchanged * SECOND * 3 >= row.lease]
        if silent and (now - self._probed) * SECOND >= min(row.lease for row in silent) / 4:
            self._probe()
            self._probed = now
            if self._clock.monotonic() - now <= self._interval:
                for row in silent:
                    self._seen[row.id].proven = self._seen[row.id].unchanged
        if now - self._outage < REVIVAL:
            return []
        return [row for row in others if self._seen[row.id].unchanged * SECOND >= row.lease]

    def _look(self, row: WorkerRow, now: float) -> _Seen:
        seen = self._seen.get(row.id)
        if seen is None:
            return _Seen(row.beat, self._first, now)
        longest_gap = min(self._longest_gap, max(4 * self._interval, row.lease / SECOND / 4))
        if seen.beat != row.beat:
            return _Seen(row.beat, 0.0, now)
        if now - seen.last_read > longest_gap:
            self._outage = now
            return _Seen(row.beat, min(seen.unchanged, seen.proven), now, seen.proven)
        watched = min(now - seen.last_read, max(self._interval, row.lease / SECOND / 4))
        return _Seen(row.beat, seen.unchanged + watched, now, seen.proven)

    def forget(self) -> None:
        """Leave out the silence before a failed read or write, because the other workers could not reach the store
        either, and give them time to reconnect."""
        for seen in self._seen.values():
            seen.unchanged = seen.proven or -REVIVAL
        self._first, self._outage = -REVIVAL, self._clock.monotonic()


class ExchangeAge:
    """The age of the last exchange; the worker's thread writes it, and the health check and the metrics read it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: float | None = None
        self.limit = 5.0
        """Seconds beyond which the worker counts as stuck; the engine derives it from its lease."""

    def completed(self) -> None:
        self._last = self._clock.monotonic()

    def forget(self) -> None:
        """Clear the age, because no worker runs in this process any more."""
        self._last = None

    @property
    def seconds(self) -> float | None:
        """The age in seconds, or None if no worker runs in this process."""
        last = self._last
        return None if last is None else max(0.0, self._clock.monotonic() - last)

    @property
    def too_old(self) -> bool:
        seconds = self.seconds
        return seconds is not None and seconds > self.limit
