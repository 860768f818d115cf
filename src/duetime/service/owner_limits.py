"""Limits per owner: slow or numerous requests of one owner must not starve the others.

There are few threads for requests. A request waits until its owner has a free slot; when too many of an owner's
requests wait, further ones are refused, which bounds memory and waiting time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread

from duetime.engine.kind import LOCAL
from duetime.engine.value_class import dataclass
from duetime.service.errors import refuse

T = TypeVar("T")

NOBODY: Final = ""
"""The owner of all unauthenticated requests."""
SHARE: Final = 8
SHARES: Final = {NOBODY: 4, LOCAL: 24}
"""Slots out of the 40 threads. The local owner runs this server and gets the most; some slots remain for others."""
LARGE: Final = 100 * 1024
"""Size in bytes above which an answer is large."""
SHARE_OF_LARGE: Final = 2
LARGE_FOR: Final = 1.0
"""Seconds after a large answer for which its owner has this share."""
MOST_WAITING: Final = 64
WAITS_OF_LOCAL: Final = 64
MAX_STREAMS: Final = 256
MAX_STREAMS_OF_ONE: Final = 16
"""Maximum open streams of events, in total and of one owner: each of them polls several times a second."""


@dataclass(frozen=True, slots=True)
class Shares:
    """How much one owner may use at the same time; the local owner has higher limits or none."""

    requests: int = SHARE
    sessions: int = 50
    streams: int = 50
    watches: int = 100
    waits: int = 8
    """Requests that wait for the end of a run."""


@contextmanager
def counted(numbers: Counter[str], owner: str) -> Iterator[None]:
    """Count one more for an owner while the context is open; an owner without any uses no memory."""
    numbers[owner] += 1
    try:
        yield
    finally:
        numbers[owner] -= 1
        if not numbers[owner]:
            del numbers[owner]


class TooManyRequests(Exception):
    """Too many requests are being answered at once; wait for some answers, then send it again."""

    def __init__(self) -> None:
        super().__init__(self.__doc__)


class TooManyWaits(TooManyRequests):
    """Nothing was started: too many requests already wait for the end of a run; ask again without waiting."""


class OwnerLimits:
    """Request slots per owner. Use it only from the thread of the server's event loop."""

    def __init__(self, shares: Shares | None = None, most_waiting: int = MOST_WAITING) -> None:
        self.shares, self._most_waiting = shares or Shares(), most_waiting
        # Weak: requests hold the slots of their owner, so an owner without requests uses no memory.
        self._slots: WeakValueDictionary[str, anyio.Semaphore] = WeakValueDictionary()
        self._waits: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()
        self._large: dict[str, float] = {}
        """When owners last got a large answer."""

    def answered(self, owner: str, size: int) -> None:
        """Note the size of an answer: while an owner's answers are large, few of them are prepared at a time, because
        masking and encoding keep other threads from running."""
        if size > LARGE and owner not in SHARES:
            self._large[owner] = anyio.current_time()

    def slot(self, owner: str) -> AbstractAsyncContextManager[None]:
        """Return a context that waits for one of the owner's slots and holds it. Raise TooManyRequests if too many
        requests already wait."""
        share = SHARES.get(owner, self.shares.requests)
        if owner in self._large and anyio.current_time() - self._large[owner] < LARGE_FOR:
            owner, share = f"{owner}\0", min(share, SHARE_OF_LARGE)
        slots = self._slots.get(owner)
        if slots is None:
            slots = anyio.Semaphore(share, fast_acquire=True)
            self._slots[owner] = slots
        if owner != LOCAL and slots.value == 0 and slots.statistics().tasks_waiting >= self._most_waiting:
            raise TooManyRequests
        return slots  # type: ignore[return-value]  # what it yields is not used

    @contextmanager
    def waiting(self, owner: str) -> Iterator[None]:
        """Count a request that waits for the end of a run, without a slot. Raise TooManyWaits if too many do."""
        if self._waits[owner] >= (WAITS_OF_LOCAL if owner == LOCAL else self.shares.waits):
            raise TooManyWaits
        with counted(self._waits, owner):
            yield

    @contextmanager
    def streaming(self, owner: str) -> Iterator[None]:
        """Count a stream of events from the start of its request, so that concurrent requests cannot exceed the
        limit."""
        if self._streams.total() >= MAX_STREAMS or self._streams[owner] >= MAX_STREAMS_OF_ONE:
            raise refuse("too_many_streams", "too many streams are open; close some first")
        with counted(self._streams, owner):
            yield

    async def run(self, owner: str, function: Callable[[], T]) -> T:
        """Call a function in a thread while holding one of the owner's slots."""
        async with self.slot(owner):
            return await anyio.to_thread.run_sync(function)
