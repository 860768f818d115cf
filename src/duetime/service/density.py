"""Counts occurrences in bins, at a bounded cost however many there are.

Intervals that are short compared with the bins are counted by division. All other triggers are iterated, for a limited
number of steps per schedule; the rest is extrapolated from the rate so far, and marked as an estimate.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Final

from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.model import ScheduleId
from duetime.engine.policy.options import policy_from_json
from duetime.engine.triggers import IntervalTrigger, Trigger, trigger_from_json
from duetime.engine.triggers.step_budget import TooManySteps, step_budget
from duetime.service.masking import masked
from duetime.service.vocabulary import Run, Schedule
from duetime.service.window import Window

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
RANKS: Final = {status: rank for rank, status in enumerate(OUTCOMES)}
STEPS: Final = 200_000
"""Steps of all schedules together."""
FEWEST, MOST = 32, 5_000
"""Minimum and maximum steps of one schedule."""
_NONE: Final = Counter[int]()


@dataclass
class TimelineRow:
    """A schedule within the window. Values that only the few drawn rows need are computed only for them."""

    id: str | None
    unmasked_name: str
    kind: str
    bins: Counter[int] = field(default_factory=lambda: _NONE)
    """Future occurrences by bin; rows that fire together share them."""
    past: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    about: bool = False
    """Whether the counts are an estimate."""
    worst: dict[int, Run] = field(default_factory=dict)
    """The run that represents each bin: the first of those with the worst outcome."""
    owner: str = ""
    short_id: str = ""

    @cached_property
    def name(self) -> str:
        return str(masked(self.unmasked_name))

    @property
    def ahead(self) -> int:
        """The number of future occurrences."""
        return self.bins.total() if self.bins else 0

    @property
    def past_runs(self) -> int:
        """The number of past occurrences, also of those that are not over yet."""
        return sum(each.total() for each in self.past.values())

    @property
    def total(self) -> int:
        return self.ahead + self.past_runs

    @property
    def next(self) -> int:
        """The first bin with a future occurrence."""
        return min(self.bins, default=10**9)

    def outcomes(self, *statuses: str) -> int:
        """Return the number of past occurrences with one of these statuses."""
        return sum(each[status] for each in self.past.values() for status in statuses)

    @property
    def need(self) -> tuple[int, int, int, int]:
        """The order by need for attention, computed in one pass because there may be thousands of rows."""
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
        return -failed, -missed, -waiting, -total - self.ahead


@dataclass
class Density:
    window: Window
    rows: dict[ScheduleId, TimelineRow] = field(default_factory=dict)

    def add_coming(self, schedules: Sequence[Schedule], now: Instant) -> None:
        share = min(MOST, max(FEWEST, STEPS // max(1, len(schedules))))
        known: dict[tuple[str, str, Instant | None, int], tuple[Counter[int], bool]] = {}
        with step_budget(STEPS + STEPS // 4):
            for schedule in schedules:
                definition, progress = schedule
                alike = (definition.trigger, definition.policy, progress.next, progress.run_count)
                if alike not in known:  # thousands that fire together are counted once
                    known[alike] = _count(schedule, self.window, now, share)
                bins, about = known[alike]
                if bins:
                    row = TimelineRow(definition.public_id, definition.name, definition.kind, bins, about=about)
                    row.owner, row.short_id = definition.owner, definition.short_id
                    self.rows[definition.id] = row

    def add_past(self, runs: Iterable[Run], ids: Mapping[ScheduleId, str]) -> None:
        bins = self.window.bins
        for run in runs:
            spread = _spread(run, self.window, bins)
            if not spread:
                continue
            row = self.rows.get(run.schedule)
            if row is None:
                row = self.rows[run.schedule] = TimelineRow(ids.get(run.schedule), run.name, run.kind, owner=run.owner)
                row.short_id = run.schedule_short_id
            rank = RANKS[run.status]
            for bin, number in spread.items():
                row.past[bin][run.status] += number
                if bin not in row.worst or RANKS[row.worst[bin].status] < rank:
                    row.worst[bin] = run

    @property
    def about(self) -> set[str]:
        """The kinds whose future occurrences are an estimate."""
        return {row.kind for row in self.rows.values() if row.about}

    @cached_property
    def totals(self) -> tuple[list[Counter[str]], list[Counter[str]]]:
        """For every bin, the future occurrences by kind, and the past ones by status, once all have been added."""
        past = [Counter[str]() for _ in range(self.window.bins)]
        firing = [row for row in self.rows.values() if row.bins]
        alike = Counter((id(row.bins), row.kind) for row in firing)  # those that fire together share bins
        by_kind = defaultdict[str, list[int]](lambda: [0] * self.window.bins)
        for bins, kind in {(id(row.bins), row.kind): (row.bins, row.kind) for row in firing}.values():
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

    def sorted(self, order: str) -> list[TimelineRow]:
        """Return the rows in an order of ORDERS."""
        return sorted(self.rows.values(), key=ORDERS.get(order, ORDERS[BY_NEED]))


BY_NEED: Final = "need"
FAILED: Final = ("failed", "lost")
ORDERS: Final[Mapping[str, Callable[[TimelineRow], Any]]] = {
    BY_NEED: lambda row: row.need,
    "failures": lambda row: (-row.outcomes(*FAILED), row.name.lower()),
    "next": lambda row: (row.next, row.name.lower()),
    "name": lambda row: row.name.lower(),
    "busy": lambda row: (-row.total, row.name.lower()),
}
"""The orders of rows: what failed most comes first unless something else is asked for."""


def _count(schedule: Schedule, window: Window, now: Instant, share: int) -> tuple[Counter[int], bool]:
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
    due_bin = window.bin_of(due) if due >= window.start else None
    if most is None and isinstance(trigger, IntervalTrigger) and trigger.period <= 2 * window.zoom.step:
        return _divide(trigger, window, after, due_bin), False
    bins = Counter(() if due_bin is None else (due_bin,))
    try:
        if most is None:
            return _walk(trigger, window, after, share, bins)
        between = trigger.count(due, after, share)
        left = max(0, most - schedule.progress.run_count - 1 - between)
        bins, about = _walk(trigger, window, after, min(share, left), bins, bounded=left <= share)
        return bins, about or between > share
    except TooManySteps:
        return bins, True


def _divide(trigger: IntervalTrigger, window: Window, after: Instant, due_bin: int | None) -> Counter[int]:
    """Count by division, because there may be thousands of schedules and hundreds of bins."""
    first, last = trigger.next_after(after), trigger.latest(after, Instant(window.end - 1))
    if first is None or last is None:
        return Counter(() if due_bin is None else (due_bin,))
    period, step = trigger.period, window.zoom.step
    begin, end = window.bin_of(first), window.bin_of(last)
    if step % period == 0:
        in_first = (min(last, window.begin_of(begin + 1) - 1) - first) // period + 1
        in_last = (last - max(first, window.begin_of(end))) // period + 1
        return _even_bins(begin, in_first, end, in_last, step // period, due_bin)
    until = [(each - first) // period + 1 for each in range(window.begin_of(begin + 1) - 1, last, step)]
    until = [0, *until, (last - first) // period + 1]
    bins = Counter({bin: high - low for bin, (low, high) in enumerate(pairwise(until), begin) if high > low})
    if due_bin is not None:
        bins[due_bin] += 1
    return bins


@lru_cache(maxsize=256)
def _even_bins(begin: int, in_first: int, end: int, in_last: int, each: int, due_bin: int | None) -> Counter[int]:
    """Return bins that are all equal except the first and the last; schedules with the same values share one object."""
    bins = Counter(dict.fromkeys(range(begin, end + 1), each))
    bins[begin], bins[end] = in_first, in_last
    if due_bin is not None:
        bins[due_bin] += 1
    return bins


def _walk(
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


def _spread(run: Run, window: Window, bins: int) -> Mapping[int, int]:
    """Count a run where it was due; spread a range of missed ones over all of its bins."""
    if run.last is None:
        bin = window.bin_of(run.due)
        return {bin: 1} if 0 <= bin < bins else {}
    number = abs(run.number)
    low, high = window.bin_of(run.due), window.bin_of(run.last)
    wide = high - low + 1
    inside = range(max(0, low), min(bins, high + 1))
    return +Counter({bin: number * (bin - low + 1) // wide - number * (bin - low) // wide for bin in inside})
