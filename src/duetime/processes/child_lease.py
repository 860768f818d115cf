"""How long a child process may go on: always less than its worker's lease, whatever happens to the worker.

A worker tells its children a deadline on the boot clock, which all processes of a machine share, and a later one from
time to time while its own lease lasts. A child ends itself, with everything that it started, when its deadline has
passed. So neither a worker that is stopped, nor one that hangs, nor a machine that sleeps leaves a child behind that
works beside the worker that took the run over.
"""

from __future__ import annotations

from duetime.engine.clock import Clock, SystemClock
from duetime.engine.worker.lease import Lease

LONGEST_INTERVAL = 1.0
"""Seconds between two messages to a child, at most."""


def margin_of(seconds: float) -> float:
    """Seconds before the end of a lease at which the children have to be gone."""
    return min(1.0, seconds / 5)


class ChildLease:
    """`patience`: seconds that a child lives unheard, also where the lease is longer, or where there is none."""

    def __init__(self, lease: Lease | None, patience: float, clock: Clock | None = None) -> None:
        # Real processes live in real time, also where the schedules run on a clock that is set by hand.
        self._clock = clock or SystemClock()
        self._lease, self._patience = lease, patience
        shortest = patience if lease is None else min(patience, lease.seconds / 2)
        self._interval = min(LONGEST_INTERVAL, shortest / 4)
        self._next = self._clock.boottime() + self._interval
        self._told = self._until()

    @property
    def over(self) -> bool:
        """Whether the child had to end because of the deadline that it was told last."""
        return self._clock.boottime() >= self._told

    def deadline(self) -> float:
        """The first one, which a child is started with."""
        return self._told

    def _until(self) -> float:
        """On the boot clock, which is read first: a stop between the two makes the deadline earlier, not later."""
        now = self._clock.boottime()
        if self._lease is None:
            return now + self._patience
        return now + min(self._patience, self._lease.left - margin_of(self._lease.seconds))

    def renewal(self) -> float | None:
        """A new deadline where it is time to tell one and the lease still holds."""
        now = self._clock.boottime()
        if now < self._next:
            return None
        self._next = now + self._interval
        deadline = self._until()
        if deadline <= now:
            return None
        self._told = max(self._told, deadline)
        return deadline
