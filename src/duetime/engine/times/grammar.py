"""The grammar of times and days: what each phrase says, before it is resolved to a wall-clock time."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date, datetime, timedelta
from typing import Final

from duetime.engine.errors import UnreadableTime
from duetime.engine.value_class import NamedTuple, pattern

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_NUMBER_WORDS: Final = {
    "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8",
    "nine": "9", "ten": "10", "eleven": "11", "twelve": "12", "fifteen": "15", "twenty": "20", "twenty-five": "25",
    "thirty": "30", "forty": "40", "forty-five": "45", "sixty": "60", "ninety": "90",
}  # fmt: skip
_IDIOMS: Final = {
    "an hour and a half": "90 minutes",
    "half an hour": "30 minutes",
    "a quarter of an hour": "15 minutes",
    "eod": "end of day",
    "christmas eve": "december 24", "christmas day": "december 25", "christmas": "december 25",
    "new year's eve": "december 31", "new year's day": "january 1",
}  # fmt: skip
_WORDS = pattern(rf"\b(?:{'|'.join(sorted((*_IDIOMS, *_NUMBER_WORDS), key=len, reverse=True))})\b")
_MERIDIEM = pattern(r"\b([ap])\.m\.?(?![a-z])")
_SPOKEN = pattern(
    r"(?<!every )\b(?:a )?(half|quarter|\d{1,2}(?: minutes?)?) (past|to) (\d{1,2})(?![\d:])(?: ?([ap]m)\b)?|"
    r"\b(\d{1,2}) o'clock",
    re.ASCII,
)
"""A time of day such as "half past 8", "quarter to 9 pm" or "9 o'clock"."""

_UNIT = r"seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w"
_AMOUNT = rf"(\d{{1,9}}(?:\.\d{{1,6}})?|an?(?=\s))\s*({_UNIT})"
_RELATIVE = pattern(rf"(?:in )?{_AMOUNT}(?:,? (?:and )?{_AMOUNT}|{_AMOUNT})*", re.ASCII)
_CALENDAR = pattern(r"(?:in )?(\d{1,4}|an?) (month|year)s?", re.ASCII)
_CLOCK = pattern(r"(at )?(\d{1,2})(?::(\d{2})(?::(\d{2}))?)? ?(am|pm)?", re.ASCII)
_ISO_DATE = r"\d{4}-?(?:\d{2}-?\d{2}|W\d{2}-?\d)"
_ISO = pattern(rf"{_ISO_DATE}(?:[T ][\d:.,]+ ?(?:Z|[+-][\d:]+)?)?", re.IGNORECASE | re.ASCII)


class ClockWords(NamedTuple):
    second: int
    microsecond: int = 0
    bare: bool = False
    """Neither am or pm nor minutes were given, as in "at 9"."""
    meridiem: bool = True
    """It is certain whether the morning or the afternoon is meant."""


def plain_words(text: str) -> str:
    """Return a phrase in lower case with digits for numbers, times and dates that are written out, such as "nine",
    "half past eight" or "christmas"."""
    lower = _MERIDIEM.sub(r"\1m", text.lower()).replace("\u2019", "'")
    return _SPOKEN.sub(_digital_time, _WORDS.sub(lambda match: _IDIOMS.get(match[0]) or _NUMBER_WORDS[match[0]], lower))


def _digital_time(match: re.Match[str]) -> str:
    """Return a spoken time of day as digits. "10 to 9" is one only after "at", because it may also be a range; "quarter
    to one" is 12:45."""
    if match[5]:
        return f"{match[5]}:00"
    amount, hour, meridiem = match[1], int(match[3]), match[4]
    minutes = {"half": 30, "quarter": 15}.get(amount) or int(amount.split()[0])
    follows_at = match.string[: match.start()].endswith("at ")
    is_range = match[2] == "to" and (amount == "half" or (amount.isdigit() and not follows_at))
    if is_range or minutes > 59 or not 0 <= hour <= 23 or (meridiem and not 1 <= hour <= 12):
        return match[0]
    hour = hour % 12 + (12 if meridiem == "pm" else 0) if meridiem else hour
    total = hour * 60 + (minutes if match[2] == "past" else -minutes)
    if not meridiem and hour == 1 and total < 60:
        total += 12 * 60
    return f"{total // 60 % 24}:{total % 60:02d}"


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
    """Return the microseconds of each unit (s, m, h, d, w) in "1 day 3 hours" or "2h30m"; zeros for any other text."""
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


