"""A thread pool with one shared queue in which owners and kinds take turns within their shares.

It creates no future per run, so handing over a run takes microseconds.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from duetime.engine.clock import Clock
from duetime.engine.kind import ThreadUse
from duetime.engine.worker.runner import ClaimedRun
from duetime.engine.worker.shares import ThreadPart, ThreadShares

log = logging.getLogger("duetime.timer")


class FairQueue:
    """A queue per owner and kind; after its turn, a queue moves to the end. Callers hold the lock of the pool."""

    def __init__(self, shares: ThreadShares) -> None:
        self._shares = shares
        self._queues: dict[ThreadPart, deque[ClaimedRun]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def put(self, items: Sequence[ClaimedRun]) -> None:
        kind = owner = ""
        queue: deque[ClaimedRun] = deque()
        for item in items:
            definition = item.claim.definition
            if definition.owner != owner or definition.kind != kind:
                kind, owner = definition.kind, definition.owner
                queue = self._queues.setdefault(self._shares.part(kind, owner), deque())
            queue.append(item)
        self._length += len(items)

    def draw(self) -> tuple[ClaimedRun, ThreadPart] | None:
        """Return the next run that may start, and its part. The run counts as in flight until `ended` is called."""
        may_begin = self._shares.may_begin
        for part, queue in self._queues.items():  # noqa: B007 - both are used after the break
            if may_begin(part):
                break
        else:
            return None
        item = queue.popleft()
        if not queue:
            del self._queues[part]
        elif len(self._queues) > 1:
            self._queues[part] = self._queues.pop(part)
        self._length -= 1
        self._shares.begin(part)
        return item, part

    def draw_again(self, part: ThreadPart) -> ClaimedRun | None:
        """Return the next run of an owner and kind whose previous run has just ended, if no other part is waiting. It
        takes the place of the previous run, so no count changes; most runs start this way."""
        queues = self._queues
        if len(queues) != 1:
            return None
        queue = queues.get(part)
        if queue is None or len(queue) == 1:
            return None
        self._length -= 1
        return queue.popleft()

    def ended(self, part: ThreadPart) -> None:
        self._shares.end(part)
        if not part.number and part not in self._queues:
            self._shares.forget(part)

    def head(self) -> ClaimedRun | None:
        """Return the run that has waited longest."""
        return min((queue[0] for queue in self._queues.values()), key=lambda item: item.since, default=None)

    def take_back(self, before: float | None = None) -> list[ClaimedRun]:
        """Remove and return all runs, or the queues whose first run was claimed before `before` (monotonic clock)."""
        parts = [part for part, queue in self._queues.items() if before is None or queue[0].since < before]
        items = [item for part in parts for item in self._queues.pop(part)]
        self._length -= len(items)
        for part in parts:
            if not part.number:
                self._shares.forget(part)
        return items


class Pool:
    def __init__(
        self,
        threads: int,
        execute: Callable[[ClaimedRun], None],
        after: Callable[[], None],
        uses: Mapping[str, ThreadUse],
    ) -> None:
        self._execute = execute
        self._after = after
        self.shares = ThreadShares(threads, uses)
        self._queue = FairQueue(self.shares)
        self._lock = threading.Lock()
        self._ready = threading.Condition(self._lock)
        self._idle = 0
        self._waking = False  # True while a notified thread has not woken up yet
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
            self._queue.put(items)
            self._wake_one()

    def _wake_one(self) -> None:
        """Wake one thread, which wakes the next while the queue is not empty, because short work needs few threads."""
        if self._idle and not self._waking:
            self._waking = True
            self._ready.notify()

    def take_back(self, before: float | None = None) -> list[ClaimedRun]:
        """Remove and return all runs that no thread has taken yet, or those of owners and kinds whose first queued run
        was claimed before `before`."""
        with self._ready:
            return self._queue.take_back(before)

    @property
    def free(self) -> int:
        """Number of idle threads for which no run is queued."""
        return max(0, self.size - self.shares.in_flight - len(self._queue))

    def head(self) -> ClaimedRun | None:
        with self._ready:
            return self._queue.head()

    def stop(self, wait: float) -> bool:
        """Stop, and return whether every thread ended in time; a thread that hangs in a task is left behind."""
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
            self._execute(item)
            drawn = self._draw(part)

    def _draw(self, ended: ThreadPart | None) -> tuple[ClaimedRun, ThreadPart] | None:
        queue = self._queue
        with self._lock:  # the lock itself: using the condition costs two more calls per run
            if ended is not None:
                self._after()
                if (item := queue.draw_again(ended)) is not None:
                    return item, ended
                queue.ended(ended)
            while (drawn := queue.draw()) is None:
                if self._stopped:
                    return None
                self._idle += 1
                self._ready.wait()
                self._idle -= 1
                self._waking = False
            if queue:
                self._wake_one()
            return drawn


class Timer:
    """Calls actions after a delay. Actions must be short, because they run one after the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int]] = []
        """When each action is due, and its number; also of actions that were cancelled."""
        self._actions: dict[int, Callable[[], None]] = {}
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

    def after(self, seconds: float, action: Callable[[], None]) -> int:
        """Call an action later, and return the number by which it can be cancelled."""
        at, number = self._clock.monotonic() + seconds, next(self._numbers)
        with self._changed:
            first = not self._heap or at < self._heap[0][0]
            self._actions[number] = action
            heapq.heappush(self._heap, (at, number))
            if first:
                self._changed.notify()
        return number

    def cancel(self, number: int) -> None:
        """Cancel an action. Cancelled timeouts are far from the head of the heap, so it is purged once they fill half
        of it."""
        with self._changed:
            self._actions.pop(number, None)
            if len(self._heap) > max(1000, 2 * len(self._actions)):
                self._heap = [entry for entry in self._heap if entry[1] in self._actions]
                heapq.heapify(self._heap)

    def _loop(self) -> None:
        while (action := self._next()) is not None:
            try:
                action()
            except Exception:
                log.exception("a timed action failed")

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while not self._stopped:
                wait = self._heap[0][0] - self._clock.monotonic() if self._heap else None
                if wait is None or wait > 0:
                    self._changed.wait(wait)
                elif (action := self._actions.pop(heapq.heappop(self._heap)[1], None)) is not None:
                    return action
            return None
