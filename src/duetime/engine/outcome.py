"""How a run can end, as its kind tells it. What follows from it (retry, pause, release) is policy."""

from __future__ import annotations

from dataclasses import dataclass
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
    """True where trying again cannot help."""
    result: str | None = None
    """JSON text: what is worth keeping of a failure."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Not this time: the other side asked for patience. Counts as an attempt."""

    error: str
    after: int = 0
    """Microseconds to wait at least."""
    result: str | None = None
    """JSON text: what is worth keeping, should this have been the last attempt."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Handed over: needs no worker until somebody takes it, or until its patience ends."""

    until: Instant | None = None
    holder: str | None = None
    """In whose hands it is already, where it was handed to somebody."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    reason: str = "cancelled"


@dataclass(frozen=True, slots=True)
class Alert:
    """What the owner is told, once for a key: the reason may come up many times."""

    key: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Returned:
    """Not carried out here: given back, without counting an attempt, by a worker that stops or cannot do it."""

    reason: str | None = None
    after: int = 0
    """Microseconds before anybody takes it again."""
    alert: Alert | None = None
    patience: int | None = None
    """Microseconds from the first time on; later each time counts as an attempt, so that it ends. None: for ever."""


Outcome: TypeAlias = Completed | Failed | Retry | Waiting | Cancelled | Returned
