"""Threads that draw from one shared line: no future per run, and a run costs microseconds to hand over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from duetime.engine.worker.fair_queue import FairLine
from duetime.engine.worker.runner import ClaimedRun
from duetime.engine.worker.thread_shares import Part, ThreadShares


class Pool:
    def __init__(
        self,
        threads: int,
        carry_out: Callable[[ClaimedRun], None],
        after: Callable[[], None],
        *,
        notifications: bool = True,
    ) -> None:
        self._carry_out = carry_out
        self._after = after
        self.shares = ThreadShares(threads, notifications=notifications)
        self._line = FairLine(self.shares)
        self._lock = threading.Lock()
        self._ready = threading.Condition(self._lock)
        self._idle = 0
        self._waking = False  # a thread was called and has not come yet
        self._stopped = False
        self.size = threads
        self._threads = [
            threading.Thread(target=self._loop, name=f"duetime-run-{number}", daemon=True) for number in range(threads)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def put(self, items: Sequence[ClaimedRun]) -> None:
        with self._ready:
            self._line.put(items)
            self._call_one()

    def _call_one(self) -> None:
        """One thread at a time is called, and calls the next while the line is not empty: short work needs few."""
        if self._idle and not self._waking:
            self._waking = True
            self._ready.notify()

    def take_back(self) -> list[ClaimedRun]:
        """Everything that no thread has drawn yet."""
        with self._ready:
            return self._line.take_back()

    def take_stalled(self, before: float) -> list[ClaimedRun]:
        """The same of those owners and kinds whose first run has stood in line since before."""
        with self._ready:
            return self._line.take_back(before)

    @property
    def waiting(self) -> int:
        return len(self._line)

    @property
    def free(self) -> int:
        """Threads with nothing to do and nothing in line for them."""
        return max(0, self.size - self.shares.in_flight - len(self._line))

    def head(self) -> ClaimedRun | None:
        with self._ready:
            return self._line.head()

    def stop(self, wait: float) -> bool:
        """True when every thread ended in time; a thread that hangs in a task is left behind."""
        with self._ready:
            self._stopped = True
            self._ready.notify_all()
        share = wait / max(1, len(self._threads))
        for thread in self._threads:
            if thread.is_alive():
                thread.join(share)
        return not any(thread.is_alive() for thread in self._threads)

    def _loop(self) -> None:
        drawn = self._draw(None)
        while drawn is not None:
            item, part = drawn
            self._carry_out(item)
            drawn = self._draw(part)

    def _draw(self, ended: Part | None) -> tuple[ClaimedRun, Part] | None:
        line = self._line
        with self._lock:  # the lock itself: going through the condition costs two calls for every run
            if ended is not None:
                self._after()
                if (item := line.draw_again(ended)) is not None:
                    return item, ended
                line.ended(ended)
            while (drawn := line.draw()) is None:
                if self._stopped:
                    return None
                self._wait()
            if line:
                self._call_one()
            return drawn

    def _wait(self) -> None:
        self._idle += 1
        self._ready.wait()
        self._idle -= 1
        self._waking = False
