"""Which runs that a process died with a worker may begin, and how many of them beside each other.

A process died with several runs in hand, and nobody knows which of them killed it. These suspects come back in groups
that grow: one, then two, then four, as long as they end and no worker dies; after a death the next group is of one
again. Runs that several processes died with are kept apart from those with one death: in a group of their own, which
begins with one, a run that kills is soon alone, and only such a death is held against it (`policy.rescuing`).

The allowance lives in this process alone. A worker that dies takes it along and its successor begins with one; the
others begin anew when they see that a worker is gone. Nothing depends on it but how fast suspects return.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from duetime.engine.clock import Clock
from duetime.engine.model import RunId, WorkerId
from duetime.engine.outcome import Returned
from duetime.engine.policy.record import Finished
from duetime.engine.worker.runner import ClaimedRun

IDLE = 5.0
"""Seconds without suspects after which the next group is of one again."""


class Suspects:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._under_way: dict[RunId, ClaimedRun] = {}
        self._parked: list[ClaimedRun] = []
        self._workers: Set[WorkerId] = frozenset()
        self._last = clock.monotonic()
        self.start_small()

    def start_small(self) -> None:
        """After a death, and at the beginning of a life."""
        self._allowed = {False: 1, True: 1}

    def forget(self) -> None:
        """What was in hand is somebody else's."""
        self._under_way.clear()
        self._parked.clear()
        self.start_small()

    def look_at(self, workers: Iterable[WorkerId]) -> None:
        """A worker that is no longer there may have died of what it held."""
        present = frozenset(workers)
        if self._workers - present:
            self.start_small()
        self._workers = present

    # -- claiming -----------------------------------------------------------------------------------------------

    def room(self) -> int:
        """How many more may be claimed."""
        if self._parked:
            return 0
        if not self._under_way and self._clock.monotonic() - self._last > IDLE:
            self.start_small()
        return max(0, self._allowed[self._repeated()] - len(self._under_way))

    def admit(self, items: list[ClaimedRun]) -> list[ClaimedRun]:
        """Those that may begin now, in their order; the others begin when `ended` lets them."""
        suspects = [item for item in items if item.claim.run.deaths]
        if not suspects:
            return items
        earlier, self._parked = self._parked, [*self._parked, *suspects]
        released = self._released()
        waiting = {id(item) for item in self._parked}
        return [item for item in earlier if item in released] + [item for item in items if id(item) not in waiting]

    def ended(self, done: Iterable[tuple[ClaimedRun, Finished]]) -> list[ClaimedRun]:
        """Each one that was carried out, and left this process alive, lets one more begin beside its like. Those that
        may begin now."""
        for item, finished in done if self._under_way else ():
            if self._under_way.get(item.id) is item:
                del self._under_way[item.id]
                self._last = self._clock.monotonic()
                if not isinstance(finished.outcome, Returned):
                    self._allowed[_is_repeated(item)] += 1
        return self._released() if self._parked else []

    def take_back(self, stalled: float = 0.0) -> list[ClaimedRun]:
        """Those that have not begun after so many seconds in hand: another worker may have room for them."""
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
        """Of which sort those under way are: they are all of one."""
        return any(_is_repeated(item) for item in self._under_way.values())


def _is_repeated(item: ClaimedRun) -> bool:
    return item.claim.run.deaths > 1
