"""Counts occurrences in bins, at a bounded cost however many there are.

Intervals that are short compared with the bins are counted by division. All other triggers are iterated, for a limited
number of steps per schedule; what lies beyond is estimated from the rate so far, and marked as an estimate.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple

from duetime.dashboard.timeline.axis import Window
from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.model import Run, Schedule, ScheduleId
from duetime.engine.policy.options import policy_from_json
from duetime.engine.triggers import IntervalTrigger, Trigger, trigger_from_json
from duetime.engine.triggers.step_budget import TooManySteps, step_budget
from duetime.service.masking import masked

OUTCOMES: Final = (
    "completed",
    "running",
    "waiting",
    "pending",
    "queued",
    "cancelled",
    "skipped",
    "missed",
    "failed",
    "lost",
)
"""Order within a bar from the bottom up: what needs attention is on top."""
STEPS: Final = 200_000
"""Steps of all schedules together."""
FEWEST, MOST = 32, 5_000
"""Minimum and maximum steps of one schedule."""


LONGEST_ERROR: Final = 160


class Notable(NamedTuple):
    """The run that a mark is mostly about: the worst of its outcomes, and of those the first."""

    rank: int
    run: int
    error: str


@dataclass
class Row:
    """A schedule within the window."""

    id: str | None
    name: str
    kind: str
    bins: Counter[int] = field(default_factory=Counter)
    """Future occurrences by bin."""
    past: dict[int, Counter[str]] = field(default_factory=dict)
    about: bool = False
    """Whether the counts are an estimate."""
    notable: dict[int, Notable] = field(default_factory=dict)
    owner: str = ""

    @property
    def total(self) -> int:
        return self.bins.total() + sum(each.total() for each in self.past.values())

    @property
    def next(self) -> int:
        """The first bin with a future occurrence."""
        return min(self.bins, default=10**9)

    def outcomes(self, *statuses: str) -> int:
        """Return the number of past occurrences with one of these statuses."""
        return sum(each[status] for each in self.past.values() for status in statuses)

    @property
    def need(self) -> tuple[int, int, int, int]:
        """The order of what needs attention, in one pass: there may be thousands of rows."""
        failed = missed = waiting = total = 0
        for each in self.past.values():
            for status, number in each.items():
                total += number
                if status in FAILED:
                    failed += number
                elif status == "missed":
                    missed += number
                elif status == "waiting":
                    waiting += number
        return -failed, -missed, -waiting, -total - self.bins.total()


@dataclass
class Density:
    window: Window
    rows: dict[ScheduleId, Row] = field(default_factory=dict)

    def add_coming(self, schedules: Sequence[Schedule], now: Instant) -> None:
        share = min(MOST, max(FEWEST, STEPS // max(1, len(schedules))))
        known: dict[tuple[str, str, Instant | None, int], tuple[Counter[int], bool]] = {}
        with step_budget(STEPS + STEPS // 4):
            for schedule in schedules:
                definition, progress = schedule
                alike = (definition.trigger, definition.policy, progress.next, progress.run_count)
                if alike not in known:  # thousands that fire together are counted once
                    known[alike] = _counted(schedule, self.window, now, share)
                bins, about = known[alike]
                if bins:
                    row = Row(definition.public_id, masked(definition.name), definition.kind, bins, {}, about)
                    row.owner = definition.owner
                    self.rows[definition.id] = row

    def add_past(self, runs: Iterable[Run], ids: Mapping[ScheduleId, str]) -> None:
        for run in runs:
            spread = _spread(run, self.window)
            if not spread:
                continue
            row = self.rows.get(run.schedule)
            if row is None:
                row = self.rows[run.schedule] = Row(ids.get(run.schedule), masked(run.name), run.kind, owner=run.owner)
            rank = OUTCOMES.index(run.status)
            for bin, number in spread.items():
                outcomes = row.past.get(bin)
                if outcomes is None:
                    outcomes = row.past[bin] = Counter()
                outcomes[run.status] += number
                if bin not in row.notable or row.notable[bin].rank < rank:
                    error = masked(run.error)[:LONGEST_ERROR] if run.error else ""
                    row.notable[bin] = Notable(rank, run.id, error)

    @property
    def about(self) -> bool:
        return any(row.about for row in self.rows.values())

    @cached_property
    def totals(self) -> tuple[list[Counter[str]], list[Counter[str]]]:
        """For every bin, the future occurrences by kind, and the past ones by status, once all have been added."""
        past = [Counter[str]() for _ in range(self.window.bins)]
        alike = Counter((id(row.bins), row.kind) for row in self.rows.values())  # those that fire together share bins
        by_kind = defaultdict[str, list[int]](lambda: [0] * self.window.bins)
        for bins, kind in {(id(row.bins), row.kind): (row.bins, row.kind) for row in self.rows.values()}.values():
            rows, counts = alike[id(bins), kind], by_kind[kind]
            for bin, number in bins.items():
                counts[bin] += number * rows
        coming = [
            Counter({kind: counts[bin] for kind, counts in by_kind.items() if counts[bin]})
            for bin in range(self.window.bins)
        ]
        for row in self.rows.values():
            for bin, outcomes in row.past.items():
                inside = past[bin]
                for status, number in outcomes.items():
                    inside[status] += number
        return coming, past

    def sorted(self, order: str) -> list[Row]:
        """Return the rows in an order of ORDERS."""
        return sorted(self.rows.values(), key=ORDERS.get(order, ORDERS[BY_NEED]))


BY_NEED: Final = "need"
FAILED: Final = ("failed", "lost")
ORDERS: Final[Mapping[str, Callable[[Row], Any]]] = {
    BY_NEED: lambda row: row.need,
    "failures": lambda row: (-row.outcomes(*FAILED), row.name.lower()),
    "next": lambda row: (row.next, row.name.lower()),
    "name": lambda row: row.name.lower(),
    "busy": lambda row: (-row.total, row.name.lower()),
}
"""The orders of rows: what failed most comes first unless something else is asked for."""


def _counted(schedule: Schedule, window: Window, now: Instant, share: int) -> tuple[Counter[int], bool]:
    """Count the future occurrences of a schedule in a window; also return whether that is an estimate."""
    first = schedule.progress.next
    try:
        trigger = trigger_from_json(schedule.definition.trigger)
        most = policy_from_json(schedule.definition.policy).max_runs
    except DuetimeError:
        return Counter(), False
    due = None if first is None else max(first, now)  # one that is overdue is due now
    if due is None or due >= window.end:
        return Counter(), False
    after = max(due, Instant(window.start - 1))  # an occurrence may be at the very start of a later window
    bins = Counter({window.bin_of(due): 1} if due >= window.start else {})
    if most is None and isinstance(trigger, IntervalTrigger) and trigger.period <= 2 * window.zoom.step:
        return bins + _divided(trigger, window, after), False
    try:
        if most is None:
            return _walked(trigger, window, after, share, bins)
        between = trigger.count(due, after, share)
        left = max(0, most - schedule.progress.run_count - 1 - between)
        bins, about = _walked(trigger, window, after, min(share, left), bins, bounded=left <= share)
        return bins, about or between > share
    except TooManySteps:
        return bins, True


def _divided(trigger: IntervalTrigger, window: Window, after: Instant) -> Counter[int]:
    """Count by one division for each bin: there may be thousands of schedules, and hundreds of bins."""
    first, last = trigger.next_after(after), trigger.latest(after, Instant(window.end - 1))
    if first is None or last is None:
        return Counter()
    begin, period, step = max(0, window.bin_of(after)), trigger.period, window.zoom.step
    ends = range(window.start + (begin + 1) * step - 1, window.start + window.bins * step, step)
    before, inside = bisect_left(ends, first), bisect_left(ends, last)
    reached = [(end - first) // period + 1 for end in ends[before:inside]]
    reached += [(last - first) // period + 1] * (len(ends) - inside)
    until = [0, *([0] * before), *reached]
    return Counter({bin: high - low for bin, (low, high) in enumerate(pairwise(until), begin) if high > low})


def _walked(
    trigger: Trigger, window: Window, after: Instant, steps: int, bins: Counter[int], *, bounded: bool = False
) -> tuple[Counter[int], bool]:
    start, step, end = window.start, window.zoom.step, window.end
    following, last = trigger.next_after(after), after
    for _ in range(steps):
        if following is None or following >= end:
            return bins, False
        bins[(following - start) // step] += 1
        last, following = following, trigger.next_after(following)
    if bounded or following is None or following >= end:
        return bins, False
    _estimate(bins, window, last, (last - after) / steps)
    return bins, True


def _estimate(bins: Counter[int], window: Window, after: Instant, pace: float) -> None:
    """Fill the remaining bins evenly, at the rate so far."""
    done = 0
    begin = window.bin_of(after)
    for bin in range(begin, window.bins):
        upto = min(window.begin_of(bin + 1), window.end) - after
        number = int(upto / pace) - done
        done += number
        bins[bin] += number


def _spread(run: Run, window: Window) -> Mapping[int, int]:
    """Count a run where it was due; spread a range of missed ones over all of its bins."""
    if run.last is None:
        bin = window.bin_of(run.due)
        return {bin: 1} if 0 <= bin < window.bins else {}
    number = abs(run.number)
    low, high = window.bin_of(run.due), window.bin_of(run.last)
    wide = high - low + 1
    inside = range(max(0, low), min(window.bins, high + 1))
    return +Counter({bin: number * (bin - low + 1) // wide - number * (bin - low) // wide for bin in inside})
