"""The store's own clock as a worker sees it: a sample of it, carried on by this machine's monotonic clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from duetime.engine.clock import SECOND, Clock, Instant, SystemClock

DRIFT = 100e-6
"""How much faster than the store's clock this machine's may run: what a sample loses in certainty with time."""


class Sample(NamedTuple):
    """The store's clock, read between two moments of this machine's boot time (seconds)."""

    asked: float
    theirs: Instant
    answered: float

    def earliest(self, moment: float) -> Instant:
        """Return the earliest time that the store's clock can show at a moment: it was read before the answer came."""
        return self._carried(max(0.0, moment - self.answered) * (1 - DRIFT))

    def latest(self, moment: float) -> Instant:
        """Return the latest time that the store's clock can show at a moment: it was read after the question left."""
        return self._carried(max(0.0, moment - self.asked) * (1 + DRIFT))

    def _carried(self, seconds: float) -> Instant:
        return Instant(self.theirs + int(seconds * SECOND))


class StoreClock:
    """The store's clock, never ahead of it: what is started by this clock is never started early.

    Between samples it goes on with time that nobody sets, so that a step of the local wall clock has no effect. A
    sample whose answer took long tells less than the one before it and is dropped; one that contradicts it (the
    store's clock was set back) takes its place. Without any sample, as on a store without a clock, this is the
    machine's own clock.
    """

    def __init__(self, base: Clock) -> None:
        self._base = base
        self._sample: Sample | None = None
        self.now: Callable[[], Instant] = base.now  # these as they are: every run asks several times
        self.monotonic = base.monotonic
        self.boottime = base.boottime

    @property
    def is_system(self) -> bool:
        """True where real time is meant; a clock that somebody sets neither follows the store nor is bound by it."""
        return isinstance(self._base, SystemClock)

    def _carried_on(self) -> Instant:
        sample = self._sample  # read once: another thread replaces it
        return self._base.now() if sample is None else sample.earliest(self._base.boottime())

    def follow(self, read: Callable[[], Instant | None]) -> None:
        """Take a sample of the store's clock, and keep it where it tells more than the one at hand."""
        if not self.is_system:
            return
        asked = self._base.boottime()
        theirs = read()
        answered = self._base.boottime()
        if theirs is None:
            return
        fresh, kept = Sample(asked, theirs, answered), self._sample
        if kept is None or not fresh.theirs < kept.earliest(answered) <= fresh.latest(answered):
            self._sample = fresh
            self.now = self._carried_on


def is_real(clock: Clock) -> bool:
    """Whether a clock shows real time, as opposed to the time that a test or a simulation sets."""
    return clock.is_system if isinstance(clock, StoreClock) else isinstance(clock, SystemClock)
