"""The ways in which a run can end, as reported by its kind. What follows from it (retry, pause, release) is policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from duetime.engine.clock import Instant


@dataclass(frozen=True, slots=True)
class Completed:
    result: str | None = None
    """JSON text."""


@dataclass(frozen=True, slots=True)
class Failed:
    error: str
    permanent: bool = False
    """True if trying again cannot help."""
    result: str | None = None
    """JSON text: what is worth keeping of a failure."""
    traceback: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Retry:
    """A failed attempt after which the receiver asked for a delay. Counts as an attempt."""

    error: str
    after: int = 0
    """Minimum delay in microseconds."""
    result: str | None = None
    """JSON text: what is worth keeping if this was the last attempt."""
    traceback: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Handed over: needs no worker until somebody takes it, or until its deadline."""

    until: Instant | None = None
    holder: str | None = None
    """The holder, if it was already handed to somebody."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    reason: str = "cancelled"


@dataclass(frozen=True, slots=True)
class Alert:
    """A message to the owner, sent once per key however often the reason recurs."""

    key: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Returned:
    """Not executed here: returned, without counting an attempt, by a worker that stops or cannot do it."""

    reason: str | None = None
    after: int = 0
    """Microseconds before it can be claimed again."""
    alert: Alert | None = None
    patience: int | None = None
    """Microseconds from the first return; later returns each count as an attempt, so that it ends. None: no limit."""


FIRST_WAIT = 100_000
"""Microseconds before a run that was given back for the first time is offered again."""


def wait_for_others(times: int, longest: int) -> int:
    """Return the microseconds to wait after a worker that cannot do a run has given it back, as others did so many
    times before: little at first, so that a worker that can do it gets it soon."""
    return min(longest, int(FIRST_WAIT * 1.5 ** min(times, 50)))


Outcome: TypeAlias = Completed | Failed | Retry | Waiting | Cancelled | Returned
