"""Conversion of triggers to the canonical text that is stored, and back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, TypedDict

from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND, Instant
from duetime.engine.errors import InvalidTrigger, UnreadableTime
from duetime.engine.times import LONGEST_DURATION, iso_local, read_time
from duetime.engine.times.wall_clock import DAY_SECONDS, wall_clock
from duetime.engine.times.zones import known_zone
from duetime.engine.triggers.base import IntervalTrigger, OnceTrigger, Trigger, instant_from
from duetime.engine.triggers.cron import CronTrigger, Dst, malformed
from duetime.engine.triggers.rrule import RRuleTrigger, local_from
from duetime.engine.triggers.rrule_parser import normal_rule


class Common(TypedDict):
    timezone: str
    start: Instant | None
    end: Instant | None
    jitter: int


_COMMON: Final = frozenset({"type", "timezone", "start", "end", "jitter_us"})


def trigger_to_json(trigger: Trigger) -> str:
    return json.dumps(trigger.to_dict(), sort_keys=True, separators=(",", ":"))


@lru_cache(maxsize=50_000)
def trigger_from_json(text: str) -> Trigger:
    """Parse a stored trigger; cached, because every claim of a worker reads the same few texts again."""
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError):
        stored = None
    if not isinstance(stored, dict):
        raise InvalidTrigger("the stored trigger is not a JSON object.", field="trigger")
    return trigger_from_dict(stored)


def trigger_from_dict(stored: Mapping[str, object]) -> Trigger:
    kind = stored.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise unknown_type(kind)
    keys, read = reader
    strange = sorted(str(key) for key in stored if key not in keys and key not in _COMMON)
    if strange:
        raise InvalidTrigger(f"{strange[0]} is not a field of a stored {kind} trigger.", field=strange[0])
    return read(stored, _common(stored))


def unknown_type(value: object) -> InvalidTrigger:
    return InvalidTrigger(f"Unknown trigger type: {value}", field="type")


def _common(stored: Mapping[str, object]) -> Common:
    zone = known_zone(stored.get("timezone"))
    return Common(
        timezone=zone.key,
        start=_bound(stored, "start"),
        end=_bound(stored, "end"),
        jitter=_whole(stored.get("jitter_us", 0), "jitter_us", least=0),
    )


def _bound(stored: Mapping[str, object], key: str) -> Instant | None:
    return instant_from(stored[key], key) if key in stored else None


def _whole(value: object, field: str, *, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidTrigger(f"{field} must be a whole number, at least {least}.", field=field)
    return value


def _text(stored: Mapping[str, object], key: str) -> str:
    value = stored.get(key)
    if not isinstance(value, str):
        raise InvalidTrigger(f"{key} must be text.", field=key)
    return value


def _stored_once(stored: Mapping[str, object], common: Common) -> Trigger:
    return OnceTrigger(at=instant_from(stored.get("at"), "at"), **common)


def _stored_interval(stored: Mapping[str, object], common: Common) -> Trigger:
    period = _whole(stored.get("period_us"), "period_us", least=1)
    return IntervalTrigger(period=period, anchor=instant_from(stored.get("anchor"), "anchor"), **common)


def _stored_cron(stored: Mapping[str, object], common: Common) -> Trigger:
    dst = read_dst(stored.get("dst", "debian"))
    return CronTrigger(expression=_text(stored, "expression"), dst=dst, **common)


def read_dst(value: object) -> Dst:
    if value == "debian":
        return "debian"
    if value == "literal":
        return "literal"
    raise InvalidTrigger('dst must be "debian" or "literal".', field="dst")


def _stored_rrule(stored: Mapping[str, object], common: Common) -> Trigger:
    return RRuleTrigger(rule=normal_rule(stored.get("rrule")), dtstart=local_from(stored.get("dtstart")), **common)


_READERS: Final[dict[str, tuple[frozenset[str], Callable[[Mapping[str, object], Common], Trigger]]]] = {
    "once": (frozenset({"at"}), _stored_once),
    "interval": (frozenset({"period_us", "anchor"}), _stored_interval),
    "cron": (frozenset({"expression", "dst"}), _stored_cron),
    "rrule": (frozenset({"rrule", "dtstart"}), _stored_rrule),
}


# Builds a trigger from a caller's configuration, or reports which field is wrong and what would be right.

# Validation of single configuration fields; every error names its field.

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
        raise InvalidTrigger(field=field, problem=f"{error.message.rstrip('.')}; {hint}") from None


def bound(config: Config, field: str, zone: str, now: Instant) -> Instant | None:
    """Return the start or end; an end that is only a date includes that day."""
    instant = time_of(config, field, zone, now)
    value = config.get(field)
    if instant is None or field != "end" or not isinstance(value, str) or not _DATE_ALONE.fullmatch(value):
        return instant
    clock = wall_clock(zone)
    t = instant // SECOND
    day = (t + clock.stretch(t).offset) // DAY_SECONDS
    return Instant(clock.first_reach((day + 1) * DAY_SECONDS) * SECOND - 1)


def local_second(config: Config, field: str, zone: str, now: Instant) -> int:
    """Return a wall-clock time in whole seconds; now if none is given."""
    instant = time_of(config, field, zone, now)
    t = (now if instant is None else instant) // SECOND
    return t + wall_clock(zone).stretch(t).offset


def number(config: Config, field: str) -> float:
    value = config.get(field)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value) or value < 0:
        raise InvalidTrigger(field=field, problem="must be a finite number, not negative, such as 1.")
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
        raise InvalidTrigger(field=field, problem=f'the interval {wrong}; give one such as {{"hours": 1}}.')
    return total


def jitter(config: Config) -> int:
    amount = _microseconds(number(config, "jitter"), SECOND)
    if amount > LONGEST_JITTER:
        raise InvalidTrigger(field="jitter", problem="must be at most 86400 seconds (a day).")
    return amount


def _microseconds(amount: float, unit: int) -> int:
    """Convert to microseconds. Whole numbers stay exact; fractions are rounded."""
    return amount * unit if isinstance(amount, int) else round(min(amount, 1e12) * unit)


_SHARED: Final = ("timezone", "start", "end", "jitter")


def build_trigger(type: object, config: Config, *, zone: str, now: Instant) -> Trigger:
    """Build a trigger that fires at least once; `zone` applies if the config names none."""
    builder = _BUILDERS.get(type) if isinstance(type, str) else None
    if builder is None:
        raise unknown_type(type)
    keys, example, build = builder
    _check_keys(type, config, (*keys, *_SHARED), example)
    trigger = build(config, _shared(config, zone, now), now)
    _check_fires(trigger, now)
    return trigger


def _check_keys(type: object, config: object, allowed: tuple[str, ...], example: str) -> None:
    if not isinstance(config, Mapping):
        raise InvalidTrigger(f"trigger_config must be an object such as {example}.", field="trigger_config")
    for key in config:
        if key not in allowed:
            shown, known = str(key)[:60], ", ".join(allowed)
            message = f"unknown key for the trigger type {type}; use {known}, for example {example}."
            raise InvalidTrigger(field=shown, problem=message)


def _shared(config: Config, zone: str, now: Instant) -> Common:
    given = config.get("timezone")
    name = known_zone(zone if given is None else given).key
    start = bound(config, "start", name, now)
    end = bound(config, "end", name, now)
    if end is not None and end < now:
        raise InvalidTrigger(field="end", problem=_over(end, name, now))
    if start is not None and end is not None and end < start:
        raise InvalidTrigger(field="end", problem="lies before start; give an end after it or leave it out.")
    return Common(timezone=name, start=start, end=end, jitter=jitter(config))


def _over(instant: Instant, zone: str, now: Instant) -> str:
    return f"{iso_local(instant, zone)} is in the past; it is now {iso_local(now, zone)}."


def _once(config: Config, shared: Common, now: Instant) -> Trigger:
    at = time_of(config, "run_at", shared["timezone"], now)
    if at is None:
        raise InvalidTrigger(field="run_at", problem='is missing; give a time such as "2026-02-05T15:00:00".')
    if at < now:
        raise InvalidTrigger(field="run_at", problem=_over(at, shared["timezone"], now))
    return OnceTrigger(at=at, **shared)


def _interval(config: Config, shared: Common, now: Instant) -> Trigger:
    """Build a trigger that counts from now, unless an anchor is given; with only a start, it first fires then."""
    length = period(config)
    anchor = time_of(config, "anchor", shared["timezone"], now)
    if anchor is None:
        anchor = now if shared["start"] is None else Instant(shared["start"] - length)
    return IntervalTrigger(period=length, anchor=anchor, **shared)


def _cron(config: Config, shared: Common, now: Instant) -> Trigger:
    expression = config.get("expression")
    if not isinstance(expression, str):
        raise malformed("" if expression is None else expression)
    CronTrigger(expression=expression, timezone="UTC")  # so that an error shows the text as it was given
    return CronTrigger(expression=" ".join(expression.split()), dst=read_dst(config.get("dst", "debian")), **shared)


def _rrule(config: Config, shared: Common, now: Instant) -> Trigger:
    dtstart = local_second(config, "dtstart", shared["timezone"], now)
    return RRuleTrigger(rule=normal_rule(config.get("rrule")), dtstart=dtstart, **shared)


def _check_fires(trigger: Trigger, now: Instant) -> None:
    if trigger.next_after(Instant(now - 1)) is not None:
        return
    field = _main_field(trigger)
    if trigger.start is not None or trigger.end is not None:
        field = "end" if trigger.end is not None else "start"
        message = f"{field}: the trigger never fires between its start and its end; widen them."
    else:
        message = "this never fires, for no such time is still to come; give one that exists."
    raise InvalidTrigger(field=field, problem=message)


def _main_field(trigger: Trigger) -> str:
    return {"once": "run_at", "interval": "seconds", "cron": "expression"}.get(trigger.type, "rrule")


_UNITS: Final = ("seconds", "minutes", "hours", "days", "weeks")
_BUILDERS: Final[dict[str, tuple[tuple[str, ...], str, Callable[[Config, Common, Instant], Trigger]]]] = {
    "once": (("run_at",), '{"run_at": "2026-02-05T15:00:00"}', _once),
    "interval": ((*_UNITS, "anchor"), '{"hours": 1}', _interval),
    "cron": (("expression", "dst"), '{"expression": "0 9 * * 1-5"}', _cron),
    "rrule": (
        ("rrule", "dtstart"),
        '{"rrule": "FREQ=MONTHLY;BYDAY=-1FR", "dtstart": "2026-02-05T09:00:00"}',
        _rrule,
    ),
}
