"""Statistics of one schedule: a ribbon of 30 days, its durations and lateness, success rate and failures.

Everything is read through the index of the schedule's own runs, with at most `EACH` rows per day: a schedule that fires
every second costs no more than that, and the history of other schedules costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from duetime.dashboard.filters import day_name, local_time
from duetime.engine.clock import SECOND, Instant, datetime_of, instant_of
from duetime.service.operations.overview import schedule_figures
from duetime.service.services import Call
from duetime.service.text import percent, plural, span
from duetime.service.vocabulary import PeriodCount, Progress, RunStatus, Schedule, Timing, executed, known_zone

DAYS: Final = 30
EACH: Final = 300
LATEST: Final = 60
"""Number of runs in the charts of durations and lateness."""
HEIGHT: Final = 64
_LEAST: Final = 1.5
_FEW: Final = 5
_MILLISECOND: Final = SECOND // 1000
_BAD: Final = (RunStatus.FAILED, RunStatus.LOST)
_NEVER_RAN: Final = (RunStatus.MISSED, RunStatus.SKIPPED)


class StatsDay(NamedTuple):
    style: str
    """CSS class: good, some, bad, missed or none."""
    label: str
    start: str
    """The day in the format of the history's filter."""


class Column(NamedTuple):
    x: float
    width: float
    y: float
    height: float
    style: str
    label: str
    run: int


class StatsChart(NamedTuple):
    columns: list[Column]
    most: str
    """The largest value, at the top of the scale."""
    half: str
    label: str
    height: int = HEIGHT


class ScheduleStats(NamedTuple):
    days: list[StatsDay]
    durations: StatsChart | None
    lateness: StatsChart | None
    success: str | None
    success_of: str
    average: str | None
    slowest: str | None
    failing: str | None
    """How it is currently failing, in words; None if its last run succeeded."""
    failing_since: Instant | None


