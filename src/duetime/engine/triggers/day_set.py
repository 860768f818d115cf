"""Sets of days, one bit per day of a month, computed month by month and cached."""

from __future__ import annotations

from abc import ABC, abstractmethod
from calendar import monthrange
from datetime import date
from typing import Final

from duetime.engine.times.wall_clock import DAY_SECONDS, LAST_SECOND
from duetime.engine.triggers.step_budget import spend

EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
LAST_DAY: Final = LAST_SECOND // DAY_SECONDS
EVERY_SEVENTH: Final = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28

_LAST_MONTH: Final = 9999 * 12 + 11
_MOST_KEPT: Final = 1000
_from_ordinal = date.fromordinal


def lowest(bits: int) -> int:
    """Return the number of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1


def month_length(year: int, month: int) -> tuple[int, int]:
    """Return the weekday of the first day (Monday is 0) and the number of days."""
    return monthrange(year, month)


class DaySet(ABC):
    """A set of days. Days are numbered from the epoch; months are year * 12 + month - 1."""

    horizon: int
    """The number of months without a day to search before concluding that there is no further day."""

    def __init__(self) -> None:
        self._masks: dict[int, int] = {}
        self._known: dict[int, int] = {}

    @abstractmethod
    def month_bits(self, year: int, month: int) -> int:
        """Return a bit set: bit n is set if day n of the month belongs to the set."""

    def next_day(self, day: int) -> int | None:
        """Return the first day of the set from `day` on; cached, because users of a set ask about the same few days."""
        found = self._known.get(day)
        return self._find(day) if found is None else found

    def _find(self, day: int) -> int | None:
        if day > LAST_DAY:
            return None
        when = _from_ordinal(day + EPOCH_ORDINAL)
        month = when.year * 12 + when.month - 1
        bits = self._mask(month) >> when.day
        found = day + lowest(bits) if bits else self._next_month(month + 1)
        if found is not None:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[day] = self._known[found] = found
        return found

    def _next_month(self, month: int) -> int | None:
        for index in range(month, min(month + self.horizon, _LAST_MONTH) + 1):
            bits = self._mask(index)
            if bits:
                return date(index // 12, index % 12 + 1, lowest(bits)).toordinal() - EPOCH_ORDINAL
        return None

    def _mask(self, month: int) -> int:
        mask = self._masks.get(month)
        if mask is None:
            spend()
            if len(self._masks) >= _MOST_KEPT:
                self._masks.clear()
            mask = self._masks[month] = self.month_bits(month // 12, month % 12 + 1)
        return mask
