"""The grammar of times: what each phrase says, before it is placed on a wall clock. `dates` has that of days."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final, NamedTuple

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_NUMBER_WORDS: Final = {
    "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8",
    "nine": "9", "ten": "10", "eleven": "11", "twelve": "12", "fifteen": "15", "twenty": "20", "thirty": "30",
    "forty": "40", "forty-five": "45", "sixty": "60", "ninety": "90",
}  # fmt: skip
_IDIOMS: Final = {
    "an hour and a half": "90 minutes",
    "half an hour": "30 minutes",
    "a quarter of an hour": "15 minutes",
    "eod": "end of day",
}
_WORDS = re.compile(rf"\b(?:{'|'.join(sorted((*_IDIOMS, *_NUMBER_WORDS), key=len, reverse=True))})\b")
_MERIDIEM = re.compile(r"\b([ap])\.m\.?(?![a-z])")

_UNIT = r"seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w"
_AMOUNT = rf"(\d{{1,9}}(?:\.\d{{1,6}})?|an?(?=\s))\s*({_UNIT})"
_RELATIVE = re.compile(rf"(?:in )?{_AMOUNT}(?:,? (?:and )?{_AMOUNT}|{_AMOUNT})*", re.ASCII)
_CALENDAR = re.compile(r"(?:in )?(\d{1,4}|an?) (month|year)s?", re.ASCII)
_CLOCK = re.compile(r"(at )?(\d{1,2})(?::(\d{2})(?::(\d{2}))?)? ?(am|pm)?", re.ASCII)
_ISO_DATE = r"\d{4}-?(?:\d{2}-?\d{2}|W\d{2}-?\d)"
_ISO = re.compile(rf"{_ISO_DATE}(?:[T ][\d:.,]+ ?(?:Z|[+-][\d:]+)?)?", re.IGNORECASE | re.ASCII)


class ClockWords(NamedTuple):
    second: int
    microsecond: int = 0
    bare: bool = False
    """Neither am nor pm, nor minutes were given, as in "at 9"."""
    meridiem: bool = True
    """It is certain whether the morning or the afternoon is meant."""


def plain_words(text: str) -> str:
    """Return a phrase in lower case with digits for numbers that are written out, such as "nine"."""
    lower = _MERIDIEM.sub(r"\1m", text.lower())
    return _WORDS.sub(lambda match: _IDIOMS.get(match[0]) or _NUMBER_WORDS[match[0]], lower)


def read_iso(text: str) -> tuple[datetime, bool] | None:
    """Parse an ISO 8601 time; also return whether it was only a date."""
    if not _ISO.fullmatch(text):
        return None
    upper = text.upper()
    if " " in upper:
        upper = upper.replace(" +", "+").replace(" -", "-").replace(" Z", "Z")
    try:
        moment = datetime.fromisoformat(upper)
    except ValueError:
        return None
    return moment, not ("T" in upper or " " in text or ":" in upper)


def read_relative(text: str) -> int | None:
    """Return microseconds from now, for "in 2 hours", "in 1 day 3 hours", "90 minutes from now"."""
    from_now = text.removesuffix(" from now")
    if not (text.startswith("in ") or from_now != text) or not _RELATIVE.fullmatch(from_now):
        return None
    return sum(read_amounts(from_now.removeprefix("in ")).values())


def read_amounts(text: str) -> dict[str, int]:
    """Return the microseconds of each unit (s, m, h, d, w) in "1 day 3 hours" or "2h30m"; of other text, nothing."""
    total = dict.fromkeys(_UNITS, 0)
    for amount, unit in re.findall(_AMOUNT, text, re.ASCII) if _RELATIVE.fullmatch(text) else ():
        number = "1" if amount in ("a", "an") else amount
        whole, _, fraction = number.partition(".")
        total[unit[0]] += (int(whole) * 10**6 + int(fraction.ljust(6, "0"))) * _UNITS[unit[0]]
    return total


def read_months(text: str) -> int | None:
    """Return the number of months from now, for "in 1 month", "2 years from now"."""
    from_now = text.removesuffix(" from now")
    match = _CALENDAR.fullmatch(from_now) if text.startswith("in ") or from_now != text else None
    if match is None:
        return None
    return (1 if match[1][0] == "a" else int(match[1])) * (12 if match[2] == "year" else 1)


def read_clock(text: str) -> ClockWords | None:
    """Parse a time of day. A bare number needs "at" before it, because alone it could mean anything."""
    named = {"noon": 12 * 3600, "midday": 12 * 3600, "midnight": 0}.get(text.removeprefix("at "))
    if named is not None:
        return ClockWords(named)
    match = _CLOCK.fullmatch(text)
    if match is None or not (match[1] or match[3] or match[5]):
        return None
    hour, minute, second = int(match[2]), int(match[3] or 0), int(match[4] or 0)
    if match[5]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if match[5] == "pm" else 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    bare = not (match[3] or match[5])
    return ClockWords(hour * 3600 + minute * 60 + second, bare=bare, meridiem=bool(match[5]) or not 1 <= hour <= 11)
