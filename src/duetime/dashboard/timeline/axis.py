"""The axis of a timeline in the viewer's zone: its days and the labels of its times."""

from __future__ import annotations

from typing import Final, NamedTuple

from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND, Instant, datetime_of
from duetime.service.vocabulary import known_zone
from duetime.service.window import Window, Zoom, day_of

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


def days(view: Window, now: Instant) -> list[Day]:
    """Return the days in the viewer's zone, cut at both ends."""
    days = []
    for start, end in view.days():
        left, right = view.place(max(start, view.start)), view.place(min(end, view.end))
        label = _day_label(start, view.zone, now, short=view.zoom.step >= HOUR)
        odd = "" if end - start == DAY else f"{(end - start) / HOUR:g} hours"
        days.append(Day(left, round(right - left, 3), label, odd))
    return days


def ticks(view: Window) -> list[Tick]:
    instants = [instant for instant in view.wall_times(view.zoom.tick) if view.start <= instant < view.end]
    return [Tick(view.place(each), *_hour(each, view.zone, view.zoom.tick)) for each in instants]


def _day_label(midnight: Instant, zone: str, now: Instant, *, short: bool) -> str:
    days = day_of(midnight, zone) - day_of(now, zone)
    if days == 0 or (days in (-1, 1) and not short):
        return ("Yesterday", "Today", "Tomorrow")[days + 1]
    moment = datetime_of(midnight).astimezone(known_zone(zone))
    return f"{moment:%a} {moment.day}" if short else f"{moment:%a} {moment.day} {moment:%b}"


def _hour(instant: Instant, zone: str, tick: int) -> tuple[str, bool]:
    """Return a label, and whether it is major: every third fits on a phone; of labels half a day apart, none."""
    moment = datetime_of(instant).astimezone(known_zone(zone))
    return f"{moment:%H:%M}", tick < DAY // SECOND // 2 and (moment.hour * 3600 + moment.minute * 60) % (3 * tick) == 0
