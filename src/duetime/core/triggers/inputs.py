"""Single fields of a trigger's configuration, checked; every refusal names its field."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from duetime.core.clock import DAY, HOUR, MINUTE, SECOND, Instant
from duetime.core.errors import InvalidTrigger, UnreadableTime
from duetime.core.times import LONGEST_DURATION, read_time
from duetime.core.wallclock import DAY_SECONDS, wall_clock

Config = Mapping[str, object]

UNITS: Final = {"seconds": SECOND, "minutes": MINUTE, "hours": HOUR, "days": DAY, "weeks": 7 * DAY}
SHORTEST: Final = SECOND // 1000
LONGEST_JITTER: Final = DAY
_DATE_ALONE = re.compile(r"\s*\d{4}-\d{2}-\d{2}\s*", re.ASCII)


def time_of(config: Config, field: str, zone: str, now: Instant) -> Instant | None:
    value = config.get(field)
    if value is None:
        return None
    try:
        return read_time(value, zone=zone, now=now).instant
    except UnreadableTime as error:
        hint = 'use ISO 8601 such as "2026-02-05T15:00:00".'
        raise InvalidTrigger(f"{field}: {error.message.rstrip('.')}; {hint}", field=field) from None


def bound(config: Config, field: str, zone: str, now: Instant) -> Instant | None:
    """Start or end; an end that is a date alone includes that day."""
    instant = time_of(config, field, zone, now)
    value = config.get(field)
    if instant is None or field != "end" or not isinstance(value, str) or not _DATE_ALONE.fullmatch(value):
        return instant
    clock = wall_clock(zone)
    t = instant // SECOND
    day = (t + clock.stretch(t).offset) // DAY_SECONDS
    return Instant(clock.first_reach((day + 1) * DAY_SECONDS) * SECOND - 1)


def local_second(config: Config, field: str, zone: str, now: Instant) -> int:
    """A wall-clock time in whole seconds; now when it is not given."""
    instant = time_of(config, field, zone, now)
    t = (now if instant is None else instant) // SECOND
    return t + wall_clock(zone).stretch(t).offset


def number(config: Config, field: str) -> float:
    value = config.get(field)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value) or value < 0:
        raise InvalidTrigger(f"{field}: must be a finite number, not negative, such as 1.", field=field)
    return value


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def period(config: Config) -> int:
    given = [unit for unit in UNITS if config.get(unit) is not None]
    total = sum(_microseconds(number(config, unit), UNITS[unit]) for unit in given)
    field = given[0] if given else "seconds"
    wrong = ""
    if total == 0:
        wrong = "is zero"
    elif total < SHORTEST:
        wrong = "is shorter than 1 millisecond"
    elif total > LONGEST_DURATION:
        wrong = "is longer than 100 years"
    if wrong:
        raise InvalidTrigger(f'{field}: the interval {wrong}; give one such as {{"hours": 1}}.', field=field)
    return total


def jitter(config: Config) -> int:
    amount = _microseconds(number(config, "jitter"), SECOND)
    if amount > LONGEST_JITTER:
        raise InvalidTrigger("jitter: must be at most 86400 seconds (a day).", field="jitter")
    return amount


def _microseconds(amount: float, unit: int) -> int:
    """Whole numbers stay exact; fractions are rounded to the microsecond."""
    return amount * unit if isinstance(amount, int) else round(min(amount, 1e12) * unit)
