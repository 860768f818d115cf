"""The grammar of dates and times: what each phrase says, before it is placed on a wall clock."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Final, NamedTuple

MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_FULL_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_WEEKDAY_NAMES: Final = {
    **{name.lower(): number for number, name in enumerate(WEEKDAYS)},
    **{name[:3].lower(): number for number, name in enumerate(WEEKDAYS)},
    "tues": 1, "wednes": 2, "thur": 3, "thurs": 3,
}  # fmt: skip
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

_UNIT = r"seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w"
_AMOUNT = rf"(\d{{1,9}}(?:\.\d{{1,6}})?|an?(?=\s))\s*({_UNIT})"
_RELATIVE = re.compile(rf"(?:in )?{_AMOUNT}(?:,? (?:and )?{_AMOUNT}|{_AMOUNT})*", re.ASCII)
_CLOCK = re.compile(r"(\d{1,2})(?::(\d{2})(?::(\d{2}))?)? ?(am|pm)?", re.ASCII)
_YEAR = r"(?:,? (\d{4}))?"
_MONTH_FIRST = re.compile(rf"([a-z]+)\.? (\d{{1,2}})(?:st|nd|rd|th)?{_YEAR}", re.ASCII)
_DAY_FIRST = re.compile(rf"(\d{{1,2}})(?:st|nd|rd|th)?\.? ([a-z]+)\.?{_YEAR}", re.ASCII)
_NUMERIC = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_WEEKDAY = re.compile(r"(next |this |coming )?([a-z]+)", re.ASCII)
_ISO_DATE = r"\d{4}-?(?:\d{2}-?\d{2}|W\d{2}-?\d)"
_ISO = re.compile(rf"{_ISO_DATE}(?:[T ][\d:.,]+ ?(?:Z|[+-][\d:]+)?)?", re.IGNORECASE | re.ASCII)


class DateWords(NamedTuple):
    """A day; `floating` says how it was derived if it was not given in full. If the time on that day is past,
    the day `retry_days` later is meant, or with `yearly` the same date in a later year.
    """

    day: date
    floating: str | None = None
    retry_days: int = 0
    yearly: bool = False


class ClockWords(NamedTuple):
    second: int
    microsecond: int = 0


def read_iso(text: str) -> tuple[datetime, bool] | None:
    """Parse an ISO 8601 time; also return whether it was only a date."""
    if not _ISO.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text.upper().replace(" +", "+").replace(" -", "-").replace(" Z", "Z"))
    except ValueError:
        return None
    return moment, not re.search(r"[T :]", text, re.IGNORECASE)


def read_relative(text: str) -> int | None:
    """Return microseconds from now, for "in 2 hours", "in 1 day 3 hours", "90 minutes from now"."""
    from_now = text.removesuffix(" from now")
    if not (text.startswith("in ") or from_now != text) or not _RELATIVE.fullmatch(from_now):
        return None
    total = 0
    for amount, unit in re.findall(_AMOUNT, from_now.removeprefix("in "), re.ASCII):
        number = "1" if amount in ("a", "an") else amount
        whole, _, fraction = number.partition(".")
        total += (int(whole) * 10**6 + int(fraction.ljust(6, "0"))) * _UNITS[unit[0]]
    return total


def read_clock(text: str) -> ClockWords | None:
    """Parse a time of day; a bare number is not one, because it could mean anything."""
    named = {"noon": 12 * 3600, "midday": 12 * 3600, "midnight": 0}.get(text)
    if named is not None:
        return ClockWords(named)
    match = _CLOCK.fullmatch(text)
    if match is None or not (match[2] or match[4]):
        return None
    hour, minute, second = int(match[1]), int(match[2] or 0), int(match[3] or 0)
    if match[4]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if match[4] == "pm" else 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    return ClockWords(hour * 3600 + minute * 60 + second)


def read_date(text: str, today: date) -> DateWords | None:
    near = {"today": 0, "tonight": 0, "tomorrow": 1, "day after tomorrow": 2}.get(text.removeprefix("the "))
    if near is not None:
        return DateWords(shifted(today, near), floating=text)
    if match := _NUMERIC.fullmatch(text):
        return _day(int(match[1]), int(match[2]), int(match[3]))
    return _named_month(text, today) or _weekday(text, today)


def shifted(day: date, days: int) -> date:
    try:
        return day + timedelta(days=days)
    except OverflowError:
        return date.max


def _day(year: int, month: int, day: int) -> DateWords | None:
    try:
        return DateWords(date(year, month, day))
    except ValueError:
        return None


def _named_month(text: str, today: date) -> DateWords | None:
    if match := _MONTH_FIRST.fullmatch(text):
        name, day, year = match[1], int(match[2]), match[3]
    elif match := _DAY_FIRST.fullmatch(text):
        name, day, year = match[2], int(match[1]), match[3]
    else:
        return None
    if name in _FULL_MONTHS:
        month = _FULL_MONTHS.index(name) + 1
    elif name in MONTHS or name == "sept":
        month = MONTHS.index(name[:3]) + 1
    else:
        return None
    return _day(int(year), month, day) if year else coming_date(today, month, day)


def coming_date(today: date, month: int, day: int) -> DateWords | None:
    """Return the next such date; 29 February waits for a leap year."""
    for year in range(today.year, min(today.year + 9, 10_000)):
        found = _day(year, month, day)
        if found and found.day >= today:
            return found._replace(floating="no year given", yearly=True)
    return None


def _weekday(text: str, today: date) -> DateWords | None:
    match = _WEEKDAY.fullmatch(text)
    number = _WEEKDAY_NAMES.get(match[2]) if match else None
    if match is None or number is None:
        return None
    ahead = (number - today.weekday()) % 7
    if match[1] == "next " and ahead == 0:
        ahead = 7
    return DateWords(shifted(today, ahead), floating=text, retry_days=7)
