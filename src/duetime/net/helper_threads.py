"""Threads for work that cannot be interrupted: one whose work is not done in time is abandoned."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from duetime.engine.model import LOCAL

T = TypeVar("T")


class Abandoned(Exception):
    """The work was not done in time; its thread may still be running, but does not keep the process from ending."""


class NoneFree(Exception):
    """Too many threads were abandoned, so this work was not started."""


class Helpers:
    """Runs at most `most` threads at once for one owner, including abandoned ones, and four times as many for all
    owners. That is more than workers usually have threads, so only abandoned ones can use them up. An owner never uses
    more than twice as many as it leaves free, so that a few owners cannot use up all of them."""

    def __init__(self, most: int = 128) -> None:
        self._most, self._free = most, 4 * most
        self._held: Counter[str] = Counter()
        self._lock = threading.Lock()

    def run(self, work: Callable[[], T], within: float, owner: str = LOCAL) -> T:
        """Return or raise what `work` does. This does not wait for a free thread, which would use up the caller's
        time."""
        self._take(owner)
        done = Future[T]()
        thread = threading.Thread(target=self._work, args=(work, done, owner), name="duetime-helper", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no memory or no thread left
            self._give_back(owner)
            raise NoneFree from None
        if not wait((done,), within).done:
            raise Abandoned
        return done.result()

    def _take(self, owner: str) -> None:
        with self._lock:
            held = self._held[owner]
            if self._free <= 0 or held >= min(self._most, max(1, 2 * self._free)):
                raise NoneFree
            self._held[owner] += 1
            self._free -= 1

    def _work(self, work: Callable[[], T], done: Future[T], owner: str) -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # it is raised in the thread that waits
            done.set_exception(error)
        finally:
            self._give_back(owner)

    def _give_back(self, owner: str) -> None:
        with self._lock:
            self._free += 1
            self._held[owner] -= 1
            self._held += Counter()  # drops owners at zero
