"""Daily usage limits of an owner's agents, and what is left of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

MICRO = 1_000_000
"""Dollars are counted in millionths, so that sums are exact."""


class Used(NamedTuple):
    runs: int = 0
    tokens: int = 0
    micros: int = 0


class Cap(NamedTuple):
    """A limit for one day; 0 means none."""

    subject: str
    """What is counted: an owner as a whole, one agent or one schedule."""
    words: str
    """The name that users see, such as `the agent coder`."""
    limit: Used


class Left(NamedTuple):
    """What is left of the day for a run that begins; None if nothing limits it."""

    tokens: int | None = None
    micros: int | None = None

    @property
    def dollars(self) -> float | None:
        return None if self.micros is None else self.micros / MICRO


NOTHING = Used()
UNLIMITED = Left()


def reached(caps: Sequence[Cap], used: Mapping[str, Used]) -> str | None:
    """Return a description of the limit that leaves no room for another run; None if there is room."""
    for cap in caps:
        so_far = used.get(cap.subject, NOTHING)
        for name, limit, count in zip(Used._fields, cap.limit, so_far, strict=True):
            if limit and count >= limit:
                return f"{_amount(name, limit)} a day for {cap.words}"
    return None


def left(caps: Sequence[Cap], used: Mapping[str, Used]) -> Left:
    """Return what the tightest limit leaves. Runs that begin before another one ends count on the same remainder."""
    tokens = [cap.limit.tokens - used.get(cap.subject, NOTHING).tokens for cap in caps if cap.limit.tokens]
    micros = [cap.limit.micros - used.get(cap.subject, NOTHING).micros for cap in caps if cap.limit.micros]
    return Left(min(tokens, default=None), min(micros, default=None))


def _amount(name: str, limit: int) -> str:
    return f"${limit / MICRO:g}" if name == "micros" else f"{limit} {name}"
