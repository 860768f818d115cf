"""The division of a worker's threads, so that long work of one owner or kind leaves room for the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from duetime.engine.kind import LOCAL, ThreadUse

FEWEST = 4
"""With fewer threads than this there is nothing to divide."""
# Bound once: looking up an enum member costs as much as a call, and every run comes here.
RESERVED, CAPPED = ThreadUse.RESERVED, ThreadUse.CAPPED


class Load:
    """The number of runs that one owner has in flight, and of its parts."""

    __slots__ = ("number", "parts")

    def __init__(self) -> None:
        self.number = self.parts = 0


class Part:
    """The number of runs of one kind that an owner has in flight. Updated tens of thousands of times a second."""

    __slots__ = ("kind", "number", "of_owner", "owner", "use")

    def __init__(self, kind: str, owner: str, use: ThreadUse, of_owner: Load) -> None:
        self.kind, self.owner, self.use, self.of_owner = kind, owner, use, of_owner
        self.number = 0


class ThreadShares:
    """Counts the runs in flight and decides which runs may start.

    A quarter of the threads is left to kinds that have them reserved, and capped kinds take at most half. Of what is
    left to a kind, an owner never takes more than twice as much as it leaves free: alone it gets two thirds, and
    further owners always find a thread. Only its first run may take the last thread. The owner `local` may take all
    threads while nobody else has anything in the queue.

    Changed only under the lock of the pool; reads without the lock may be slightly out of date.
    """

    def __init__(self, threads: int, uses: Mapping[str, ThreadUse]) -> None:
        """`uses` has the kinds that this worker executes."""
        self.threads = threads
        self.divided = threads >= FEWEST
        self.uses: Mapping[str, ThreadUse] = defaultdict(lambda: ThreadUse.SHARED, uses)
        self.reserved = frozenset(kind for kind, use in uses.items() if self.divided and use is RESERVED)
        """The kinds that have reserved threads."""
        self.reserve = threads // 4 if self.reserved else 0
        self.most_capped = threads // 2 if self.divided else threads
        self.alone = True
        """True while nobody but `local` has anything in the queue."""
        self.in_flight = 0
        self._kept = self.reserve
        self._of_reserved = self._of_capped = 0
        self._parts: dict[tuple[str, str], Part] = {}
        self._owners: dict[str, Load] = {}

    def part(self, kind: str, owner: str) -> Part:
        part = self._parts.get((kind, owner))
        if part is None:
            load = self._owners.setdefault(owner, Load())
            load.parts += 1
            part = self._parts[kind, owner] = Part(kind, owner, self.uses[kind], load)
        return part

    def begin(self, part: Part) -> None:
        self.in_flight += 1
        part.number += 1
        part.of_owner.number += 1
        self._count(part.use, 1)

    def end(self, part: Part) -> None:
        self.in_flight -= 1
        part.number -= 1
        part.of_owner.number -= 1
        self._count(part.use, -1)

    def forget(self, part: Part) -> None:
        """Drop a part with nothing in flight and nothing queued."""
        if self._parts.pop((part.kind, part.owner), None) is not None:
            part.of_owner.parts -= 1
            if not part.of_owner.parts:
                del self._owners[part.owner]

    def _count(self, use: ThreadUse, change: int) -> None:
        if use is RESERVED:
            self._of_reserved += change
            self._kept = max(0, self.reserve - self._of_reserved)
        elif use is CAPPED:
            self._of_capped += change

    def usable(self, use: ThreadUse) -> int:
        """Return how many threads are free for kinds of a use, regardless of owner."""
        free = self.threads - self.in_flight
        if use is RESERVED:
            return free
        return min(free - self._kept, self.most_capped - self._of_capped) if use is CAPPED else free - self._kept

    def may_begin(self, part: Part) -> bool:
        free = self.usable(part.use)
        if free <= 0 or not self.divided or (self.alone and part.owner == LOCAL):
            return free > 0
        held = part.of_owner.number
        return held == 0 or held + 1 <= 2 * (free - 1)

    def startable(self, kind: str, owner: str) -> int:
        """Return how many runs of an owner could begin now, one after the other."""
        free = self.usable(self.uses[kind])
        if free <= 0 or not self.divided or (self.alone and owner == LOCAL):
            return max(0, free)
        held = self.held(owner)
        return max(0 if held else 1, (2 * free - held) // 3)

    def held(self, owner: str) -> int:
        load = self._owners.get(owner)
        return load.number if load is not None else 0

    def in_flight_of(self) -> list[Part]:
        return [part for part in list(self._parts.values()) if part.number > 0]
