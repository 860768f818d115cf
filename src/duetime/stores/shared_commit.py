"""Lets callers that wait at the same time share one commit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from duetime.engine.errors import StoreUnavailable, StoreUnusable

T = TypeVar("T")
R = TypeVar("R")

MAX_CALLERS = 40
"""Maximum number of callers that share one commit, so that a transaction stays short and one statement can create what
each of them creates alone."""
MANY_CALLERS = 8
"""More callers than this are split into two halves: one is written while the other prepares its next request."""


class _Turn(Generic[T, R]):
    """A caller's item and its result. `signal` is released when the caller has to continue."""

    __slots__ = ("done", "error", "item", "leads", "result", "signal")

    def __init__(self, item: T) -> None:
        self.item = item
        self.signal = threading.Lock()
        self.signal.acquire()
        self.leads = False
        self.done = False
        self.result: R | None = None
        self.error: Exception | None = None


class SharedCommit(Generic[T, R]):
    """Writes the items of many callers with `write`, which writes all items of a list in one transaction, or none.

    A caller that finds nobody writing writes at once; there is no timer. Callers that arrive meanwhile wait, and then
    the first of them writes for all, or for half of them if they are many. If items cannot be written together, each
    caller writes its own, so that every caller gets the result that it would get alone. If the writing caller is
    interrupted, the next one takes over.

    `check` raises an error if nobody would ever see what is written. A caller that writes alone calls it before the
    write. A caller that writes for others calls it afterwards, when the next one is already writing, and before anybody
    gets a result: during a system call, a thread releases the interpreter lock, and all of them would wait until it has
    the lock again.
    """

    def __init__(self, write: Callable[[list[T]], list[R]], check: Callable[[], None] = lambda: None) -> None:
        self._write, self._check = write, check
        self._lock = threading.Lock()
        self._waiting: list[_Turn[T, R]] = []
        self._led = False
        self._written = 1

    def write(self, item: T) -> R:
        turn: _Turn[T, R] | None = None
        alone = False
        try:
            with self._lock:
                if self._led:
                    turn = _Turn(item)
                    self._waiting.append(turn)
                else:
                    self._led = alone = True
                    self._written = 1
            if turn is None:
                return self._write_alone(item)
            turn.signal.acquire()
            if turn.leads:
                self._lead(turn)
        finally:
            if turn is None or turn.leads or not turn.done:  # otherwise, it neither waits nor leads any more
                self._leave(turn, alone)
        if turn.error is not None:
            raise turn.error
        return turn.result if turn.done else self._write_alone(item)  # type: ignore[return-value]

    def _write_alone(self, item: T) -> R:
        self._check()
        return self._write([item])[0]

    def _lead(self, own: _Turn[T, R]) -> None:
        """Write for the waiting callers, and let them continue, however it ends."""
        turns: list[_Turn[T, R]] = []
        try:
            with self._lock:
                turns = self._waiting[: self._share()]
                del self._waiting[: len(turns)]
                self._written = len(turns)
            for turn, result in zip(turns, self._write([turn.item for turn in turns]), strict=True):
                turn.result, turn.done = result, True
        except Exception as error:
            # the error applies to each of them
            if len(turns) == 1 or isinstance(error, StoreUnavailable | StoreUnusable):
                for turn in turns:
                    turn.error = error
        finally:
            try:
                self._leave(own)  # first: the next one to write must not wait until all others have done their work
                self._check()
            except Exception as error:
                for turn in turns:
                    turn.error = error
            finally:
                for turn in turns:
                    if turn is not own:
                        turn.signal.release()

    def _share(self) -> int:
        """Return how many waiting callers are written together. The callers of the previous commit will be back."""
        callers = len(self._waiting) + self._written
        return min(len(self._waiting) if callers <= MANY_CALLERS else (callers + 1) // 2, MAX_CALLERS)

    def _leave(self, turn: _Turn[T, R] | None, leads: bool = False) -> None:
        """Let the next caller write if this one wrote or was about to."""
        with self._lock:
            if turn is not None:
                leads, turn.leads = turn.leads, False
                if turn in self._waiting:  # it was interrupted
                    self._waiting.remove(turn)
            if not leads:
                return
            self._led = bool(self._waiting)
            if self._led:
                self._waiting[0].leads = True
                self._waiting[0].signal.release()
