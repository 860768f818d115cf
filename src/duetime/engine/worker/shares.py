"""Fair shares of a worker: which runs may start, and how much is claimed for each kind and owner.

Long work of one owner or kind leaves threads for the others. A worker claims what its threads can start, plus a little
work ahead.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from duetime.engine.kind import LOCAL, ThreadUse
from duetime.engine.policy.fair_share import UNLIMITED, Cursor, Turns
from duetime.engine.store import ClaimRequest
from duetime.engine.worker.runner import ClaimedRun

MIN_DIVIDED_THREADS = 4
"""With fewer threads than this, there is nothing to divide."""
# Bound once: an enum lookup costs as much as a call, and every run needs these.
RESERVED, CAPPED = ThreadUse.RESERVED, ThreadUse.CAPPED


class Load:
    """The number of runs that one owner has in flight, and the number of its parts, one per kind."""

    __slots__ = ("number", "parts")

    def __init__(self) -> None:
        self.number = self.parts = 0


class ThreadPart:
    """The number of runs of one kind that an owner has in flight. Updated tens of thousands of times a second."""

    __slots__ = ("kind", "number", "of_owner", "owner", "use")

    def __init__(self, kind: str, owner: str, use: ThreadUse, of_owner: Load) -> None:
        self.kind, self.owner, self.use, self.of_owner = kind, owner, use, of_owner
        self.number = 0


class ThreadShares:
    """Counts the runs in flight and decides which runs may start.

    A quarter of the threads is reserved for some kinds, and capped kinds use at most half. Of the threads that are left
    to a kind, an owner never uses more than twice as many as it leaves free: alone it gets two thirds, and further
    owners always find a thread. Only an owner's first run may use the last thread. The owner `local` may use all
    threads while nobody else has anything in the queue.

    Changed only under the lock of the pool; reads without the lock may be slightly out of date.
    """

    def __init__(self, threads: int, uses: Mapping[str, ThreadUse]) -> None:
        """`uses` names the kinds that this worker executes."""
        self.threads = threads
        self.divided = threads >= MIN_DIVIDED_THREADS
        self.uses: Mapping[str, ThreadUse] = defaultdict(lambda: ThreadUse.SHARED, uses)
        self.reserved = frozenset(kind for kind, use in uses.items() if self.divided and use is RESERVED)
        """The kinds that have reserved threads."""
        self.reserve = threads // 4 if self.reserved else 0
        self.most_capped = threads // 2 if self.divided else threads
        self.alone = True
        """True while only `local` has anything in the queue."""
        self.in_flight = 0
        self._kept = self.reserve
        self._of_reserved = self._of_capped = 0
        self._parts: dict[tuple[str, str], ThreadPart] = {}
        self._owners: dict[str, Load] = {}

    def part(self, kind: str, owner: str) -> ThreadPart:
        part = self._parts.get((kind, owner))
        if part is None:
            load = self._owners.setdefault(owner, Load())
            load.parts += 1
            part = self._parts[kind, owner] = ThreadPart(kind, owner, self.uses[kind], load)
        return part

    def begin(self, part: ThreadPart) -> None:
        self._count(part, 1)

    def end(self, part: ThreadPart) -> None:
        self._count(part, -1)

    def _count(self, part: ThreadPart, change: int) -> None:
        self.in_flight += change
        part.number += change
        part.of_owner.number += change
        if part.use is RESERVED:
            self._of_reserved += change
            self._kept = max(0, self.reserve - self._of_reserved)
        elif part.use is CAPPED:
            self._of_capped += change

    def forget(self, part: ThreadPart) -> None:
        """Drop a part that has nothing in flight and nothing queued."""
        if self._parts.pop((part.kind, part.owner), None) is not None:
            part.of_owner.parts -= 1
            if not part.of_owner.parts:
                del self._owners[part.owner]

    def usable(self, use: ThreadUse) -> int:
        """Return how many threads are free for kinds with this thread use, regardless of owner."""
        free = self.threads - self.in_flight
        if use is RESERVED:
            return free
        return min(free - self._kept, self.most_capped - self._of_capped) if use is CAPPED else free - self._kept

    def may_begin(self, part: ThreadPart) -> bool:
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

    def in_flight_of(self) -> list[ThreadPart]:
        return [part for part in list(self._parts.values()) if part.number > 0]


SLOW_SECONDS = 1.0
"""Seconds that a run is assumed to take until earlier ones have proved faster; longer runs count as this long."""
_MOST_KNOWN = 10_000


kind_and_owner = attrgetter("claim.definition.kind", "claim.definition.owner")


class ClaimShares:
    """Limits claims to what can start soon, because a run that only waits here could be executed by another worker."""

    def __init__(self, ahead: float, most_ahead: int) -> None:
        self.threads = ThreadShares(0, {})
        """The shares of the pool that executes runs; `Engine` sets them if there is a pool."""
        self._ahead, self._most_ahead = ahead, most_ahead
        self._paces: dict[str, float] = {}
        self._cursors: defaultdict[str, Cursor] = defaultdict(Cursor)
        self._kept = self._left_to_capped = 0  # capacity that is reserved, and capacity for capped kinds
        self._owners: Counter[str] = Counter()
        self._waiting: Counter[tuple[str, str]] = Counter()
        self.idle = 0
        """Number of threads that no run claimed so far may use now, but a run of another owner may."""

    def took(self, owner: str, seconds: float) -> None:
        if len(self._paces) > _MOST_KNOWN:
            self._paces.clear()
        pace = self._paces.get(owner, SLOW_SECONDS)
        self._paces[owner] = pace + (min(SLOW_SECONDS, seconds) - pace) * 0.05

    def stalled(self, items: Iterable[ClaimedRun]) -> None:
        for item in items:
            self._paces.pop(item.claim.definition.owner, None)

    def group(self, kind: str) -> str:
        """Return the group of kinds with which a kind shares threads; some kinds have reserved threads."""
        return RESERVED if kind in self.threads.reserved else ""

    def count(self, held: Counter[tuple[str, str]]) -> None:
        """Recount the claimed runs, given by kind and owner: all of them by owner, those that no thread executes by
        group and owner, and those that are executing or may start now by thread use. Runs that only wait for their
        owner's share take no thread from other owners."""
        self._owners, self._waiting = Counter(), Counter()
        uses: Counter[str] = Counter()
        in_flight = Counter({(part.kind, part.owner): part.number for part in self.threads.in_flight_of()})
        ready = 0
        for (kind, owner), number in held.items():
            waiting = max(0, number - in_flight[kind, owner])
            blocked = max(0, waiting - self.threads.startable(kind, owner)) if self.threads.divided else 0
            uses[self.threads.uses[kind]] += number - blocked
            self._owners[owner] += number
            self._waiting[self.group(kind), owner] += waiting
            ready += waiting - blocked
        self._kept = max(0, self.threads.reserve - uses[RESERVED])
        self._left_to_capped = self.threads.most_capped - uses[CAPPED]
        self.idle = max(0, self.threads.threads - self.threads.in_flight - ready) if self.threads.divided else 0

    def order(self, kinds: Iterable[str]) -> list[str]:
        """Sort kinds so that those with the smaller limits claim first and the others get what remains."""
        places = {CAPPED: 0, RESERVED: 2} if self.threads.divided else {}
        return sorted(kinds, key=lambda kind: places.get(self.threads.uses[kind], 1))

    def limit(self, kind: str, limit: int, capacity: int) -> int:
        """Return how many runs of a kind may be claimed without using the capacity that is reserved for other kinds."""
        if kind in self.threads.reserved or not self.threads.divided:
            return limit
        limit = min(limit, capacity - self._kept)
        return min(limit, self._left_to_capped) if self.threads.uses[kind] is CAPPED else limit

    def turns(self, kind: str, lane: str, *, at_once: bool) -> Turns | None:
        """Return how owners share a claim. `at_once`: each run needs an idle thread, so none is claimed ahead."""
        threads = self.threads
        if not threads.divided:
            return None if threads.alone else Turns(self._cursors[lane])
        most = {owner: self._capacity(kind, owner, at_once) for owner in self._owners}
        each = max(0 if at_once else 1, threads.startable(kind, ""))
        if threads.alone:
            most[LOCAL] = UNLIMITED
        return Turns(self._cursors[lane], each, most, self.group(kind), threads.alone)

    def saw(self, owners: Iterable[str]) -> None:
        """Record that `local` is not the only owner, if claimed runs show it."""
        if self.threads.alone and set(owners) - {LOCAL}:
            self.threads.alone = False

    def _capacity(self, kind: str, owner: str, at_once: bool) -> int:
        capacity = self.threads.startable(kind, owner) - max(0, self._waiting[self.group(kind), owner])
        if at_once:
            return capacity
        pace = max(self._paces.get(owner, SLOW_SECONDS), 1e-6)
        ahead = min(self._most_ahead, int(self.threads.threads * self._ahead / pace))
        return max(capacity + ahead, 0 if self._owners[owner] > 0 else 1)

    def full(self, wants: Sequence[ClaimRequest]) -> list[tuple[str, str]]:
        """Return the pairs of lane and owner without capacity: nothing of theirs can be claimed before one of their
        runs ends."""
        return [
            (want.lane, owner)
            for want in wants
            if want.turns is not None
            for owner, capacity in want.turns.most.items()
            if capacity <= 0
        ]

    def blocked(self, lanes: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the pairs of lane and owner, for these (lane, kind) pairs, whose share is used up even if a thread is
        idle."""
        if self.threads.alone or not self.threads.divided:
            return []
        owners = {part.owner for part in self.threads.in_flight_of()}
        return [(lane, owner) for lane, kind in lanes for owner in owners if not self.threads.startable(kind, owner)]
