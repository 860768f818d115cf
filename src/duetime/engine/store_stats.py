"""What a store tells of itself as a whole: whether it fits this code, how much there is to do, how it went."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from duetime.engine.clock import SECOND, Instant
from duetime.engine.model import Run, RunId, ScheduleId

BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Seconds, upwards: how late runs began and how long they took is told by the first of these that was not passed."""
UNKNOWN: Final = -1
"""In place of a bound: it has not begun, not ended, or not at the first attempt."""
MOST: Final = 10_000
"""How far anything is counted here: a store may hold millions, and somebody asks every few seconds."""


class Tally(NamedTuple):
    """Runs that are alike, counted together."""

    kind: str
    status: str
    begun: int
    """1: somebody had it in hands."""
    late: int
    took: int
    """Positions in BOUNDS; its length where the last bound was passed."""
    number: int
    """Occurrences: a row may stand for a range of missed ones."""
    late_for: int
    took_for: int
    """Microseconds, summed up."""


class Living(NamedTuple):
    """A run that may still change."""

    id: RunId
    kind: str
    status: str
    begun: int


class Trace(NamedTuple):
    """What a small picture of a schedule's past needs of one run."""

    schedule: ScheduleId
    due: Instant
    status: str
    started: Instant | None
    finished: Instant | None


class Figures(Protocol):
    """The part of a store that counts. Every answer is bounded in cost, however much is stored."""

    def schema(self) -> int:
        """The version that the store has, which may be newer than what this code knows."""

    def public_ids(self, schedules: Sequence[ScheduleId]) -> dict[ScheduleId, str]:
        """How people call them; deleted ones too, as long as their runs are kept."""

    def traces(self, schedules: Sequence[ScheduleId], each: int) -> list[Trace]:
        """The latest runs of each of at most a few hundred schedules, the latest first: one question for all."""

    def newest_run(self) -> RunId:
        """0 where there is none."""

    def tally(self, above: RunId, upto: RunId, but: Sequence[RunId] = ()) -> list[Tally]:
        """Of the runs with ids in (above, upto] but these, of which there are at most MOST."""

    def living(self) -> list[Living]:
        """At most MOST."""

    def depths(self, lanes: Sequence[str], now: Instant) -> dict[str, int]:
        """Entries of the due queue whose time has come, by lane; at most MOST of each."""


def tally_of(run: Run) -> Tally:
    """One run, as a store would count it."""
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
