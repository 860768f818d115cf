"""Parses the text of an RFC 5545 recurrence rule into numbers, strictly: parts that have no meaning are rejected."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import Final

from duetime.engine.clock import SECOND, Instant, instant_of
from duetime.engine.errors import InvalidTrigger
from duetime.engine.times.wall_clock import DAY_SECONDS, LATEST
from duetime.engine.value_class import NamedTuple, dataclass, pattern

FREQUENCIES: Final = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY, MINUTELY, SECONDLY = range(7)
WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
MOST_COUNTED: Final = 10_000

_EXAMPLE = "for example FREQ=MONTHLY;BYDAY=-1FR"
_MAX_RULE_LENGTH = 2000
_RANGES: Final = {
    "BYMONTH": (1, 12, False),
    "BYMONTHDAY": (1, 31, True),
    "BYYEARDAY": (1, 366, True),
    "BYWEEKNO": (1, 53, True),
    "BYSETPOS": (1, 366, True),
    "BYHOUR": (0, 23, False),
    "BYMINUTE": (0, 59, False),
    "BYSECOND": (0, 59, False),
}
_SINGLE: Final = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY")
_BYDAY = pattern(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_UNTIL = pattern(r"([0-9]{8})(?:T([0-9]{6})(Z)?)?")


class NthDay(NamedTuple):
    """The nth occurrence of a weekday, from the end if negative; 0 means every one."""

    nth: int
    weekday: int


@dataclass(frozen=True)
class RuleFields:
    """A parsed rule; `parts` holds the numbers of each BY… part that was given."""

    freq: int
    interval: int
    count: int | None
    until_local: int | None
    until: Instant
    week_start: int
    days: tuple[NthDay, ...]
    parts: dict[str, tuple[int, ...]]


def refusal(reason: str) -> InvalidTrigger:
    return InvalidTrigger(field="rrule", problem=reason)


def normal_rule(text: object) -> str:
    """Return the rule in a normalized spelling, so that equal rules are equal triggers."""
    if not isinstance(text, str):
        raise refusal(f"must be text, {_EXAMPLE}.")
    rule = text.strip().upper().removeprefix("RRULE:").strip().rstrip(";")
    if not rule or len(rule) > _MAX_RULE_LENGTH:
        raise refusal(f"must be a recurrence rule of at most {_MAX_RULE_LENGTH} characters, {_EXAMPLE}.")
    if any(mark in rule for mark in "\r\n:"):
        raise refusal(f"give one rule without other properties, {_EXAMPLE}, and the first time as start or dtstart.")
    return rule


@lru_cache(maxsize=4096)
def rule_fields(rule: str) -> RuleFields:
    values = _pairs(rule)
    if values.get("FREQ") not in FREQUENCIES:
        raise refusal(f"FREQ must be one of {', '.join(FREQUENCIES)}.")
    freq = FREQUENCIES.index(values["FREQ"])
    if "BYWEEKNO" in values and freq != YEARLY:
        raise refusal("BYWEEKNO needs FREQ=YEARLY.")
    until_local, until = _until(values.get("UNTIL"))
    if "COUNT" in values and "UNTIL" in values:
        raise refusal("COUNT and UNTIL exclude each other; keep one of them.")
    return RuleFields(
        freq=freq,
        interval=_number("INTERVAL", values.get("INTERVAL", "1"), 100_000),
        count=_number("COUNT", values["COUNT"], MOST_COUNTED) if "COUNT" in values else None,
        until_local=until_local,
        until=until,
        week_start=_week_start(values.get("WKST", "MO")),
        days=tuple(sorted({_day(item, freq) for item in values["BYDAY"].split(",")})) if "BYDAY" in values else (),
        parts={name: _numbers(name, values[name]) for name in _RANGES if name in values},
    )


def _pairs(rule: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for pair in rule.split(";"):
        name, equals, value = pair.partition("=")
        if not equals or not value or (name not in _RANGES and name not in _SINGLE):
            raise refusal(f"{pair[:40]!r} is not a part of a recurrence rule; {_EXAMPLE}.")
        if name in values:
            raise refusal(f"{name} is given twice.")
        values[name] = value
    return values


def _number(name: str, value: str, most: int) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", value) or not 1 <= int(value) <= most:
        raise refusal(f"{name} must be a whole number from 1 to {most}.")
    return int(value)


def _numbers(name: str, value: str) -> tuple[int, ...]:
    least, most, negative = _RANGES[name]
    items = value.split(",")
    numbers = [int(item) for item in items if re.fullmatch(r"[+-]?[0-9]{1,3}", item)]
    fits = all(least <= (abs(number) if negative else number) <= most for number in numbers)
    if not fits or len(numbers) < len(items):
        minus = f" or -{most} to -{least}" if negative else ""
        raise refusal(f"{name} must be numbers from {least} to {most}{minus}, with commas between them.")
    return tuple(sorted(set(numbers)))


def _week_start(value: str) -> int:
    if value not in WEEKDAYS:
        raise refusal(f"WKST must be one of {', '.join(WEEKDAYS)}.")
    return WEEKDAYS.index(value)


def _day(item: str, freq: int) -> NthDay:
    match = _BYDAY.fullmatch(item)
    nth = int(match[1] or 0) if match else 0
    if match is None or (match[1] and not 1 <= abs(nth) <= 53):
        raise refusal(f"BYDAY must be days such as MO, 2TU or -1FR, not {item[:20]!r}.")
    if nth and freq > MONTHLY:
        raise refusal("BYDAY with a number needs FREQ=MONTHLY or FREQ=YEARLY.")
    return NthDay(nth, WEEKDAYS.index(match[2]))


def _until(value: str | None) -> tuple[int | None, Instant]:
    """Return a local limit in wall-clock seconds, and one in UTC; a date alone includes that day."""
    if value is None:
        return None, LATEST
    match = _UNTIL.fullmatch(value)
    try:
        instant = instant_of(datetime.fromisoformat(f"{match[1]}T{match[2] or '000000'}Z")) if match else None
    except ValueError:
        instant = None
    if match is None or instant is None:
        raise refusal("UNTIL must look like 20261231, 20261231T170000 or 20261231T160000Z.")
    if match[3]:
        return None, instant
    return instant // SECOND + (0 if match[2] else DAY_SECONDS - 1), LATEST
