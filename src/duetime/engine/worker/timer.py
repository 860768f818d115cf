"""Time for a worker: the clock of its store, and a timer thread for the starts of runs and for timeouts."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from duetime.engine.clock import SECOND, Clock, Instant, SystemClock

DRIFT = 100e-6
"""Relative drift assumed between this machine's clock and the store's: a sample gets less certain with time."""


class Sample(NamedTuple):
    """The store's clock, read between two moments of this machine's boot time (seconds)."""

    asked: float
    theirs: Instant
    answered: float

    def earliest(self, moment: float) -> Instant:
        """Return the earliest time that the store's clock can show at a moment: it was read before the answer came."""
        return self._carried(max(0.0, moment - self.answered) * (1 - DRIFT))

    def latest(self, moment: float) -> Instant:
        """Return the latest time that the store's clock can show at a moment: it was read after the question left."""
        return self._carried(max(0.0, moment - self.asked) * (1 + DRIFT))

    def _carried(self, seconds: float) -> Instant:
        return Instant(self.theirs + int(seconds * SECOND))


class StoreClock:
    """An estimate of the store's clock that is never ahead of it, so that no run starts early.

    Between samples it advances with boot time, so that a step of the local wall clock has no effect. A sample whose
    answer took long is less precise than the one before it and is dropped; one that contradicts it (the store's clock
    was set back) replaces it. Without any sample, as on a store without a clock, this is the machine's own clock.
    """

    def __init__(self, base: Clock) -> None:
        self._base = base
        self._sample: Sample | None = None
        self.now: Callable[[], Instant] = base.now  # bound directly: every run reads them several times
        self.monotonic = base.monotonic
        self.boottime = base.boottime

    @property
    def is_system(self) -> bool:
        """True for the system clock; a settable clock neither follows the store nor is bound by it."""
        return isinstance(self._base, SystemClock)

    def _carried_on(self) -> Instant:
        sample = self._sample  # read once: another thread replaces it
        return self._base.now() if sample is None else sample.earliest(self._base.boottime())

    def follow(self, read: Callable[[], Instant | None]) -> None:
        """Sample the store's clock, and keep the sample unless the present one is more precise."""
        if not self.is_system:
            return
        asked = self._base.boottime()
        theirs = read()
        answered = self._base.boottime()
        if theirs is None:
            return
        fresh, kept = Sample(asked, theirs, answered), self._sample
        if kept is None or not fresh.theirs < kept.earliest(answered) <= fresh.latest(answered):
            self._sample = fresh
            self.now = self._carried_on


def is_real(clock: Clock) -> bool:
    """Return whether a clock shows real time, as opposed to the time that a test or a simulation sets."""
    return clock.is_system if isinstance(clock, StoreClock) else isinstance(clock, SystemClock)


log = logging.getLogger("duetime.timer")


class Timed:
    """A pending action that can be cancelled."""

    __slots__ = ("_action", "_timer")

    def __init__(self, timer: Timer, action: Callable[[], None]) -> None:
        self._timer = timer
        self._action: Callable[[], None] | None = action

    def cancel(self) -> None:
        if self._action is not None:
            self._action = None
            self._timer.dropped()

    @property
    def cancelled(self) -> bool:
        return self._action is None

    def call(self) -> None:
        if self._action is not None:
            self._action()


class Timer:
    """Calls actions after a delay. They must be short, because they run one after the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Timed]] = []
        self._dropped = 0
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._loop, name="duetime-timer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def after(self, seconds: float, action: Callable[[], None]) -> Timed:
        at = self._clock.monotonic() + seconds
        timed = Timed(self, action)
        with self._changed:
            first = not self._heap or at < self._heap[0][0]
            heapq.heappush(self._heap, (at, next(self._numbers), timed))
            if first:
                self._changed.notify()
        return timed

    def dropped(self) -> None:
        """Count a cancelled action. Cancelled timeouts lie far ahead in the heap; it is purged once they fill half."""
        with self._changed:
            self._dropped += 1
            if self._dropped > max(1000, len(self._heap) // 2):
                self._heap = [entry for entry in self._heap if not entry[2].cancelled]
                heapq.heapify(self._heap)
                self._dropped = 0

    def _loop(self) -> None:
        while (timed := self._next()) is not None:
            try:
                timed.call()
            except Exception:
                log.exception("a timed action failed")

    def _next(self) -> Timed | None:
        with self._changed:
            while not self._stopped:
                if not self._heap:
                    self._changed.wait()
                    continue
                wait = self._heap[0][0] - self._clock.monotonic()
                if wait <= 0:
                    return heapq.heappop(self._heap)[2]
                self._changed.wait(wait)
            return None
