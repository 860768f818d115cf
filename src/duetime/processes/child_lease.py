"""Deadlines of child processes: a child always ends before its worker's lease, whatever happens to the worker.

A worker gives its children a deadline on the boot clock, which all processes of a machine share, and extends it
regularly while its own lease lasts. A child ends itself, with everything that it started, when its deadline has passed.
So neither a worker that is stopped, nor one that hangs, nor a machine that sleeps leaves a child behind that works
alongside the worker that took over the run.
"""

from __future__ import annotations

from duetime.engine.clock import Clock, SystemClock
from duetime.engine.worker.lease import Lease

LONGEST_INTERVAL = 1.0
"""Most seconds between two messages to a child."""


def margin_of(seconds: float) -> float:
    """Return how many seconds before the end of a lease the children must have ended."""
    return min(1.0, seconds / 5)


class ChildLease:
    """`patience`: seconds that a child lives without a message, even if the lease is longer or there is none."""

    def __init__(self, lease: Lease | None, patience: float, clock: Clock | None = None) -> None:
        # Real processes live in real time, even if the schedules run on a settable clock.
        self._clock = clock or SystemClock()
        self._lease, self._patience = lease, patience
        shortest = patience if lease is None else min(patience, lease.seconds / 2)
        self._interval = min(LONGEST_INTERVAL, shortest / 4)
        self._next = self._clock.boottime() + self._interval
        self._told = self._until()

    @property
    def over(self) -> bool:
        """Whether the last deadline that the child was given has passed, so that it had to end."""
        return self._clock.boottime() >= self._told

    def deadline(self) -> float:
        """Return the first deadline, with which a child is started."""
        return self._told

    def _until(self) -> float:
        """Return a deadline. The boot clock is read before the lease, so that a pause in between makes it earlier."""
        now = self._clock.boottime()
        if self._lease is None:
            return now + self._patience
        return now + min(self._patience, self._lease.left - margin_of(self._lease.seconds))

    def renewal(self) -> float | None:
        """Return a new deadline if it is time to send one and the lease still holds."""
        now = self._clock.boottime()
        if now < self._next:
            return None
        self._next = now + self._interval
        deadline = self._until()
        if deadline <= now:
            return None
        self._told = max(self._told, deadline)
        return deadline
