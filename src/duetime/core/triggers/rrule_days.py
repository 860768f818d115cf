"""Which days a recurrence rule means."""

from __future__ import annotations

from datetime import date

from duetime.core.triggers.days import EVERY_SEVENTH, DaySet, month_length
from duetime.core.triggers.rrule_fields import (
    DAILY,
    MONTHLY,
    WEEKLY,
    YEARLY,
    NthDay,
    RuleFields,
)
from duetime.core.triggers.step_budget import spend

_DAY_PARTS = ("BYMONTHDAY", "BYYEARDAY", "BYWEEKNO")


class RuleDays(DaySet):
    """Days of the rule that also lie in a year, month, week or day that its interval does not skip."""

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
        # With BYMONTH a numbered weekday counts in the month, else a yearly one counts in the year.
        self._in_year = fields.freq == YEARLY and "BYMONTH" not in fields.parts and any(day.nth for day in self._days)
        stepped = self._interval > 1 and fields.freq in (WEEKLY, DAILY)
        self._one_by_one = bool(self._year_days or self._weeks or self._in_year or stepped)

    def _take_from_first(self) -> None:
        """What the rule leaves open is that of the first time."""
        if self._freq == YEARLY:
            self._months = self._months or (self._first.month,)
        if self._freq in (YEARLY, MONTHLY):
            self._dates = (self._first.day,)
        elif self._freq == WEEKLY:
            self._days = (NthDay(0, self._first.weekday()),)

    @property
    def least_date(self) -> int:
        """The smallest day of the month; 0 where one is counted from the end, or a month is named."""
        return 0 if not self._dates or self._months or self._dates[0] < 0 else self._dates[0]

    def month_bits(self, year: int, month: int) -> int:
        if (self._months and month not in self._months) or self._skipped(year, month):
            return 0
        weekday, length = month_length(year, month)
        bits = (2 << length) - 2
        if self._dates:
            bits &= self._date_bits(length)
        if self._days and not self._in_year:
            bits &= self._weekday_bits(weekday, length)
        return self._filtered(bits, date(year, month, 1)) if self._one_by_one else bits

    def _date_bits(self, length: int) -> int:
        bits = 0
        for day in self._dates:
            number = day if day > 0 else length + 1 + day
            bits |= 1 << number if number > 0 else 0
        return bits

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

    def _filtered(self, bits: int, first: date) -> int:
        """What only a look at each day can tell."""
        start, found = first.toordinal(), 0
        for day in range(1, bits.bit_length()):
            if bits >> day & 1:
                spend()
                found |= self._wanted(date.fromordinal(start + day - 1), start + day - 1) << day
        return found

    def _skipped(self, year: int, month: int) -> bool:
        years = year - self._first.year
        if self._freq == YEARLY:
            return years % self._interval != 0
        return self._freq == MONTHLY and (years * 12 + month - self._first.month) % self._interval != 0

    def _wanted(self, day: date, ordinal: int) -> bool:
        if self._in_year and self._days and not self._weekday_wanted(day):
            return False
        if self._year_days and not self._year_day_wanted(day):
            return False
        if self._weeks and not self._week_wanted(ordinal):
            return False
        return not self._stepped_over(ordinal)

    def _stepped_over(self, ordinal: int) -> bool:
        if self._interval == 1 or self._freq not in (WEEKLY, DAILY):
            return False
        if self._freq == DAILY:
            return (ordinal - self._first.toordinal()) % self._interval != 0
        return (self._week_of(ordinal) - self._first_week) % self._interval != 0

    def _weekday_wanted(self, day: date) -> bool:
        """A numbered weekday of a year."""
        position, size, weekday = day.timetuple().tm_yday, _year_length(day.year), day.weekday()
        nths = (0, (position - 1) // 7 + 1, -((size - position) // 7) - 1)
        return any(wanted.weekday == weekday and wanted.nth in nths for wanted in self._days)

    def _year_day_wanted(self, day: date) -> bool:
        number = day.timetuple().tm_yday
        return number in self._year_days or number - _year_length(day.year) - 1 in self._year_days

    def _week_wanted(self, ordinal: int) -> bool:
        """Week 1 is the first with four days in its year, so the fourth day tells the year of a week."""
        start = ordinal - (ordinal - 1 - self._week_start) % 7
        fourth = date.fromordinal(start + 3)
        number = (fourth.timetuple().tm_yday - 1) // 7 + 1
        weeks = number + (_year_length(fourth.year) - fourth.timetuple().tm_yday) // 7
        return number in self._weeks or number - weeks - 1 in self._weeks

    def _week_of(self, ordinal: int) -> int:
        return (ordinal - 1 - self._week_start) // 7


def _year_length(year: int) -> int:
    return date(year, 12, 31).timetuple().tm_yday
