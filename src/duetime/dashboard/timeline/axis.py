"""The time window of a timeline: its bins, and its axis in the viewer's zone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND, Instant, datetime_of
from duetime.engine.times.wall_clock import DAY_SECONDS, LATEST, wall_clock
from duetime.service.vocabulary import known_zone


class Zoom(NamedTuple):
    """Extent of the future and the past that is shown, and the width of the bins, in microseconds."""

    name: str
    label: str
    ahead: int
    behind: int
    step: int
    tick: int
    """Seconds of wall-clock time between two labels."""


ZOOMS: Final = {
    zoom.name: zoom
    for zoom in (
        Zoom("1h", "1 hour", 1 * HOUR, 20 * MINUTE, 1 * MINUTE, 600),
        Zoom("6h", "6 hours", 6 * HOUR, 2 * HOUR, 5 * MINUTE, 3600),
        Zoom("24h", "24 hours", 24 * HOUR, 8 * HOUR, 15 * MINUTE, 2 * 3600),
        Zoom("7d", "7 days", 7 * DAY, 2 * DAY, 1 * HOUR, 12 * 3600),
        Zoom("week", "Past week", 0, 7 * DAY, 1 * HOUR, 12 * 3600),
    )
}
USUAL: Final = "24h"
LETTER: Final = 7.4
"""Approximate width of a letter on the axis, in pixels."""


class Tick(NamedTuple):
    at: float
    """Percentage of the whole width."""
    label: str
    major: bool


class Day(NamedTuple):
    start: float
    width: float
    label: str
    odd: str
    """`23 hours` or `25 hours` when the clocks change, else empty."""

    def has_room(self, pixels: int, label: str) -> bool:
        """Return whether a label fits below the day, in a drawing of this width."""
        return LETTER * len(label) + 8 <= pixels * self.width / 100


class Window(NamedTuple):
    zoom: Zoom
    start: Instant
    end: Instant
    zone: str

    def ends_with(self, now: Instant) -> bool:
        """Return whether the window is about the past: if it extends into the future at all, then only to complete a
        bin."""
        return self.end <= now + (0 if self.zoom.ahead else self.zoom.step)

    @property
    def bins(self) -> int:
        return -((self.start - self.end) // self.zoom.step)

    def bin_of(self, instant: Instant) -> int:
        return (instant - self.start) // self.zoom.step

    def begin_of(self, bin: int) -> Instant:
        return Instant(self.start + bin * self.zoom.step)

    def place(self, instant: Instant) -> float:
        return round(100 * (instant - self.start) / (self.end - self.start), 3)

    def moved(self, by: int) -> Instant:
        return Instant(min(max(self.start + by, 0), LATEST - 2 * (self.end - self.start)))

    def days(self, now: Instant) -> list[Day]:
        """Return the days in the viewer's zone, cut at both ends. A clock change may skip midnight or a whole day."""
        edges = [_begin_of_day(_day_of(self.start, self.zone), self.zone)]
        days = []
        while edges[-1] < self.end:
            day = _day_of(edges[-1], self.zone)
            edges.append(_begin_of_day(day + 1, self.zone))
            start, end = edges[-2:]
            left, right = self.place(max(start, self.start)), self.place(min(end, self.end))
            label = _day_label(start, self.zone, now, short=self.zoom.step >= HOUR)
            odd = "" if end - start == DAY else f"{(end - start) / HOUR:g} hours"
            days.append(Day(left, round(right - left, 3), label, odd))
        return days

    def ticks(self) -> list[Tick]:
        shown = [instant for instant in self._walls(self.zoom.tick) if self.start <= instant < self.end]
        return [Tick(self.place(each), *_hour(each, self.zone, self.zoom.tick)) for each in shown]

    def _walls(self, every: int) -> Iterator[Instant]:
        """Yield the instants at which the wall clock shows a multiple of `every` seconds, from the start of the day.
        An hour that is repeated is yielded twice, one that is skipped is not."""
        clock = wall_clock(self.zone)
        t = clock.first_reach(_day_of(self.start, self.zone) * DAY_SECONDS)
        end = self.end // SECOND
        while t < end:
            local = t + clock.stretch(t).offset
            if local % every == 0:
                yield Instant(t * SECOND)
            stretch = clock.stretch(t)
            following = t + every - local % every
            t = stretch.hi if t < stretch.hi < following else following


def window(zoom: Zoom, zone: str, now: Instant, start: Instant | None = None) -> Window:
    """Return a window that starts on a step of the viewer's wall clock. Without `start`, round up: everything within
    `ahead` is then shown (a daily noon job, a few minutes after noon), and a little less of the past."""
    wanted = (now - zoom.behind + zoom.step if start is None else start) // SECOND
    offset, step = wall_clock(zone).stretch(wanted).offset, zoom.step // SECOND
    begin = Instant(((wanted + offset) // step * step - offset) * SECOND)
    return Window(zoom, begin, Instant(begin + zoom.behind + zoom.ahead), zone)


def _day_of(instant: Instant, zone: str) -> int:
    t = instant // SECOND
    return (t + wall_clock(zone).stretch(t).offset) // DAY_SECONDS


def _begin_of_day(day: int, zone: str) -> Instant:
    return Instant(wall_clock(zone).first_reach(day * DAY_SECONDS) * SECOND)


def _day_label(midnight: Instant, zone: str, now: Instant, *, short: bool) -> str:
    days = _day_of(midnight, zone) - _day_of(now, zone)
    if days == 0 or (days in (-1, 1) and not short):
        return ("Yesterday", "Today", "Tomorrow")[days + 1]
    moment = datetime_of(midnight).astimezone(known_zone(zone))
    return f"{moment:%a} {moment.day}" if short else f"{moment:%a} {moment.day} {moment:%b}"


def _hour(instant: Instant, zone: str, tick: int) -> tuple[str, bool]:
    """Return a label, and whether it is major: every third fits on a phone; of labels half a day apart, none."""
    moment = datetime_of(instant).astimezone(known_zone(zone))
    return f"{moment:%H:%M}", tick < DAY_SECONDS // 2 and (moment.hour * 3600 + moment.minute * 60) % (3 * tick) == 0
