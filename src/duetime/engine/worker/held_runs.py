"""The runs that a worker holds: from their claim, while they wait and are executed, until their outcome is recorded."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from duetime.engine.clock import Clock
from duetime.engine.model import RunId, WorkerId
from duetime.engine.worker.claim_overlap import ClaimTurn
from duetime.engine.worker.poison import Done, Suspects
from duetime.engine.worker.runner import ClaimedRun


class HeldRuns:
    """Threads that execute runs append to `done`; everything else is changed by threads that claim or record."""

    def __init__(self, clock: Clock) -> None:
        self.claimed: dict[RunId, ClaimedRun] = {}
        self.done: deque[Done] = deque()
        """Runs with outcomes that are not recorded yet."""
        self.suspects = Suspects(clock)
        self.changing = threading.Lock()
        """Held while claimed runs and suspects change."""
        self._strays: list[ClaimedRun] = []

    def add(self, items: list[ClaimedRun], turn: ClaimTurn | None) -> list[ClaimedRun]:
        """Hold claimed runs, which are then no longer being committed in the turn. Return those that may start."""
        with self.changing:
            self.claimed.update([(item.id, item) for item in items])
            if turn is not None:
                turn.claims.clear()
            return self.suspects.admit(items)

    def take_finished(self, worker: WorkerId, most: int) -> tuple[list[Done], list[ClaimedRun]]:
        """Take finished runs off the list; return them, and the suspects that may start now that these have ended.

        Outcomes of an earlier registration are dropped, because nobody waits for them; those of a later one, which
        another thread has made meanwhile, stay. The ids of workers increase."""
        done = [self.done.popleft() for _ in range(min(len(self.done), most))]
        self.done.extendleft(reversed([pair for pair in done if pair[0].worker > worker]))
        batch = [pair for pair in done if pair[0].worker == worker]
        with self.changing:
            return batch, self.suspects.ended(batch)

    def put_back(self, batch: Sequence[Done]) -> None:
        """Put outcomes that could not be recorded back on the list, so that none is lost."""
        self.done.extendleft(reversed(batch))

    def remove(self, batch: Sequence[Done]) -> None:
        """Forget runs whose outcome is recorded."""
        with self.changing:
            for item, _ in batch:
                # if it was released and claimed again, it is held as another item
                if self.claimed.get(item.id) is item:
                    del self.claimed[item.id]

    def drop(self) -> None:
        """Forget all runs, because they belong to other workers now."""
        with self.changing:
            self._strays += [item for item in self.claimed.values() if item.begun]
            self.claimed.clear()
            self.suspects.forget()

    def count_strays(self) -> int:
        """Return how many runs were dropped while they were executed, and still occupy a thread."""
        self._strays = [item for item in self._strays if not item.over]
        return len(self._strays)
