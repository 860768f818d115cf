"""The only module that reads a clock. All other code is given an instant."""

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
    """Convert an aware datetime to an instant, without floating-point rounding."""
    if moment.tzinfo is None:
        raise ValueError("a datetime without a zone is no instant")
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
