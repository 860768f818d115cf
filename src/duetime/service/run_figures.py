"""Figures about the runs of the last day: how many went well, and how late they started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from duetime.engine.clock import DAY, Instant
from duetime.engine.model import Cause, RunStatus
from duetime.engine.store_interfaces import Timing
from duetime.service.services import Call

MOST: Final = 1_000
"""Latest runs that are looked at. Where more ran in a day, the figures are about a shorter time, which they name."""
SLICES: Final = 24
"""Parts of that time, for a line that shows how a figure changed."""
_ENDED: Final = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.LOST)


class Figure(NamedTuple):
    """A figure over the whole time, and over each of its parts; None where nothing ran."""

    value: float | None
    parts: Sequence[float | None]


class DayFigures(NamedTuple):
    runs: int
    since: Instant
    """Where the time begins that the figures are about: a day ago, or later if too much ran since."""
    success: Figure
    """Percentage of ended runs that completed."""
    lateness: Figure
    """95th percentile of how late runs started, in microseconds; only of first attempts that a trigger caused."""


def day_figures(call: Call) -> DayFigures:
    """Return the figures of the caller's runs; of everybody's runs for an operator."""
    now = call.scheduler.clock.now()
    owner = None if call.caller.operator else call.caller.owner
    found = call.scheduler.store.endings(owner, MOST)
    since = Instant(now - DAY)
    if len(found) == MOST:
        since = max(since, min(_instant(each) for each in found))
    recent = [each for each in found if _instant(each) >= since]
    parts: list[list[Timing]] = [[] for _ in range(SLICES)]
    width = max(1, (now - since) // SLICES + 1)
    for each in recent:
        parts[min(SLICES - 1, max(0, (_instant(each) - since) // width))].append(each)
    return DayFigures(
        len(recent),
        since,
        Figure(_success(recent), [_success(part) for part in parts]),
        Figure(_lateness(recent), [_lateness(part) for part in parts]),
    )


def _instant(run: Timing) -> Instant:
    return run.finished or run.started or run.due


def _success(runs: Sequence[Timing]) -> float | None:
    ended = [each.status for each in runs if each.status in _ENDED]
    return 100 * ended.count(RunStatus.COMPLETED) / len(ended) if ended else None


def _lateness(runs: Sequence[Timing]) -> float | None:
    first = (each for each in runs if each.attempt == 1 and each.cause == Cause.TRIGGER)
    late = sorted(max(0, each.started - each.due) for each in first if each.started is not None)
    return float(late[min(len(late) - 1, len(late) * 95 // 100)]) if late else None
