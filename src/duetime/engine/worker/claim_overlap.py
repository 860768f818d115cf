"""Overlaps the claims of a worker's threads: while one thread commits its claim, another one plans the next.

A turn lasts from the choice of what to claim until the claim is accepted. A thread can pass its turn on as soon as the
claim is planned: what is being committed then counts as held, so that the next claim requests only what fits beside it,
starting behind it in the queue.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from duetime.engine.policy.claim import Claim
from duetime.engine.policy.rows import first_lane
from duetime.engine.store import QueuePosition

MIN_OVERLAPPED_CLAIMS = 100
"""Number of runs from which the commit of a claim takes long enough to plan another claim meanwhile."""


class ClaimTurn:
    """A thread's turn to claim."""

    __slots__ = ("claims", "ends", "passed")

    def __init__(self) -> None:
        self.claims: Counter[tuple[str, str]] = Counter()
        """The number of runs being committed and not yet accepted after the turn was passed on, by kind and owner."""
        self.ends: dict[str, QueuePosition] = {}
        """The position in the queue of the last of these claims, by lane."""
        self.passed = False


class ClaimOverlap:
    def __init__(self, changing: threading.Lock) -> None:
        """`changing` is the lock that is held while the claimed runs of the worker change."""
        self._planning = threading.Lock()
        self._changed = threading.Condition(changing)
        self._committing: list[ClaimTurn] = []
        self.on_pass: Callable[[], None] = lambda: None
        """Called when a turn is passed on."""

    @contextmanager
    def take(self) -> Iterator[ClaimTurn]:
        """Wait for the turn; it ends with the block."""
        turn = ClaimTurn()
        self._planning.acquire()
        try:
            yield turn
        finally:
            if turn.passed:
                with self._changed:
                    self._committing.remove(turn)
                    self._changed.notify_all()
            else:
                self._planning.release()

    def pass_on(self, turn: ClaimTurn, claims: Sequence[Claim]) -> None:
        turn.claims = Counter([(claim.definition.kind, claim.definition.owner) for claim in claims])
        turn.ends = {first_lane(each.kind, each.policy): QueuePosition(at, each.id) for _, each, at in claims}
        with self._changed:
            self._committing.append(turn)
        turn.passed = True
        self._planning.release()
        self.on_pass()

    @property
    def passed(self) -> bool:
        """Return whether a claim is being committed, so that another thread may plan the next one."""
        return bool(self._committing)

    def committing(self) -> Counter[tuple[str, str]]:
        """Return the number of runs being committed, by kind and owner. The caller holds the lock."""
        return sum((turn.claims for turn in self._committing), Counter())

    def ends(self) -> dict[str, QueuePosition]:
        """Return, by lane, how far into the queue the claims being committed extend. The caller holds the lock."""
        ends: dict[str, QueuePosition] = {}
        for turn in self._committing:
            ends |= {lane: max(end, ends.get(lane, end)) for lane, end in turn.ends.items()}
        return ends

    def wait_for_commits(self) -> None:
        """Wait until nothing is being committed. The thread that has the turn prevents others from starting."""
        with self._changed:
            self._changed.wait_for(lambda: not self._committing)