def clock_text(second: int) -> str:
    """Return a time of day as hours and minutes, such as 09:05."""
    return f"{second // 3600:02d}:{second // 60 % 60:02d}"


# Days: dates, weekdays, parts of a day and ends of a week.

WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DAY_NAMES: Final = tuple(name[:3].lower() for name in WEEKDAYS)
WEEKDAY_NUMBERS: Final = {
    **{name.lower(): number for number, name in enumerate(WEEKDAYS)},
    **{name: number for number, name in enumerate(DAY_NAMES)},
    "tues": 1, "wednes": 2, "thur": 3, "thurs": 3,
}  # fmt: skip
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
MONTH_NUMBERS: Final = {
    **{name.lower(): number for number, name in enumerate(MONTHS, 1)},
    **{name[:3].lower(): number for number, name in enumerate(MONTHS, 1)},
    "sept": 9,
}
NOON: Final = 12 * 3600
MORNING: Final = 9 * 3600
END_OF_DAY: Final = 17 * 3600
DAY_PARTS: Final = {
    "morning": MORNING,
    "afternoon": 15 * 3600,
    "evening": 18 * 3600,
    "night": 20 * 3600,
    "end of day": END_OF_DAY,
    "end of the day": END_OF_DAY,
}
"""The time that is meant by each part of a day, in seconds."""
_OVER: Final = {"morning": 12 * 3600, "afternoon": 18 * 3600, "evening": 24 * 3600, "night": 24 * 3600}
"""When each part of a day is over, in seconds."""

_YEAR = r"(?:,? (\d{4}))?"
_MONTH_FIRST = pattern(rf"([a-z]+)\.? (\d{{1,2}})(?:st|nd|rd|th)?{_YEAR}", re.ASCII)
_DAY_FIRST = pattern(rf"(\d{{1,2}})(?:st|nd|rd|th)?\.? (?:of )?([a-z]+)\.?{_YEAR}", re.ASCII)
_YEAR_FIRST = pattern(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})", re.ASCII)
_DOTTED = pattern(r"(\d{1,2})\.(\d{1,2})\.(?:(\d{4}))?", re.ASCII)
_SLASHED = pattern(r"(\d{1,2})([/-])(\d{1,2})\2(\d{4})", re.ASCII)
_WEEKDAY = pattern(r"(next |this |coming )?([a-z]+)( next week)?", re.ASCII)
_PART = pattern(rf"(?:(.*) )?({'|'.join(DAY_PARTS)})")


class DateWords(NamedTuple):
    """A day; `floating` says how it was derived if it was not given in full. If the time on that day has passed, the
    day `retry_days` later is meant or, with `yearly`, the same date in a later year."""

    day: date
    floating: str | None = None
    retry_days: int = 0
    yearly: bool = False
    usual: int | None = None
    """The time in seconds that is meant if none is given, as in "tomorrow morning"."""
    over: int = 0
    """When this part of today is over, in seconds. Once its usual time has passed, the next full hour is meant."""
    doubtful: bool = False
    """Some people mean another day by these words, as by "next friday"."""


def read_date(text: str, today: date) -> DateWords | None:
    near = {"today": 0, "tomorrow": 1, "day after tomorrow": 2}.get(text.removeprefix("the "))
    if near is not None:
        return DateWords(shift_day(today, near), floating=text)
    return _numeric(text, today) or _named_month(text, today) or _weekday(text, today) or _usual_time(text, today)


