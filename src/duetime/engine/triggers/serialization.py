"""Conversion of triggers to the canonical text that is stored, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, TypedDict

from duetime.engine.clock import Instant
from duetime.engine.errors import InvalidTrigger
from duetime.engine.times.zones import known_zone
from duetime.engine.triggers.base import IntervalTrigger, OnceTrigger, Trigger, instant_from
from duetime.engine.triggers.cron import CronTrigger, Dst
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


def _once(stored: Mapping[str, object], common: Common) -> Trigger:
    return OnceTrigger(at=instant_from(stored.get("at"), "at"), **common)


def _interval(stored: Mapping[str, object], common: Common) -> Trigger:
    period = _whole(stored.get("period_us"), "period_us", least=1)
    return IntervalTrigger(period=period, anchor=instant_from(stored.get("anchor"), "anchor"), **common)


def _cron(stored: Mapping[str, object], common: Common) -> Trigger:
    dst = read_dst(stored.get("dst", "debian"))
    return CronTrigger(expression=_text(stored, "expression"), dst=dst, **common)


def read_dst(value: object) -> Dst:
    if value == "debian":
        return "debian"
    if value == "literal":
        return "literal"
    raise InvalidTrigger('dst must be "debian" or "literal".', field="dst")


def _rrule(stored: Mapping[str, object], common: Common) -> Trigger:
    return RRuleTrigger(rule=normal_rule(stored.get("rrule")), dtstart=local_from(stored.get("dtstart")), **common)


_READERS: Final[dict[str, tuple[frozenset[str], Callable[[Mapping[str, object], Common], Trigger]]]] = {
    "once": (frozenset({"at"}), _once),
    "interval": (frozenset({"period_us", "anchor"}), _interval),
    "cron": (frozenset({"expression", "dst"}), _cron),
    "rrule": (frozenset({"rrule", "dtstart"}), _rrule),
}
