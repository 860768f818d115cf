"""Shares of the server's threads: one owner's slow or many requests leave room for everybody else's.

The threads that answer requests are few. A request waits until its owner has a free slot; when too many of an owner's
requests wait, further ones are refused, so that neither memory nor patience runs out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from duetime.engine.kind import LOCAL

T = TypeVar("T")

NOBODY: Final = ""
"""Stands for all requests that nobody was authenticated for."""
SHARE: Final = 8
SHARES: Final = {NOBODY: 4, LOCAL: 24}
"""Of the 40 threads. The local owner runs this server and has the most; others always find some free."""
MOST_WAITING: Final = 64


@dataclass(frozen=True, slots=True)
class Shares:
    """What one owner may have at a time; the local owner has more, or all of it."""

    requests: int = SHARE
    sessions: int = 50
    streams: int = 50
    watches: int = 100


class TooManyRequests(Exception):
    """Too many requests are being answered at once; wait for some answers, then send it again."""

    def __init__(self) -> None:
        super().__init__(self.__doc__)


class OwnerLimits:
    """Used by the thread of the server's loop alone."""

    def __init__(self, shares: Shares | None = None, most_waiting: int = MOST_WAITING) -> None:
        self.shares, self._most_waiting = shares or Shares(), most_waiting
        self._slots: dict[str, anyio.Semaphore] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def slot(self, owner: str) -> AsyncIterator[None]:
        """Wait for one of the owner's slots and hold it. Raise TooManyRequests where too many wait already."""
        slots = self._slots.get(owner)
        if slots is None:
            slots = self._slots[owner] = anyio.Semaphore(SHARES.get(owner, self.shares.requests))
        if owner != LOCAL and slots.statistics().tasks_waiting >= self._most_waiting:
            raise TooManyRequests
        self._users[owner] = self._users.get(owner, 0) + 1
        try:
            async with slots:
                yield
        finally:
            self._users[owner] -= 1
            if not self._users[owner]:  # whoever is not here costs nothing
                del self._users[owner], self._slots[owner]

    async def run(self, owner: str, function: Callable[[], T]) -> T:
        """Call a function in a thread, in one of the owner's slots."""
        async with self.slot(owner):
            return await anyio.to_thread.run_sync(function)
