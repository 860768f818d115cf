"""The only module that reads a clock. All other code receives an instant."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NewType, Protocol

from duetime.engine.value_class import NamedTuple

Instant = NewType("Instant", int)
"""Microseconds since 1970-01-01T00:00:00Z: exact, ordered, and the same in every store."""

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
NEVER = Instant(253_402_214_400 * SECOND)
"""9999-12-31T00:00:00Z, after the last instant of every rule, but still a date in every zone. It stands for the next
time of a schedule that waits for an event; no interface shows it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def instant_of(moment: datetime) -> Instant:
    """Convert an aware datetime to an instant, without floating-point rounding."""
    if moment.tzinfo is None:
        raise ValueError("a datetime needs a time zone")
    return Instant((moment - _EPOCH) // _MICROSECOND)


def datetime_of(instant: Instant) -> datetime:
    return _EPOCH + timedelta(microseconds=instant)


class Clock(Protocol):
    def now(self) -> Instant:
        """Return the wall-clock time."""

    def monotonic(self) -> float:
        """Return seconds that never jump, for measuring durations."""

    def boottime(self) -> float:
        """Return seconds that keep counting while the machine sleeps, for deciding whether a lease is still held."""


class SystemClock:
    def now(self) -> Instant:
        return Instant(time.time_ns() // 1000)

    def monotonic(self) -> float:
        return time.monotonic()

    def boottime(self) -> float:
        return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)


_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)

DRIFT = 100e-6
"""Relative drift assumed between this machine's clock and the store's: a sample becomes less certain with time."""
_SLOWED = (1 - DRIFT) * SECOND


class TimeSample(NamedTuple):
    """The store's clock, read between two moments of this machine's boot time (seconds)."""

    sent: float
    theirs: Instant
    answered: float

    def earliest(self, moment: float) -> Instant:
        """Return the earliest time that the store's clock can show at a moment: it was read before the answer
        arrived."""
        return self._advance(max(0.0, moment - self.answered) * (1 - DRIFT))

    def latest(self, moment: float) -> Instant:
        """Return the latest time that the store's clock can show at a moment: it was read after the question was
        sent."""
        return self._advance(max(0.0, moment - self.sent) * (1 + DRIFT))

    def _advance(self, seconds: float) -> Instant:
        return Instant(self.theirs + int(seconds * SECOND))


class StoreClock:
    """An estimate of the store's clock that is never ahead of it, so that no run starts early.

    Between samples it advances with boot time, so that a step of the local wall clock has no effect. A sample whose
    answer took long is less precise than the previous one and is dropped; a sample that contradicts the previous one
    (because the store's clock was set back) replaces it. Without any sample, as on a store without a clock, this is the
    machine's own clock.
    """

    def __init__(self, base: Clock) -> None:
        self.base = base
        self._sample: TimeSample | None = None
        self.now: Callable[[], Instant] = base.now  # bound directly: every run reads them several times
        self.monotonic = base.monotonic
        self.boottime = base.boottime

    def _estimate(self) -> Instant:
        sample = self._sample  # read once, because another thread replaces it
        if sample is None:
            return self.base.now()
        # Like `TimeSample.earliest`, without its calls, because every run comes here twice.
        _, theirs, answered = sample
        seconds = self.boottime() - answered
        return Instant(theirs + int(seconds * _SLOWED)) if seconds > 0 else theirs

    def follow(self, read: Callable[[], Instant | None]) -> None:
        """Sample the store's clock, and keep the sample unless the current one is more precise."""
        if not is_real(self.base):
            return  # a settable clock neither follows the store's clock nor is limited by it
        sent = self.base.boottime()
        theirs = read()
        answered = self.base.boottime()
        if theirs is None:
            return
        fresh, best = TimeSample(sent, theirs, answered), self._sample
        if best is None or not fresh.theirs < best.earliest(answered) <= fresh.latest(answered):
            self._sample = fresh
            self.now = self._estimate


def is_real(clock: Clock) -> bool:
    """Return whether a clock shows real time, as opposed to the time that a test or a simulation sets."""
    return is_real(clock.base) if isinstance(clock, StoreClock) else isinstance(clock, SystemClock)
