"""The only place that reads a clock. Everything else is given an instant."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import NewType, Protocol

Instant = NewType("Instant", int)
"""Microseconds since 1970-01-01T00:00:00Z: exact, ordered, and the same in every store."""

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def instant_of(moment: datetime) -> Instant:
    """An aware datetime as an instant, without the rounding of floating point."""
    if moment.tzinfo is None:
        raise ValueError("a datetime without a zone is no instant")
    return Instant((moment - _EPOCH) // _MICROSECOND)


def datetime_of(instant: Instant) -> datetime:
    return _EPOCH + timedelta(microseconds=instant)


class Clock(Protocol):
    def now(self) -> Instant:
        """The wall clock."""

    def monotonic(self) -> float:
        """Seconds that never jump; for measuring how long something took."""

    def boottime(self) -> float:
        """Seconds that go on while the machine sleeps; for judging whether a lease is still held."""


class SystemClock:
    def now(self) -> Instant:
        return Instant(time.time_ns() // 1000)

    def monotonic(self) -> float:
        return time.monotonic()

    def boottime(self) -> float:
        return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)


_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)
