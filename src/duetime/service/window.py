"""A window of time in somebody's zone: its bins, its days, and the times that the wall clock shows within it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from duetime.engine.clock import SECOND, Instant
from duetime.engine.times.wall_clock import DAY_SECONDS, LAST_SECOND, LATEST, wall_clock


class Zoom(NamedTuple):
    """Extent of the future and the past that is shown, and the width of the bins, in microseconds."""

    name: str
    label: str
    ahead: int
    behind: int
    step: int
    tick: int
    """Seconds of wall-clock time between two labels."""


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

    def days(self) -> Iterator[tuple[Instant, Instant]]:
        """Yield the begin and the end of each day, uncut. A clock change may skip midnight or a whole day."""
        start = _begin_of_day(day_of(self.start, self.zone), self.zone)
        while start < self.end:
            end = _begin_of_day(day_of(start, self.zone) + 1, self.zone)
            yield start, end
            start = end

    def wall_times(self, every: int) -> Iterator[Instant]:
        """Yield the instants at which the wall clock shows a multiple of `every` seconds, from the start of the day.
        An hour that is repeated is yielded twice, one that is skipped is not."""
        clock = wall_clock(self.zone)
        t = clock.first_reach(day_of(self.start, self.zone) * DAY_SECONDS)
        end = self.end // SECOND
        while t < end:
            stretch = clock.stretch(t)
            local = t + stretch.offset
            if local % every == 0:
                yield Instant(t * SECOND)
            following = t + every - local % every
            t = stretch.hi if t < stretch.hi < following else following


def window(zoom: Zoom, zone: str, now: Instant, start: Instant | None = None) -> Window:
    """Return a window that starts on a step of the viewer's wall clock. Without `start`, round up: everything within
    `ahead` is then shown (a daily noon job, a few minutes after noon), and a little less of the past."""
    begin_at = (now - zoom.behind + zoom.step if start is None else start) // SECOND
    offset, step = wall_clock(zone).stretch(begin_at).offset, zoom.step // SECOND
    begin = Instant(((begin_at + offset) // step * step - offset) * SECOND)
    return Window(zoom, begin, Instant(begin + zoom.behind + zoom.ahead), zone)


def start_at(seconds: int) -> Instant:
    """Return the start of a window in seconds since 1970, or the latest after which a window has room."""
    return Instant(min(seconds, LAST_SECOND - 40 * DAY_SECONDS) * SECOND)


def day_of(instant: Instant, zone: str) -> int:
    """Return the number of the day that the wall clock shows."""
    t = instant // SECOND
    return (t + wall_clock(zone).stretch(t).offset) // DAY_SECONDS


def _begin_of_day(day: int, zone: str) -> Instant:
    return Instant(wall_clock(zone).first_reach(day * DAY_SECONDS) * SECOND)
