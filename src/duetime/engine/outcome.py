"""The ways in which a run can end, as its kind reports them. The consequences (retry, pause, release) are policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TypeAlias

from duetime.engine.clock import Instant
from duetime.engine.value_class import dataclass

Delay: TypeAlias = int | Callable[[int], int]


@dataclass(frozen=True, slots=True)
class Completed:
    result: str | None = None
    """JSON text."""


@dataclass(frozen=True, slots=True)
class Failed:
    error: str
    permanent: bool = False
    """True if a retry cannot succeed."""
    result: str | None = None
    """JSON text with the details of the failure that are worth keeping."""
    traceback: str | None = field(default=None, compare=False)
    lost: bool = False
    """True if the run was interrupted, and nobody knows how far it came."""


@dataclass(frozen=True, slots=True)
class Retry:
    """A failed attempt after which the receiver asked for a delay. It counts as an attempt."""

    error: str
    after: Delay = 0
    """Minimum delay in microseconds. A function gets the number of failed attempts before this one; those before
    somebody retried the run do not count."""
    result: str | None = None
    """JSON text with the details that are worth keeping if this was the last attempt."""
    traceback: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Waiting:
    """The run was handed over: it needs no worker until somebody takes it or its deadline passes."""

    until: Instant | None = None
    holder: str | None = None
    """The holder, if the run was handed to somebody directly."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    reason: str = "cancelled"


@dataclass(frozen=True, slots=True)
class Alert:
    """A message to the owner, sent once per key, however often the reason recurs."""

    key: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Returned:
    """The run was not executed here: a worker that stops or cannot execute it returned it, without counting an
    attempt."""

    reason: str | None = None
    after: int = 0
    """Microseconds before it can be claimed again."""
    alert: Alert | None = None
    patience: int | None = None
    """Microseconds after the first return from which on each return counts as an attempt, so that the run ends. None:
    no limit."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """The gate of the schedule let nothing pass, so the work was not begun. It does not count towards `max_runs`."""

    reason: str
    memory: str | None = None
    """What the gate remembers from now on, as JSON; None if that stays as it is."""
    number: int = 0
    """The number of that memory; one with a later number stays."""


FIRST_WAIT = 100_000
"""Microseconds before a run that was returned for the first time is offered again."""


def wait_for_others(times: int, longest: int) -> int:
    """Return how many microseconds a run waits after a worker that cannot execute it has returned it, given how often
    that happened before: little at first, so that a worker that can execute it gets it soon."""
    return min(longest, int(FIRST_WAIT * 1.5 ** min(times, 50)))


Outcome: TypeAlias = Completed | Failed | Retry | Waiting | Cancelled | Returned | Skipped
