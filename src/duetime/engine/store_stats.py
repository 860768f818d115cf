"""Statistics of a whole store: whether it fits this code, how much there is to do, how runs went."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from duetime.engine.clock import SECOND, Instant
from duetime.engine.model import Run, RunId, ScheduleId

BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Histogram bounds in ascending seconds: a delay or duration counts under the first bound it does not exceed."""
UNKNOWN: Final = -1
"""In place of a bound: the run has not begun, has not ended, or is not at its first attempt."""
MOST: Final = 10_000
"""Maximum that is counted here: a store may hold millions, and somebody asks every few seconds."""


class Tally(NamedTuple):
    """A number of runs that are alike, counted together."""

    kind: str
    status: str
    begun: int
    """1: the run has been started."""
    late: int
    took: int
    """Positions in BOUNDS; its length where the last bound was exceeded."""
    number: int
    """Number of occurrences: a row may stand for a range of missed ones."""
    late_for: int
    took_for: int
    """Sums in microseconds."""


class Living(NamedTuple):
    """A run that may still change."""

    id: RunId
    kind: str
    status: str
    begun: int


class Trace(NamedTuple):
    """The fields of a run that a small chart of its schedule's history needs."""

    schedule: ScheduleId
    due: Instant
    status: str
    started: Instant | None
    finished: Instant | None


class Figures(Protocol):
    """The part of a store that counts. The cost of every method is bounded, however much is stored."""

    def schema(self) -> int:
        """Return the store's schema version, which may be newer than what this code knows."""

    def public_ids(self, schedules: Sequence[ScheduleId]) -> dict[ScheduleId, str]:
        """Return the public ids of schedules; of deleted ones too, as long as their runs are kept."""

    def traces(self, schedules: Sequence[ScheduleId], each: int) -> list[Trace]:
        """Return the latest runs of each of at most a few hundred schedules, the latest first, in one query."""

    def newest_run(self) -> RunId:
        """Return the highest run id; 0 if there is none."""

    def tally(self, above: RunId, upto: RunId, but: Sequence[RunId] = ()) -> list[Tally]:
        """Tally the runs with ids in (above, upto] except those in `but`, which are at most MOST."""

    def living(self) -> list[Living]:
        """Return runs that may still change, at most MOST."""

    def depths(self, lanes: Sequence[str], now: Instant) -> dict[str, int]:
        """Return the number of due entries by lane; at most MOST of each."""


def tally_of(run: Run) -> Tally:
    """Tally one run as a store would count it."""
    late = run.started - run.due if run.started is not None and run.attempt <= 1 else None
    took = run.finished - run.started if run.started is not None and run.finished is not None else None
    return Tally(
        run.kind,
        run.status,
        int(run.started is not None),
        _position(late),
        _position(took),
        abs(run.number),
        max(0, late or 0),
        max(0, took or 0),
    )


def _position(microseconds: int | None) -> int:
    return UNKNOWN if microseconds is None else bisect_left(BOUNDS, microseconds / SECOND)