def read_days_ahead(text: str, today: date) -> DateWords | None:
    """Parse the day in "in two weeks at 9", which does not depend on the time that it is now."""
    months, amounts = read_months(text), read_amounts(text.removeprefix("in ")) if text[:3] == "in " else {}
    days, rest = divmod(sum(amounts.values()), _UNITS["d"] * 10**6)
    if months is None and (not days or rest or any(amounts[unit] for unit in "smh")):
        return None
    day = shift_day(today, days) if months is None else month_later(today, months)
    return None if day is None else DateWords(day, floating=text)


def shift_day(day: date, days: int) -> date:
    try:
        return day + timedelta(days=days)
    except OverflowError:
        return date.max


def month_later(day: date, months: int) -> date | None:
    """Return the same day a number of months later, or the last day of that month if it is shorter."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1])) if year <= 9999 else None


def _numeric(text: str, today: date) -> DateWords | None:
    """Parse 2026-12-24, 24.12.2026 and 12/24/2026; refuse 03/04/2026, which could be in March or in April."""
    if match := _YEAR_FIRST.fullmatch(text):
        return _day(int(match[1]), int(match[2]), int(match[3]))
    if match := _DOTTED.fullmatch(text):
        day, month = int(match[1]), int(match[2])
        return _day(int(match[3]), month, day) if match[3] else coming_date(today, month, day)
    match = _SLASHED.fullmatch(text)
    if match is None:
        return None
    first, second, year = int(match[1]), int(match[3]), int(match[4])
    readings = [reading for reading in (_day(year, first, second), _day(year, second, first)) if reading]
    if len(set(readings)) == 2:
        one, other = (reading.day for reading in readings)
        choices = " or ".join(f"{MONTHS[each.month - 1]} {each.day}" for each in (one, other))
        raise UnreadableTime(f"It could mean {choices}: write {one} or {other}.", field="at")
    return readings[0] if readings else None


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
    month = MONTH_NUMBERS.get(name)
    if month is None:
        return None
    return _day(int(year), month, day) if year else coming_date(today, month, day)


def coming_date(today: date, month: int, day: int) -> DateWords | None:
    """Return the next date with this month and day; 29 February waits for a leap year."""
    for year in range(today.year, min(today.year + 9, 10_000)):
        words = _day(year, month, day)
        if words and words.day >= today:
            return words._replace(floating="no year given", yearly=True)
    return None


def _weekday(text: str, today: date) -> DateWords | None:
    match = _WEEKDAY.fullmatch(text)
    number = WEEKDAY_NUMBERS.get(match[2]) if match else None
    if match is None or number is None:
        return None
    if match[3]:
        return DateWords(shift_day(today, 7 - today.weekday() + number), floating=text)
    ahead = (number - today.weekday()) % 7
    if match[1] == "next " and ahead == 0:
        ahead = 7
    return DateWords(shift_day(today, ahead), floating=text, retry_days=7, doubtful=match[1] == "next ")


def _usual_time(text: str, today: date) -> DateWords | None:
    """Parse a phrase that names a day and a rough time: "tonight", "friday morning", "end of day", "next week"."""
    plain = text.replace("end of the ", "end of ")
    if plain == "tonight":
        return DateWords(today, text, usual=DAY_PARTS["night"], over=_OVER["night"])
    if plain == "next week":
        return DateWords(shift_day(today, 7 - today.weekday()), text, usual=MORNING)
    if plain == "next month":
        first = month_later(today.replace(day=1), 1)
        return None if first is None else DateWords(first, text, usual=MORNING)
    if plain == "end of week":
        return DateWords(shift_day(today, (4 - today.weekday()) % 7), text, usual=END_OF_DAY)
    if plain == "end of month":
        return DateWords(today.replace(day=monthrange(today.year, today.month)[1]), text, usual=END_OF_DAY)
    match = _PART.fullmatch(text)
    if match is None:
        return None
    usual = DAY_PARTS[match[2]]
    if match[1] in (None, "this", "in the", "the"):
        if match[1] is None and "end" not in match[2]:
            return None
        retry_days, over = (1, 0) if match[1] == "in the" else (0, _OVER.get(match[2], 0))
        return DateWords(today, text, retry_days=retry_days, usual=usual, over=over)
    words = read_date(match[1], today)
    return words._replace(floating=text, usual=usual) if words and words.usual is None else None
