"""The queue of runs that are claimed but not started: owners and kinds take turns within their shares."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from duetime.engine.worker.runner import ClaimedRun
from duetime.engine.worker.thread_shares import Part, ThreadShares


class FairQueue:
    """One queue per owner and kind; after its turn, a queue moves to the end. Callers hold the lock of the pool."""

    def __init__(self, shares: ThreadShares) -> None:
        self._shares = shares
        self._queues: dict[Part, deque[ClaimedRun]] = {}
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

    def draw(self) -> tuple[ClaimedRun, Part] | None:
        """Return the next run that may start, and its part. It counts as in flight until `ended` is called."""
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

    def draw_again(self, part: Part) -> ClaimedRun | None:
        """Return the next run of an owner and kind whose previous run has just ended, if no other part is waiting.

        It replaces the previous run, so that no count changes; most runs start this way.
        """
        queues = self._queues
        if len(queues) != 1:
            return None
        queue = queues.get(part)
        if queue is None or len(queue) == 1:
            return None
        self._length -= 1
        return queue.popleft()

    def ended(self, part: Part) -> None:
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
