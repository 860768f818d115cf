"""Limits on how many suspects, runs that were held by a worker process when it died, a worker executes at once.

When a process dies with several runs in flight, nobody knows which of them killed it. These suspects return in groups
that grow: one, then two, then four, as long as they end and no worker dies. After a death the next group has one run
again. Runs with several deaths are kept apart from those with one: in groups of their own, which also start with one,
a run that kills its process is soon alone, and only such a death is held against it (`policy.rescue`).

The allowance is kept in this process only. The successor of a dead worker starts with one, and the others start again
when they see that a worker is gone. It only affects how fast suspects return.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from duetime.engine.clock import Clock
from duetime.engine.model import RunId, WorkerId
from duetime.engine.outcome import Returned
from duetime.engine.policy.record import Finished
from duetime.engine.worker.runner import ClaimedRun

IDLE = 5.0
"""Seconds without suspects after which the next group has one run again."""


class Suspects:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._under_way: dict[RunId, ClaimedRun] = {}
        self._parked: list[ClaimedRun] = []
        self._workers: Set[WorkerId] = frozenset()
        self._last = clock.monotonic()
        self.start_small()

    def start_small(self) -> None:
        """Reset the group sizes to one: after a death, and when a worker starts."""
        self._allowed = {False: 1, True: 1}

    def forget(self) -> None:
        """Drop all suspects, because they belong to other workers now."""
        self._under_way.clear()
        self._parked.clear()
        self.start_small()

    def look_at(self, workers: Iterable[WorkerId]) -> None:
        """Reset the group sizes if a worker is gone: one of its runs may have killed it."""
        present = frozenset(workers)
        if self._workers - present:
            self.start_small()
        self._workers = present

    # -- claiming -----------------------------------------------------------------------------------------------

    def capacity(self) -> int:
        """Return how many more suspects may be claimed."""
        if self._parked:
            return 0
        if not self._under_way and self._clock.monotonic() - self._last > IDLE:
            self.start_small()
        return max(0, self._allowed[self._repeated()] - len(self._under_way))

    def admit(self, items: list[ClaimedRun]) -> list[ClaimedRun]:
        """Return the runs that may start now, in order; the others start when `ended` returns them."""
        suspects = [item for item in items if item.claim.run.deaths]
        if not suspects:
            return items
        earlier, self._parked = self._parked, [*self._parked, *suspects]
        released = self._released()
        waiting = {id(item) for item in self._parked}
        return [item for item in earlier if item in released] + [item for item in items if id(item) not in waiting]

    def ended(self, done: Iterable[tuple[ClaimedRun, Finished]]) -> list[ClaimedRun]:
        """Return the suspects that may start now. Each one that was executed, and left this process alive, allows one
        more of its sort at once."""
        for item, finished in done if self._under_way else ():
            if self._under_way.get(item.id) is item:
                del self._under_way[item.id]
                self._last = self._clock.monotonic()
                if not isinstance(finished.outcome, Returned):
                    self._allowed[_is_repeated(item)] += 1
        return self._released() if self._parked else []

    def take_back(self, stalled: float = 0.0) -> list[ClaimedRun]:
        """Remove and return those not started `stalled` seconds after their claim: another worker may have room."""
        if not self._parked:
            return []
        latest = self._clock.monotonic() - stalled
        taken = [item for item in self._parked if item.since <= latest]
        self._parked = [item for item in self._parked if item.since > latest]
        return taken

    def _released(self) -> list[ClaimedRun]:
        released = []
        for item in sorted(self._parked, key=lambda item: -item.claim.run.deaths):
            repeated = _is_repeated(item)
            if self._under_way and (self._repeated() != repeated or len(self._under_way) >= self._allowed[repeated]):
                continue
            self._under_way[item.id] = item
            released.append(item)
        self._parked = [item for item in self._parked if self._under_way.get(item.id) is not item]
        return released

    def _repeated(self) -> bool:
        """Return whether the suspects in flight have several deaths each; all of them are of one sort."""
        return any(_is_repeated(item) for item in self._under_way.values())


def _is_repeated(item: ClaimedRun) -> bool:
    return item.claim.run.deaths > 1