def schedule_stats(call: Call, schedule: Schedule) -> ScheduleStats:
    zone, now = call.zone, call.now
    bounds = day_bounds(now, zone)
    counts, timings = schedule_figures(call, schedule, bounds, EACH, LATEST).value
    took = [value for each in timings if (value := _duration(each)) is not None]
    success, of = _success(counts)
    return ScheduleStats(
        days=_days(bounds, counts, zone, now),
        durations=_chart(timings, _duration, "Duration", zone, now),
        lateness=_chart(timings, lambda timing: timing.late, "Lateness", zone, now),
        success=success,
        success_of=of,
        average=span(sum(took) // len(took)) if took else None,
        slowest=span(max(took)) if took else None,
        failing=failing_text(schedule.progress),
        failing_since=_failing_since(timings, schedule.progress),
    )


def day_bounds(now: Instant, zone: str) -> list[Instant]:
    """Return the beginnings of the last days in the viewer's zone, and the end of today."""
    there = known_zone(zone)
    today = datetime_of(now).astimezone(there).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    days = [today + timedelta(days=step) for step in range(1 - DAYS, 2)]
    return [instant_of(day.replace(tzinfo=there)) for day in days]


def _days(bounds: Sequence[Instant], counts: Sequence[PeriodCount], zone: str, now: Instant) -> list[StatsDay]:
    outcomes: list[Counter[str]] = [Counter() for _ in bounds[1:]]
    rows: Counter[int] = Counter()
    spread: list[set[str]] = [set() for _ in bounds[1:]]
    for each in counts:
        outcomes[each.period][each.status] += each.number
        rows[each.period] += each.rows
        if each.last is not None and each.status in _NEVER_RAN:
            for later in range(each.period + 1, len(outcomes)):
                if bounds[later] <= each.last:
                    spread[later].add(each.status)
    there = known_zone(zone)
    today = datetime_of(now).astimezone(there)
    return [
        _day(datetime_of(begin).astimezone(there), today, outcomes[place], spread[place], rows[place] >= EACH)
        for place, begin in enumerate(bounds[:-1])
    ]


def _day(begin: datetime, today: datetime, counts: Counter[str], spread: set[str], is_cut: bool) -> StatsDay:
    good, bad = counts[RunStatus.COMPLETED], sum(counts[status] for status in _BAD)
    if bad:
        style = "some" if good else "bad"
    elif counts[RunStatus.MISSED] or RunStatus.MISSED in spread:
        style = "missed"
    else:
        style = "good" if good else "none"
    words = [f"{number:,} {status}" for status, number in counts.most_common()]
    words += [f"{status} from an earlier day on" for status in sorted(spread) if not counts[status]]
    summary = ("the latest: " if is_cut else "") + ", ".join(words) if words else "no runs"
    return StatsDay(style, f"{day_name(begin, today)}: {summary}", f"{begin:%Y-%m-%d}")


def _success(counts: Sequence[PeriodCount]) -> tuple[str | None, str]:
    good = sum(each.rows for each in counts if each.status == RunStatus.COMPLETED)
    bad = sum(each.rows for each in counts if each.status in _BAD)
    whole = good + bad
    if not whole:
        return None, ""
    rows: Counter[int] = Counter()
    for each in counts:
        rows[each.period] += each.rows
    cut = f", of the latest {EACH} runs of each day" if max(rows.values()) >= EACH else ""
    return percent(100 * good / whole), f"{good:,} of {plural(whole, 'run')} in {DAYS} days{cut}"


def failing_text(progress: Progress) -> str | None:
    """Describe consecutive failures: a schedule whose every run failed is worse than one that started failing
    recently."""
    failures, runs = progress.failures, executed(progress)
    if not failures:
        return None
    if failures >= runs > 1:
        return f"failed all {runs:,} times"
    return "its last run failed" if failures == 1 else f"failed {failures:,} times in a row"


def _failing_since(timings: Sequence[Timing], progress: Progress) -> Instant | None:
    """Return when the first of the current consecutive failures was due, if that is among the latest runs."""
    if not progress.failures:
        return None
    failed = [each.due for each in timings if each.status in _BAD]
    return failed[progress.failures - 1] if progress.failures <= len(failed) else None


def _duration(timing: Timing) -> int | None:
    if timing.started is None or timing.finished is None:
        return None
    return max(0, timing.finished - timing.started)


def _chart(
    timings: Sequence[Timing], measure: Callable[[Timing], int | None], name: str, zone: str, now: Instant
) -> StatsChart | None:
    values = [(each, measure(each)) for each in reversed(timings)]
    known = sorted(value for _, value in values if value is not None)
    if len(known) < 2:
        return None
    most = _top(known)
    if most < SECOND:  # the scale is labelled in whole milliseconds, and so is its half
        most = max(1, -(-most // (2 * _MILLISECOND))) * 2 * _MILLISECOND
    step = 100 / max(LATEST, len(values))
    first = LATEST - len(values)
    columns = []
    for place, (timing, value) in enumerate(values, first):
        if value is None:
            continue
        tall = _LEAST + (HEIGHT - _LEAST) * min(1, value / most)
        label = f"{local_time(timing.due, zone, now)}: {span(value)}, {timing.status}"
        box = round(place * step, 3), round(step * 0.78, 3), round(HEIGHT - tall, 2), round(tall, 2)
        columns.append(Column(*box, f"is-{timing.status}{' capped' if value > most else ''}", label, timing.id))
    median = known[len(known) // 2]
    chart_label = f"{name} of the last {plural(len(known), 'run')}: median {span(median)}, at most {span(known[-1])}"
    return StatsChart(columns, f"{span(most)}{'+' if known[-1] > most else ''}", span(most // 2), chart_label)


def _top(known: Sequence[int]) -> int:
    """Return the top of the scale for sorted values: the largest, unless a few are so large that they dwarf the
    rest."""
    usual = known[int(0.9 * (len(known) - 1))]
    return known[-1] if known[-1] <= 4 * usual or len(known) < _FEW else round(1.5 * usual)
