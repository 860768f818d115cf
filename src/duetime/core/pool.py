"""Threads that draw from one shared line: no future per run, and a run costs microseconds to hand over."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from duetime.core.executing import InHand


class Pool:
    def __init__(self, threads: int, carry_out: Callable[[InHand], None], after: Callable[[], None]) -> None:
        self._carry_out = carry_out
        self._after = after
        self._busy = [False] * threads
        self._line: deque[InHand] = deque()
        self._ready = threading.Condition()
        self._idle = 0
        self._waking = False  # a thread was called and has not come yet
        self._stopped = False
        self.size = threads
        self._threads = [
            threading.Thread(target=self._loop, args=(number,), name=f"duetime-run-{number}", daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def put(self, items: Sequence[InHand]) -> None:
        self._line.extend(items)
        self._call_one()

    def _call_one(self) -> None:
        """One thread at a time is called, and calls the next while the line is not empty: short work needs few."""
        with self._ready:
            if self._idle and not self._waking:
                self._waking = True
                self._ready.notify()

    def take_back(self) -> list[InHand]:
        """Everything that no thread has drawn yet."""
        items = []
        while self._line:
            try:
                items.append(self._line.pop())
            except IndexError:
                break
        return items

    @property
    def waiting(self) -> int:
        return len(self._line)

    @property
    def free(self) -> int:
        """Threads with nothing to do and nothing in line for them."""
        return max(0, self._busy.count(False) - len(self._line))

    def head(self) -> InHand | None:
        try:
            return self._line[0]
        except IndexError:
            return None

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

    def _loop(self, number: int) -> None:
        while (item := self._draw(number)) is not None:
            self._carry_out(item)
            self._busy[number] = False
            self._after()

    def _draw(self, number: int) -> InHand | None:
        while True:
            self._busy[number] = True  # before drawing, so that `free` never counts a thread twice
            try:
                item = self._line.popleft()
            except IndexError:
                self._busy[number] = False
            else:
                if self._line and self._idle and not self._waking:
                    self._call_one()
                return item
            with self._ready:
                if self._stopped:
                    return None
                if not self._line:
                    self._wait()

    def _wait(self) -> None:
        self._idle += 1
        self._ready.wait()
        self._idle -= 1
        self._waking = False
