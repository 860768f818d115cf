"""Detects whether two requests to create a schedule are the same, whichever interface they came through."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from duetime.engine.clock import DAY, SECOND
from duetime.engine.encoding import error_text
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.engine.model import FOLLOWED
from duetime.engine.new_schedule import NewSchedule
from duetime.engine.times.zones import known_zone
from duetime.engine.triggers.build import UNITS, delay_of, step_of
from duetime.engine.value_class import pattern

_REQUEST: Final = 24
"""Length of the hash of a request without its zone. The hash of the zone follows, and whether the request named one."""
_OPEN, _NAMED = "0", "1"
_EVERY_NTH_WEEK = pattern(
    r"FREQ=WEEKLY;INTERVAL=\d+;BYDAY=(\w\w);BYHOUR=(\d{1,2}(?:,\d{1,2})*);BYMINUTE=(\d{1,2});BYSECOND=0", re.ASCII
)
_DAYS = {"MO": "mon", "TU": "tue", "WE": "wed", "TH": "thu", "FR": "fri", "SA": "sat", "SU": "sun"}
_encode = json.JSONEncoder(sort_keys=True, default=repr).encode


def fingerprint(new: NewSchedule, zone: str) -> str:
    """Hash a request, with times as they were given: `in 2 hours` is the same request a minute later. Differences
    between interfaces do not matter: empty arguments, 1.0 instead of 1, an hour in seconds, `in 2 hours` as a delay,
    or an explicit zone that equals the default."""
    config = _numbers(_without_none(new.trigger_config))
    config.pop(FOLLOWED, None)  # the scheduler adds it
    named = config.pop("timezone", None) or new.timezone
    if new.trigger_type == "interval":
        config = _with_one_step(config)
    elif new.trigger_type == "once":
        config = _with_one_delay(config)
    payload = {name: value for name, value in _without_none(new.payload).items() if value not in ([], {}, ())}
    digest = _hash([new.kind, new.name, new.trigger_type, config, payload, _numbers(_without_none(new.policy))])
    return f"{digest[:_REQUEST]}{_hash(_zone(named or zone))[: 31 - _REQUEST]}{_NAMED if named else _OPEN}"


def is_same_request(stored: str, new: NewSchedule, zone: str) -> bool:
    """Return whether a stored fingerprint is of this request. This includes fingerprints from earlier versions, which
    hashed the arguments as one interface wrote them."""
    if any(
        _match(stored, fingerprint(each, zone))
        for each in (new, *_with_first_days(new), *_in_utc(new), *_with_bare_names(new))
    ):
        return True
    return any(stored == _hash_as_written(each) for each in _earlier_readings(new))


def _match(stored: str, digest: str) -> bool:
    """Return whether two fingerprints are equal; if neither request named a zone, the default may have changed in
    between."""
    same = stored[:_REQUEST] == digest[:_REQUEST]
    return same and (stored[:-1] == digest[:-1] or stored[-1:] == digest[-1] == _OPEN)


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with floats such as 1.0 as integers."""
    return {name: int(each) if isinstance(each, float) and each.is_integer() else each for name, each in values.items()}


def _with_one_step(config: dict[str, Any]) -> dict[str, Any]:
    """Return an interval with the sum of its units; units that cannot be added up are left as they are, and refused
    elsewhere."""
    try:
        step = step_of(config)
    except DuetimeError:
        return config
    return {**{name: value for name, value in config.items() if name not in UNITS}, **step._asdict()}


def _with_one_delay(config: dict[str, Any]) -> dict[str, Any]:
    """Return a one-off whose time is given from now on with that delay; what is refused elsewhere stays."""
    try:
        delay = None if "run_at" in config and "delay" in config else delay_of(config)
    except DuetimeError:
        return config
    rest = {name: value for name, value in config.items() if name not in ("run_at", "delay")}
    return config if delay is None else {**rest, "delay": delay}


def _zone(name: object) -> object:
    try:
        return known_zone(name).key
    except DuetimeError:
        return name


def _hash(value: object) -> str:
    try:
        text = _encode(value)
    except (TypeError, ValueError, RecursionError) as error:  # such as keys that are no texts, or a circular value
        problem = f"must hold JSON values only ({error_text(error)})"
        raise InvalidInput(field="payload", problem=problem) from error
    import hashlib  # only what is created needs it

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _with_first_days(new: NewSchedule) -> Iterator[NewSchedule]:
    """Yield the forms of "every second tuesday at 16:00" in earlier versions: a rule that begins on "tue at 16:00"."""
    rule = _EVERY_NTH_WEEK.fullmatch(str(new.trigger_config.get("rrule")))
    day, hours, minute = ("", "", "") if rule is None else rule.groups()
    for hour in hours.split(",") if hours else ():
        first = f"{_DAYS.get(day)} at {int(hour):02d}:{int(minute):02d}"
        yield new._replace(trigger_config={"dtstart": first, **new.trigger_config})


def _in_utc(new: NewSchedule) -> Iterator[NewSchedule]:
    """Yield what starts at once as earlier versions read a message that is sent at once: in UTC. No zone changes when
    it starts."""
    if new.timezone is None and new.trigger_type == "once" and new.trigger_config == {"run_at": "now"}:
        yield new._replace(timezone="UTC")


def _with_bare_names(new: NewSchedule) -> Iterator[NewSchedule]:
    """Yield what is named after a long text as earlier versions named it: by its first 60 characters, without a sign
    that there are more."""
    for text in new.payload.values() if new.name.endswith("…") else ():
        if isinstance(text, str):
            yield new._replace(name=" ".join(text[:1000].split())[:60])


def _earlier_readings(new: NewSchedule) -> Iterator[NewSchedule]:
    """Yield a request, and the forms in which earlier versions hashed it, which read `1d` as that many seconds."""
    yield new
    config = dict(new.trigger_config)
    days, seconds = config.pop("days", 0), config.get("seconds", 0)
    if new.trigger_type != "interval" or not isinstance(days, int) or not isinstance(seconds, int | float):
        return
    total = days * DAY // SECOND + seconds
    for each in (total, float(total)):
        yield new._replace(trigger_config=config | {"seconds": each})


def _hash_as_written(new: NewSchedule) -> str:
    parts = [new.kind, new.name, new.trigger_type, new.trigger_config, new.payload, new.policy, new.timezone]
    return _hash(parts)[:32]
