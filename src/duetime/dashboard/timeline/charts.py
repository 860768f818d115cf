"""Coordinates of small charts: bars, strips and sparklines, in percent of the width and in pixels of height.

With these units text keeps its size at any width, and pages need no inline styles.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from duetime.dashboard.filters import count_of, in_order, kind_class, local_time
from duetime.engine.clock import Instant
from duetime.service.density import OUTCOMES, RANKS, Density, TimelineRow
from duetime.service.masking import masked
from duetime.service.text import plural, span
from duetime.service.vocabulary import Run, Trace
from duetime.service.window import Window

LOWEST: Final = 4
"""The smallest count that may fill the height."""
OUTLIER: Final = 4
"""Bars that are this many times as high as nearly all others are cut off, so that the others stay visible."""
GAP: Final = 0.12
LEAST: Final = 3.0
"""Minimum height of a bar, in pixels."""
LONGEST_ERROR: Final = 160


class Piece(NamedTuple):
    y: float
    height: float
    name: str
    style: str
    """CSS class of a status or of a kind."""


def status_class(status: str) -> str:
    return f"is-{status}"


class Bar(NamedTuple):
    x: float
    width: float
    pieces: list[Piece]
    label: str
    total: int
    start: Instant
    is_cut: bool = False
    """Whether it is higher than the chart."""


class Level(NamedTuple):
    y: float
    label: str


class Scale(NamedTuple):
    """A linear scale up to `most`; higher values are cut off."""

    most: int
    height: int

    def of(self, number: int) -> float:
        return (self.height - 4) * min(number, self.most) / max(self.most, LOWEST)

    def levels(self) -> list[Level]:
        """Return a few round numbers, up to the largest count."""
        steps = [base * 10**power for power in range(8) for base in (1, 2, 5)]
        step = next((each for each in steps if self.most / each <= 3.5), steps[-1])
        marks = range(step, self.most + 1, step)
        return [Level(round(self.height - self.of(mark), 2), f"{mark:,}") for mark in marks]


def scale_for(totals: Iterable[int], height: int) -> tuple[Scale, int | None]:
    """Return a scale, and the count at which it cuts bars off; None if all fit."""
    counts = sorted(total for total in totals if total)
    most = counts[-1] if counts else 0
    usual = counts[len(counts) * 9 // 10 - (1 if len(counts) > 1 else 0)] if counts else 0
    if most <= max(LOWEST, OUTLIER * usual):
        return Scale(most, height), None
    cut = max(LOWEST, 2 * usual)
    return Scale(cut, height), cut


class Shape(NamedTuple):
    """The pieces of all bars that look alike. A browser draws one path faster than hundreds of rectangles."""

    style: str
    path: str
    """SVG path data, in percent of the width and pixels of height."""


class Chart(NamedTuple):
    bars: list[Bar]
    shapes: list[Shape]
    levels: list[Level]
    height: int
    cut: int | None
    """The count above which bars are cut off; None if none is."""


def chart(density: Density, height: int, now: Instant) -> Chart:
    """Build a bar chart. Its scale is linear; a few bars that would dwarf the others are cut off."""
    coming, past = density.totals
    scale, cut = scale_for((a.total() + b.total() for a, b in zip(coming, past, strict=True)), height)
    view = density.window
    bars = []
    for bin, (ahead, before) in enumerate(zip(coming, past, strict=True)):
        total = ahead.total() + before.total()
        if total:
            tall = max(LEAST, scale.of(total))
            parts = [(name, status_class(name), before[name]) for name in OUTCOMES if name in before]
            parts += [(kind, f"{kind_class(kind)} ahead", ahead[kind]) for kind in in_order(ahead)]
            label, pieces = bin_label(view, bin, bin, before, ahead, now), _pieces(parts, total, tall, height)
            is_cut = cut is not None and total > cut
            bars.append(Bar(*place(view, bin), pieces, label, total, view.begin_of(bin), is_cut))
    return Chart(bars, _shapes(bars), scale.levels(), height, cut)


def _shapes(bars: Sequence[Bar]) -> list[Shape]:
    paths = defaultdict[str, list[str]](list)
    for bar in bars:
        for piece in bar.pieces:
            paths[piece.style].append(_box(bar, piece.y, piece.height))
    paths["notch"] = [_box(bar, 8, 3) for bar in bars if bar.is_cut]
    return [Shape(style, "".join(boxes)) for style, boxes in paths.items() if boxes]


def _box(bar: Bar, y: float, height: float) -> str:
    return f"M{bar.x} {y}h{bar.width}v{height}h-{bar.width}z"


class Line(NamedTuple):
    """A line of figures over time as SVG path data, in a drawing of 100 by 24."""

    path: str
    dots: list[tuple[float, float]]
    """Single points that no line connects."""


def line(values: Sequence[float | None], *, most: float | None = None) -> Line:
    """Build a line that starts at 0, with a gap wherever there is no figure."""
    high = max([1e-9, *(value for value in values if value is not None)]) if most is None else most
    step, path, dots = 100 / max(1, len(values) - 1), "", []
    for index, value in enumerate(values):
        if value is None:
            continue
        x, y = round(index * step, 2), round(22 - 20 * value / high, 2)
        joined = index > 0 and values[index - 1] is not None
        path += f"{'L' if joined else 'M'}{x} {y}"
        if not joined and (index + 1 == len(values) or values[index + 1] is None):
            dots.append((x, y))
    return Line(path, dots)


def _pieces(parts: Iterable[tuple[str, str, int]], total: int, tall: float, height: int) -> list[Piece]:
    pieces, foot = [], float(height)
    for name, style, number in parts:
        if number:
            share = tall * number / total
            foot -= share
            pieces.append(Piece(round(foot, 2), round(share, 2), name, style))
    return pieces


@lru_cache(maxsize=512)
def place(window: Window, first: int, last: int | None = None) -> tuple[float, float]:
    """Return the left edge and the width of a bin, or of a range of bins."""
    end = window.begin_of((first if last is None else last) + 1)
    left, right = window.place(window.begin_of(first)), min(100.0, window.place(end))
    return left, round(max(0.1, right - left - GAP), 3)


def bin_label(window: Window, first: int, last: int, before: Counter[str], ahead: Counter[str], now: Instant) -> str:
    """Return the lines of a popover: when, what ran, what is due."""
    lines = [_time_label(window, first, last, now)]
    lines += [", ".join(f"{before[name]:,} {name}" for name in OUTCOMES if before[name])] if before else []
    lines += [", ".join(count_of(ahead[kind], kind) for kind in in_order(ahead)) + " due"] if ahead else []
    return "\n".join(lines)


@lru_cache(maxsize=512)
def _time_label(window: Window, first: int, last: int, now: Instant) -> str:
    """Return the time and the length of a range of bins, which many lanes have in common."""
    begin = local_time(window.begin_of(first), window.zone, now)
    return f"{begin}, {span((last - first + 1) * window.zoom.step)}"


class ChartMark(NamedTuple):
    x: float
    width: float
    name: str
    style: str
    strength: int
    """1 to 4, by the number of occurrences."""
    label: str
    run: int | None = None
    """The run that represents the mark: the worst one."""


@dataclass
class _Stretch:
    """Consecutive bins that look alike."""

    first: int
    last: int
    look: tuple[str, str, int]
    before: Counter[str]
    ahead: Counter[str]
    worst: Run | None = None


def strip(row: TimelineRow, window: Window, now: Instant) -> list[ChartMark]:
    """Build the marks of one schedule; adjacent bins that look alike share a mark."""
    stretches: list[_Stretch] = []
    for bin, seen in sorted(row.past.items()):
        stretch = _stretch_with(stretches, bin, _worst(seen), seen.total())
        stretch.before.update(seen)
        worst = row.worst.get(bin)
        if worst is not None and (stretch.worst is None or RANKS[worst.status] > RANKS[stretch.worst.status]):
            stretch.worst = worst
    ahead_look = (row.kind, f"{kind_class(row.kind)} ahead")
    for bin, number in sorted(row.bins.items()):
        _stretch_with(stretches, bin, ahead_look, number).ahead[row.kind] += number
    return [_mark(each, window, now) for each in stretches]


def _stretch_with(stretches: list[_Stretch], bin: int, name_and_style: tuple[str, str], number: int) -> _Stretch:
    """Return the last stretch, extended by a bin that looks the same, or else a new one."""
    look = (*name_and_style, 1 + (number >= 2) + (number >= 10) + (number >= 100))
    if not stretches or stretches[-1].last != bin - 1 or stretches[-1].look != look:
        stretches.append(_Stretch(bin, bin, look, Counter(), Counter()))
    stretches[-1].last = bin
    return stretches[-1]


def _mark(stretch: _Stretch, window: Window, now: Instant) -> ChartMark:
    label = bin_label(window, stretch.first, stretch.last, stretch.before, stretch.ahead, now)
    x, width = place(window, stretch.first, stretch.last)
    worst = stretch.worst
    if worst is not None and worst.error:
        label += f"\n{masked(worst.error)[:LONGEST_ERROR]}"
    return ChartMark(x, width, *stretch.look, label, None if worst is None else worst.id)


def _worst(outcomes: Counter[str]) -> tuple[str, str]:
    """Return the worst status and its CSS class."""
    status = max(outcomes, key=RANKS.__getitem__)
    return status, status_class(status)


# -- the last runs of a schedule ------------------------------------------------------------------------------------

SPARKS: Final = 30
SPARK_HEIGHT: Final = 18
_SPARK_STEP = 100 / SPARKS


class Spark(NamedTuple):
    bars: list[str]  # the position and the text of each bar, for the script that shows them
    shapes: list[Shape]
    label: str


def sparks(traces: Sequence[Trace], now: Instant, zone: str) -> Spark:
    """Build a sparkline, oldest run at the left. The height shows the duration; an occurrence that did not run has a
    low mark."""
    latest = list(reversed(traces[:SPARKS]))
    spans = [each.finished - each.started for each in latest if each.started is not None and each.finished is not None]
    longest = max(spans, default=0) or 1
    first = SPARKS - len(latest)
    bars = [_spark(each, index, longest, now, zone) for index, each in enumerate(latest, first)]
    counts = Counter(each.status for each in latest)
    outcomes = ", ".join(f"{number} {name}" for name, number in counts.most_common())
    texts = [f"{bar.x} {bar.label}" for bar in bars]
    return Spark(texts, _shapes(bars), f"Last {plural(len(latest), 'run')}: {outcomes}" if latest else "No runs yet")


def _spark(trace: Trace, index: int, longest: int, now: Instant, zone: str) -> Bar:
    took = None if trace.started is None or trace.finished is None else trace.finished - trace.started
    tall = LEAST if took is None else LEAST + (SPARK_HEIGHT - LEAST) * math.sqrt(max(0, took) / longest)
    label = f"{local_time(trace.due, zone, now)}: {trace.status}" + ("" if took is None else f", {span(took)}")
    piece = Piece(round(SPARK_HEIGHT - tall, 2), round(tall, 2), trace.status, status_class(trace.status))
    return Bar(round(index * _SPARK_STEP, 3), round(_SPARK_STEP - 0.8, 3), [piece], label, 1, trace.due)
