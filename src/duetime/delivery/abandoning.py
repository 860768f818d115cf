"""Work of others that cannot be interrupted, done in a thread that may be left behind when its time is up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")


class Abandoned(Exception):
    """It was not done in time; its thread may still be at it, and does not keep the process from ending."""


class NoneFree(Exception):
    """Too many were left behind, so that this one was not begun."""


class Helpers:
    """At most so many at once, those included that were left behind: more than workers usually have threads, so that
    only those use them up."""

    def __init__(self, most: int = 128) -> None:
        self._free = threading.BoundedSemaphore(most)

    def run(self, work: Callable[[], T], within: float) -> T:
        """`work` must not raise. Nobody waits for a helper: it would cost time that is not there any more."""
        if not self._free.acquire(blocking=False):
            raise NoneFree
        done: SimpleQueue[T] = SimpleQueue()
        threading.Thread(target=self._work, args=(work, done), name="duetime-helper", daemon=True).start()
        try:
            return done.get(timeout=within)
        except Empty:
            raise Abandoned from None

    def _work(self, work: Callable[[], T], done: SimpleQueue[T]) -> None:
        try:
            done.put(work())
        finally:
            self._free.release()
