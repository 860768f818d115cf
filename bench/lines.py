"""Results of a benchmark: figures of several rounds, compared with another figure or with a goal."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

BUSY = 20.0
"""The percent of the processors used by others from which a figure is marked."""
UNEVEN = 1.5
"""The ratio of two fsync times from which a comparison is marked."""


@dataclass(frozen=True, slots=True)
class Figure:
    """The samples of one side, or the reason why there are none."""

    name: str
    samples: tuple[float, ...] = ()
    settings: str = ""
    durability: str = ""
    program: str = ""
    """What was measured, where the name says under which condition."""
    reason: str = ""
    fsync: float | None = None
    """Median milliseconds of an fsync right before the rounds: what else uses the disk slows some sides more."""
    busy: float | None = None
    """Median percent of all processors that other programs used right before the rounds."""

    @property
    def median(self) -> float | None:
        return median(self.samples) if self.samples else None


@dataclass(frozen=True, slots=True)
class Goal:
    """The value to reach (`bar`) and the value to aim at (`aim`); `higher` tells which direction is better."""

    bar: float | None
    aim: float | None = None
    higher: bool = True

    def verdict(self, value: float | None) -> str:
        if value is None:
            return "not measured"
        if self.aim is not None and self._reaches(value, self.aim):
            return "aim reached"
        if self.bar is None:
            return "aim not reached"
        return "bar reached" if self._reaches(value, self.bar) else "BAR MISSED"

    def _reaches(self, value: float, goal: float) -> bool:
        return value >= goal if self.higher else value <= goal


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the table. Its goal applies to the ratio to the peer, or to the figure itself if there is no peer."""

    workload: str
    store: str
    unit: str
    ours: Figure
    beside: Figure | None = None
    goal: Goal | None = None
    note: str = ""

    @property
    def value(self) -> float | None:
        """The ratio to what stands beside, or else the figure itself."""
        if self.beside is None:
            return self.ours.median
        return self.ours.median / self.beside.median if self.ours.median and self.beside.median else None

    @property
    def busy(self) -> float:
        """Percent of the processors that others used: a side that often waits for the disk then loses most."""
        return max(figure.busy or 0.0 for figure in (self.ours, self.beside) if figure is not None)

    @property
    def uneven(self) -> bool:
        """Return whether the disk was much slower for one of the sides, so that the ratio says little."""
        times = [figure.fsync for figure in (self.ours, self.beside) if figure is not None and figure.fsync]
        return len(times) == 2 and max(times) > UNEVEN * min(times)

    @property
    def verdict(self) -> str:
        return "" if self.goal is None else self.goal.verdict(self.value)
