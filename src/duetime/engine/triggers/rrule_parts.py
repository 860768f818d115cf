"""The days and the times of day that a recurrence rule names, as bit sets."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterable
from datetime import date
from functools import lru_cache

from duetime.engine.times.wall_clock import DAY_SECONDS
from duetime.engine.triggers.base import EVERY_SEVENTH, DaySet, TimeSet
from duetime.engine.triggers.rrule_parser import (
    DAILY,
    HOURLY,
    MINUTELY,
    MONTHLY,
    SECONDLY,
    WEEKLY,
    YEARLY,
    NthDay,
    RuleFields,
)
from duetime.engine.triggers.step_budget import spend

_DAY_PARTS = ("BYMONTHDAY", "BYYEARDAY", "BYWEEKNO")


class RuleDays(DaySet):
    """The days of a rule in those years, months, weeks or days that its interval does not skip."""

    horizon = 400 * 12  # the calendar repeats after 400 years

    def __init__(self, fields: RuleFields, first: date) -> None:
        super().__init__()
        self._freq, self._interval, self._week_start = fields.freq, fields.interval, fields.week_start
        self._first = first
        self._first_week = self._week_of(first.toordinal())
        self._months = fields.parts.get("BYMONTH", ())
        self._dates = fields.parts.get("BYMONTHDAY", ())
        self._year_days = fields.parts.get("BYYEARDAY", ())
        self._weeks = fields.parts.get("BYWEEKNO", ())
        self._days = fields.days
        if not fields.days and not any(part in fields.parts for part in _DAY_PARTS):
            self._take_from_first()
        # In a yearly rule, a numbered weekday counts within the year, or with BYMONTH within the month.
        self._in_year = fields.freq == YEARLY and "BYMONTH" not in fields.parts and any(day.nth for day in self._days)
        stepped = self._interval > 1 and fields.freq in (WEEKLY, DAILY)
        self._one_by_one = bool(self._year_days or self._weeks or self._in_year or stepped)

    def _take_from_first(self) -> None:
        """Take whatever the rule leaves open from its first time."""
        if self._freq == YEARLY:
            self._months = self._months or (self._first.month,)
        if self._freq in (YEARLY, MONTHLY):
            self._dates = (self._first.day,)
        elif self._freq == WEEKLY:
            self._days = (NthDay(0, self._first.weekday()),)

    @property
    def least_date(self) -> int:
        """The smallest day of the month; 0 if a day is counted from the end, or a month is named."""
        return 0 if not self._dates or self._months or self._dates[0] < 0 else self._dates[0]

    def month_bits(self, year: int, month: int) -> int:
        if (self._months and month not in self._months) or self._is_skipped(year, month):
            return 0
        weekday, length = monthrange(year, month)
        bits = (2 << length) - 2
        if self._dates:
            bits &= _bits(day if day > 0 else length + 1 + day for day in self._dates if day > -length - 1)
        if self._days and not self._in_year:
            bits &= self._weekday_bits(weekday, length)
        if not self._one_by_one:
            return bits
        start, matching = date(year, month, 1).toordinal() - 1, 0
        for day in _numbers(bits):
            spend()
            matching |= self._matches(start + day) << day
        return matching

    def _weekday_bits(self, first: int, length: int) -> int:
        bits = 0
        for nth, weekday in self._days:
            day = 1 + (weekday - first) % 7
            if nth < 0:
                day += ((length - day) // 7 + 1 + nth) * 7
            elif nth > 0:
                day += (nth - 1) * 7
            bits |= EVERY_SEVENTH << day if nth == 0 else 1 << day if day > 0 else 0
        return bits

    def _is_skipped(self, year: int, month: int) -> bool:
        years = year - self._first.year
        if self._freq == YEARLY:
            return years % self._interval != 0
        return self._freq == MONTHLY and (years * 12 + month - self._first.month) % self._interval != 0

    def _matches(self, ordinal: int) -> bool:
        """Return whether a day matches the parts of the rule that are checked day by day."""
        day = date.fromordinal(ordinal)
        number, length = day.timetuple().tm_yday, _year_length(day.year)
        if self._in_year:
            nths = (0, (number - 1) // 7 + 1, -((length - number) // 7) - 1)
            if not any(weekday == day.weekday() and nth in nths for nth, weekday in self._days):
                return False
        if self._year_days and number not in self._year_days and number - length - 1 not in self._year_days:
            return False
        if self._weeks and not self._matches_week(ordinal):
            return False
        if self._freq == DAILY:
            return (ordinal - self._first.toordinal()) % self._interval == 0
        return self._freq != WEEKLY or (self._week_of(ordinal) - self._first_week) % self._interval == 0

    def _matches_week(self, ordinal: int) -> bool:
        """Return whether BYWEEKNO matches. Week 1 is the first with four days in its year, so its fourth day determines
        the year."""
        start = ordinal - (ordinal - 1 - self._week_start) % 7
        fourth = date.fromordinal(start + 3)
        number = (fourth.timetuple().tm_yday - 1) // 7 + 1
        weeks = number + (_year_length(fourth.year) - fourth.timetuple().tm_yday) // 7
        return number in self._weeks or number - weeks - 1 in self._weeks

    def _week_of(self, ordinal: int) -> int:
        return (ordinal - 1 - self._week_start) // 7


def _year_length(year: int) -> int:
    return date(year, 12, 31).timetuple().tm_yday


class RuleTimes(TimeSet):
    """The times of a unit, which is the hour, minute or second that the rule steps by; a daily or less frequent rule
    has one unit, the day. `allowed` has one bit per unit of a day."""

    def __init__(self, fields: RuleFields, first: int) -> None:
        self.unit = {HOURLY: 3600, MINUTELY: 60, SECONDLY: 1}.get(fields.freq, DAY_SECONDS)
        self.per_day = DAY_SECONDS // self.unit
        self._origin = first // self.unit
        self._step = fields.interval if fields.freq >= HOURLY else 1
        hours, minutes, seconds = (_bits(part) for part in _clock_parts(fields, first % DAY_SECONDS))
        of_unit = {1: 1, 60: 1, 3600: minutes}.get(self.unit) or _spread(minutes, 60, hours)
        super().__init__(of_unit, 1 if self.unit == 1 else seconds)
        self.allowed = _allowed(self.unit, hours, minutes, seconds)
        self._kept = (-1, 0)

    def offsets(self, most: int) -> list[int] | None:
        """Return the times of a unit, or None if there are more than `most`."""
        if self.minutes.bit_count() * self.seconds.bit_count() > most:
            return None
        return [60 * minute + second for minute in _numbers(self.minutes) for second in _numbers(self.seconds)]

    def on(self, day: int) -> int:
        """Return the units of this day that belong to the rule."""
        if self._step == 1:
            return self.allowed
        cached_day, units = self._kept
        if cached_day != day:
            gap = (self._origin - day * self.per_day) % self._step
            units = self.allowed & _stride(self.per_day, self._step) << gap if gap < self.per_day else 0
            self._kept = (day, units)
        return units

    def next_day(self, day: int) -> int:
        """Return the first day from `day` on that the interval does not skip."""
        start = day * self.per_day
        return (start + (self._origin - start) % self._step) // self.per_day


def _clock_parts(fields: RuleFields, first: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return hours, minutes and seconds: as given, otherwise those of the first time if finer than the frequency,
    otherwise all."""
    hours = (first // 3600,) if fields.freq < HOURLY else tuple(range(24))
    minutes = (first // 60 % 60,) if fields.freq < MINUTELY else tuple(range(60))
    seconds = (first % 60,) if fields.freq < SECONDLY else tuple(range(60))
    parts = fields.parts
    return parts.get("BYHOUR", hours), parts.get("BYMINUTE", minutes), parts.get("BYSECOND", seconds)


@lru_cache(maxsize=256)
def _allowed(unit: int, hours: int, minutes: int, seconds: int) -> int:
    """Return the units of a day that contain a time, one bit each; cached, since a set of seconds takes 11 kB."""
    if unit == 3600:
        return hours
    if unit == 60:
        return _spread(minutes, 60, hours)
    return _spread(_spread(seconds, 60, minutes), 3600, hours) if unit == 1 else 1


@lru_cache(maxsize=256)
def _stride(size: int, step: int) -> int:
    """Return a bit set with every `step`th bit below `size`."""
    marks = bytearray(size // 8 + 1)
    for number in range(0, size, step):
        marks[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(marks, "little")


def _spread(pattern: int, width: int, places: int) -> int:
    """Return a bit set that contains a pattern of `width` bits at each of the places."""
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
