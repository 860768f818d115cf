"""A timer thread that calls actions on time: the starts of runs at their instants, and timeouts."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable

from duetime.engine.clock import Clock

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
