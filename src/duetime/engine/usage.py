"""What an owner's agents have used up today, and how much of it there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

MICRO = 1_000_000
"""Dollars are counted in millionths: whole numbers add up."""


class Used(NamedTuple):
    runs: int = 0
    tokens: int = 0
    micros: int = 0


class Cap(NamedTuple):
    """A limit for one day; 0 means none."""

    subject: str
    """What is counted: everything of an owner, one agent, one schedule."""
    words: str
    """How people call it, such as `the agent coder`."""
    limit: Used


class Left(NamedTuple):
    """How much of the day there is for a run that begins; None where nothing limits it."""

    tokens: int | None = None
    micros: int | None = None

    @property
    def dollars(self) -> float | None:
        return None if self.micros is None else self.micros / MICRO


NOTHING = Used()
UNLIMITED = Left()


def reached(caps: Sequence[Cap], used: Mapping[str, Used]) -> str | None:
    """Which limit leaves no room for one more run, in words; None where there is room."""
    for cap in caps:
        so_far = used.get(cap.subject, NOTHING)
        for name, limit, count in zip(Used._fields, cap.limit, so_far, strict=True):
            if limit and count >= limit:
                return f"{_amount(name, limit)} a day for {cap.words}"
    return None


def left(caps: Sequence[Cap], used: Mapping[str, Used]) -> Left:
    """By the tightest limit. Runs that begin before another one ends count on the same rest."""
    tokens = [cap.limit.tokens - used.get(cap.subject, NOTHING).tokens for cap in caps if cap.limit.tokens]
    micros = [cap.limit.micros - used.get(cap.subject, NOTHING).micros for cap in caps if cap.limit.micros]
    return Left(min(tokens, default=None), min(micros, default=None))


def _amount(name: str, limit: int) -> str:
    return f"${limit / MICRO:g}" if name == "micros" else f"{limit} {name}"
