"""Which times of a day a recurrence rule means."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from duetime.core.triggers.rrule_fields import HOURLY, MINUTELY, SECONDLY, RuleFields
from duetime.core.wallclock import DAY_SECONDS


class RuleTimes:
    """Times of a day: `allowed` has a bit per hour, minute or second that the rule steps by; within such a
    unit come `offsets`. A rule of days or longer has one unit, the day.
    """

    def __init__(self, fields: RuleFields, first: int) -> None:
        self.unit = {HOURLY: 3600, MINUTELY: 60, SECONDLY: 1}.get(fields.freq, DAY_SECONDS)
        self.per_day = DAY_SECONDS // self.unit
        self._origin = first // self.unit
        self._step = fields.interval if fields.freq >= HOURLY else 1
        hours, minutes, seconds = _clock_parts(fields, first % DAY_SECONDS)
        times = [3600 * h + 60 * m + s for h, m, s in product(hours, minutes, seconds)]
        self.offsets = tuple(sorted({time % self.unit for time in times}))
        self.allowed = _bits({time // self.unit for time in times}, self.per_day)
        self._stride = _bits(range(0, self.per_day, self._step), self.per_day)
        self._kept = (-1, 0)

    def on(self, day: int) -> int:
        """The units of this day that belong to the rule."""
        if self._step == 1:
            return self.allowed
        kept, units = self._kept
        if kept != day:
            gap = (self._origin - day * self.per_day) % self._step
            units = self.allowed & self._stride << gap if gap < self.per_day else 0
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


def _bits(numbers: Iterable[int], size: int) -> int:
    """Adding up 86,400 shifted numbers would take a tenth of a second; bytes do not."""
    marks = bytearray(size // 8 + 1)
    for number in numbers:
        marks[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(marks, "little")
