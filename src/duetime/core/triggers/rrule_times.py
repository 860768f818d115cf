"""Which times of a day a recurrence rule means."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from duetime.core.triggers.days import lowest
from duetime.core.triggers.rrule_fields import HOURLY, MINUTELY, SECONDLY, RuleFields
from duetime.core.wallclock import DAY_SECONDS


class RuleTimes:
    """Times of a day: `allowed` has a bit per hour, minute or second that the rule steps by. A rule of days or longer
    has one unit, the day. The times within a unit are those of two bit sets, of its minutes and of their seconds: even
    a rule with every second of a day is small and read at once.
    """

    def __init__(self, fields: RuleFields, first: int) -> None:
        self.unit = {HOURLY: 3600, MINUTELY: 60, SECONDLY: 1}.get(fields.freq, DAY_SECONDS)
        self.per_day = DAY_SECONDS // self.unit
        self._origin = first // self.unit
        self._step = fields.interval if fields.freq >= HOURLY else 1
        hours, minutes, seconds = (_bits(part) for part in _clock_parts(fields, first % DAY_SECONDS))
        self._seconds = 1 if self.unit == 1 else seconds
        self._minutes = {1: 1, 60: 1, 3600: minutes}.get(self.unit) or _spread(minutes, 60, hours)
        self.allowed = _allowed(self.unit, hours, minutes, seconds)
        self.first_offset = lowest(self._minutes) * 60 + lowest(self._seconds)
        self._kept = (-1, 0)

    def next_offset(self, second: int) -> int | None:
        """The first time at or after a second of a unit."""
        minute, rest = divmod(second, 60)
        minutes = self._minutes >> minute
        if minutes & 1:
            seconds = self._seconds >> rest
            if seconds:
                return second + lowest(seconds)
            minutes ^= 1
        return (minute + lowest(minutes)) * 60 + lowest(self._seconds) if minutes else None

    def offsets(self, most: int) -> list[int] | None:
        """The times of a unit; None when there are more than `most`."""
        if self._minutes.bit_count() * self._seconds.bit_count() > most:
            return None
        return [60 * minute + second for minute in _numbers(self._minutes) for second in _numbers(self._seconds)]

    def on(self, day: int) -> int:
        """The units of this day that belong to the rule."""
        if self._step == 1:
            return self.allowed
        kept, units = self._kept
        if kept != day:
            gap = (self._origin - day * self.per_day) % self._step
            units = self.allowed & _stride(self.per_day, self._step) << gap if gap < self.per_day else 0
            self._kept = (day, units)
        return units

    def next_day(self, day: int) -> int:
        """The first day from `day` on that the step does not jump over."""
        start = day * self.per_day
        return (start + (self._origin - start) % self._step) // self.per_day


def _clock_parts(fields: RuleFields, first: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Hours, minutes and seconds: as given, else those of the first time, else all below the frequency."""
    hours = (first // 3600,) if fields.freq < HOURLY else tuple(range(24))
    minutes = (first // 60 % 60,) if fields.freq < MINUTELY else tuple(range(60))
    seconds = (first % 60,) if fields.freq < SECONDLY else tuple(range(60))
    parts = fields.parts
    return parts.get("BYHOUR", hours), parts.get("BYMINUTE", minutes), parts.get("BYSECOND", seconds)


@lru_cache(maxsize=256)
def _allowed(unit: int, hours: int, minutes: int, seconds: int) -> int:
    """The units of a day that hold a time, one bit each; shared, since one of seconds takes 11 kB."""
    if unit == 3600:
        return hours
    if unit == 60:
        return _spread(minutes, 60, hours)
    return _spread(_spread(seconds, 60, minutes), 3600, hours) if unit == 1 else 1


@lru_cache(maxsize=256)
def _stride(size: int, step: int) -> int:
    """Every `step`th bit below `size`."""
    marks = bytearray(size // 8 + 1)
    for number in range(0, size, step):
        marks[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(marks, "little")


def _spread(pattern: int, width: int, places: int) -> int:
    """A pattern of so many bits, at each of these places."""
    bits = 0
    for place in _numbers(places):
        bits |= pattern << place * width
    return bits


def _bits(numbers: Iterable[int]) -> int:
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def _numbers(bits: int) -> list[int]:
    return [number for number in range(bits.bit_length()) if bits >> number & 1]
