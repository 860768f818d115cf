"""The lines of the scorecard: their definition, their scale and their result."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias, cast

Tell: TypeAlias = Callable[[str], None]
"""Shows a line's progress in a few words; it may be called as often as one likes."""


def about(what: str, tell: Tell) -> Tell:
    """Return a function that tells the same, with a prefix before each message."""
    return lambda words: tell(f"{what}: {words}")


class Scale(StrEnum):
    """The scale at which a line is measured."""

    FULL = "full"
    """The counts that the table states."""
    TENTH = "tenth"
    """A tenth of them: what `make scorecard` runs by default."""
    SMALL = "small"
    """A few of each sort, in about three seconds: what `make test` runs."""

    def of(self, full: int, small: int) -> int:
        """Return the count for this scale, given the full and the small one."""
        return {Scale.FULL: full, Scale.TENTH: max(1, full // 10), Scale.SMALL: small}[self]


@dataclass(frozen=True, slots=True)
class Result:
    """The counts and measurements of a line. It passed when there is no failure."""

    counts: Mapping[str, int]
    """What was tried, in the order shown: {"kills": 600, "stores": 2}."""
    measured: str
    """The figures that the bound speaks of: "acknowledged writes lost 0 of 8,776"."""
    failures: tuple[str, ...] = field(default=())
    """What fell short, each with what is needed to see it again."""

    @property
    def passed(self) -> bool:
        return not self.failures


Measure: TypeAlias = Callable[[Scale, Tell], Result]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table. Its module is imported only when it runs."""

    name: str
    """A short name for `LINE=name`."""
    title: str
    bound: str
    module: str

    def measure(self, scale: Scale, tell: Tell) -> Result:
        measure = cast(Measure, importlib.import_module(self.module).measure)
        return measure(scale, tell)
