"""Parses the options that say when a schedule is due (a time, a delay, an interval, a cron expression, a rule)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import DuetimeError, InvalidInput, UnreadableTime
from duetime.engine.policy.options import RULES
from duetime.engine.times import LONGEST_DURATION, read_duration, read_time
from duetime.engine.times.zones import known_zone
from duetime.engine.triggers.build import UNITS, unknown_type
from duetime.engine.triggers.cron import INVALID, cron_fault
from duetime.engine.value_class import NamedTuple, pattern
from duetime.service.errors import reword
from duetime.service.options import IN_SECONDS, TIME_LIMITS, Duration, option_name

WAYS = ("at", "delay", "every", "cron", "rrule", "when", "on", "after")
LIMITS = ("start", "end")
NONE = "none"
"""The text that removes a value in an edit whose arguments are texts."""
_CRON = pattern(r"@[a-z]+|[0-9*][0-9*/,-]*(?: [0-9*/,-]+){1,2}(?: [0-9A-Za-z*/,#?-]+){3}")
_TRIGGER_FIELDS = ("run_at", "expression", "rrule", "schedule", "outcome", "trigger_config", *UNITS)
TriggerParts = tuple[str, Mapping[str, Any]]
"""The type of a trigger and its configuration."""
_HAPPENS = re.compile(r"(?:on|after|once|when|whenever)\s", re.IGNORECASE)
_ANY_TIME = Instant(2_000_000_000 * SECOND)
"""A fixed current time, to check whether a text can be read at all, whatever the time is."""
_EXACT = ("Z", "+00:00")
"""Suffixes of times that can only be read in one way; most times have one."""


class When(NamedTuple):
    """A trigger in the form that the engine uses. Times stay as written, so that a repeated request has the same
    fingerprint."""

    type: str
    config: dict[str, Any]
    timezone: str | None = None
    """As given; None leaves it to the scheduler."""

    def notes(self, zone: str, now: Instant) -> list[str]:
        """Return how an ambiguous time was understood."""
        return time_notes(self.config, self.timezone or zone, now)


def time_notes(config: Mapping[str, Any], zone: str, now: Instant) -> list[str]:
    """Return how an ambiguous time was understood. An unreadable one is reported when the trigger is built."""
    try:
        text = config.get("run_at")
        if not isinstance(text, str) or text == "now" or text.endswith(_EXACT):
            return []
        note = read_time(text, zone=known_zone(config.get("timezone") or zone).key, now=now).doubt
    except DuetimeError:
        return []
    return [note] if note else []


def read_phrase(text: str) -> tuple[str, dict[str, Any]]:
    """Parse one text that says when: a time or a delay ("tomorrow at 9", "in 2 hours"), a recurring phrase ("every
    weekday at 8:30"), a cron expression or a recurrence rule. Return the type of trigger and its configuration."""
    from duetime.engine.times.recurrence import EXAMPLES, MAX_PHRASE_LENGTH  # its patterns take time to compile
    from duetime.engine.times.unread import read_recurrence

    rule = text.strip()
    if rule[:6].lower() == "rrule:":
        return "rrule", {"rrule": rule[6:]}
    if rule[:5].lower() == "freq=":
        return "rrule", {"rrule": rule}
    tidy = " ".join(text.split()) if len(text) <= MAX_PHRASE_LENGTH else ""
    try:
        if _HAPPENS.match(rule):
            from duetime.engine.times.event_phrases import read_happening

            happening = read_happening(rule)
            if happening is not None:
                return happening
        if not tidy:
            raise InvalidInput(f'when: give a time such as "tomorrow at 9", or a rule such as {EXAMPLES}', field="when")
        if _CRON.fullmatch(tidy):
            return "cron", {"expression": tidy}
        parts = read_recurrence(tidy)
    except UnreadableTime as error:
        raise InvalidInput(f"when: {error.message}", field="when") from None
    return ("once", {"run_at": tidy}) if parts is None else parts


def _read_fully(text: str) -> tuple[str, dict[str, Any]]:
    """Parse a phrase as `read_phrase` does, and also check texts that it takes for times, so that the error names
    `when` and the part that was not understood."""
    type_, config = read_phrase(text)
    for time in (config[name] for name in ("run_at", *LIMITS) if name in config):
        try:
            read_time(time, zone="UTC", now=_ANY_TIME)
        except UnreadableTime as error:
            from duetime.engine.times.recurrence import EXAMPLES
            from duetime.engine.times.unread import about_part

            problem = about_part(time, error).message.rstrip(".")
            advice = f'give a time such as "tomorrow at 9", or a rule such as {EXAMPLES}'
            advice += ', or an event: "on deploy.done where state = ok"' if _HAPPENS.match(text) else ""
            raise InvalidInput(f"when: {problem}; {advice}", field="when") from None
    return type_, config


def limits_of(times: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits among options of times in the form that the engine uses."""
    limits: dict[str, Any] = {name: times[name] for name in TIME_LIMITS if times.get(name) is not None}
    if "jitter" in limits:
        limits["jitter"] = read_seconds(limits["jitter"], "jitter")
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in limits.items()}


def with_limits(config: Mapping[str, Any], limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule with limits beside it. The time in "every 2 weeks at 9" is its start, so another one is refused."""
    for name in limits:
        if config.get(name) is not None:
            hint = 'give it once, such as "every 2 weeks at 9:00 starting december 8"'
            raise InvalidInput(f"{name}: is given twice; {hint}", field=name)
    return {**config, **limits}


def read_times(
    times: Mapping[str, Any], trigger: TriggerParts | None = None, zone: str = "UTC", now: Instant = _ANY_TIME
) -> When:
    """Return the trigger that options of times describe: exactly one of `WAYS`, with its limits. `trigger` is a trigger
    that was given as such instead, or also, if it is empty or means the same at this time in this zone."""
    if len(times) == 1 and trigger is None:
        [(way, value)] = times.items()
        if way in WAYS and value is not None:
            return when_of(way, value)
    ways = ways_in(times)
    if trigger is not None and not (len(ways) == 1 and _agrees(when_of(ways[0], times[ways[0]]), trigger, zone, now)):
        if ways:
            problem = "give it or a trigger (its type and configuration), not both, because they differ"
            raise InvalidInput(field=ways[0], problem=problem)
        if trigger[0] == "changing":
            raise unknown_type("changing")  # only an import uses this form, which edits with `starting` store
        when = When(trigger[0], dict(trigger[1]))
    elif len(ways) == 1:
        when = when_of(ways[0], times[ways[0]])
    else:
        message = f"give exactly one of {', '.join(WAYS)}, not {', '.join(ways) or 'none'}"
        raise InvalidInput(message, field="when")
    return When(when.type, with_limits(when.config, limits_of(times)), times.get("timezone"))


def _agrees(when: When, trigger: TriggerParts, zone: str, now: Instant) -> bool:
    """Return whether a trigger that was given beside an option of times is empty or reads the same."""
    if not trigger[1]:
        return True
    from duetime.engine.triggers import build_trigger, describe  # rarely needed

    zoned = {"timezone": trigger[1].get("timezone", zone)}
    rules = (when.type, {**zoned, **when.config}), (trigger[0], {**zoned, **trigger[1]})
    try:
        return len({describe(build_trigger(*rule, zone=zone, now=now)) for rule in rules}) == 1
    except DuetimeError:
        return False


def ways_in(times: Mapping[str, Any]) -> list[str]:
    """Return which of `WAYS` are given."""
    return [name for name in WAYS if times.get(name) is not None]


def about_option(error: DuetimeError, option: str | None) -> DuetimeError:
    """Return an error about a part of a trigger as one about the option of times in which it was given."""
    if option is None or error.field not in _TRIGGER_FIELDS:
        return error
    is_named = option == "when" or error.message.startswith(f"{error.field}: ")
    message = f"{option}: {error.problem}" if is_named else error.message
    return reword(error, message, field=option, problem=error.problem)


def when_of(way: str, value: Any) -> When:
    """Return the trigger of one of `WAYS`, without limits."""
    match way:
        case "at":
            return When("once", {"run_at": value.isoformat() if isinstance(value, datetime) else value}, None)
        case "delay":
            if (seconds := read_seconds(value, way)) < 0:
                raise InvalidInput(field=way, problem="must be greater than zero, such as 30s or 2h")
            exact = f"{seconds:.6f}".rstrip("0").rstrip(".")
            months = _months(value)  # which differ in length
            return When("once", {"run_at": f"in {months} months" if months else f"in {exact} seconds"}, None)
        case "every" if isinstance(value, str):
            return read_every(value)
        case "every":
            return When("interval", {"seconds": read_seconds(value, way)}, None)
        case "cron":
            return When("cron", {"expression": value}, None)
        case "when" | "on" | "after" if not isinstance(value, str):
            example = {"when": "every weekday at 8:30", "on": "github.push", "after": "backup succeeds"}[way]
            raise InvalidInput(field=way, problem=f'must be a text, such as "{example}"')
        case "on" | "after":
            return _read_happening(way, value)
        case "when":
            return When(*_read_fully(value), None)
        case _:
            return When("rrule", {"rrule": value}, None)


def _read_happening(way: str, text: str) -> When:
    """Return the trigger of `on` or `after`, which are the phrases of `when` without their first word."""
    type_, config = "", dict[str, Any]()
    with suppress(InvalidInput):
        type_, config = read_phrase(f"{way} {text}")
    if way == "after" and type_ != "after":
        return When("after", {"schedule": text, "outcome": "succeeds"}, None)
    if way == "on" and type_ != "event":
        raise InvalidInput(field=way, problem=f"{text[:60]!r} is no event; write it like github.push where ref = main")
    return When(type_, config, None)


_UNITS = frozenset({"second", "minute", "hour", "day", "week", "month", "year"})


def read_every(text: str) -> When:
    """Parse `2h30m`, `90 minutes`, `1d`, `day` or `every 2 weeks` as an interval: days and weeks keep the wall-clock
    time, shorter units are exact. Months and years become a recurrence rule."""
    tidy = " ".join(text.lower().split()).removeprefix("every ")
    tidy = f"1 {tidy}" if tidy in _UNITS else re.sub(r"an? ", "1 ", tidy, count=1) if tidy[:1] == "a" else tidy
    duration(tidy, "every")  # checks its limits
    from duetime.engine.times.recurrence import interval_of  # as above
    from duetime.engine.times.unread import read_recurrence

    config = interval_of(tidy)
    rule = None if config else read_recurrence(f"every {tidy}")
    return When("interval", config, None) if rule is None else When(*rule, None)


def read_policy(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of the policy in the engine's units; the engine checks their names and bounds. A duration, under
    either of its names, is a timedelta, a number of seconds or a text such as `2h30m`."""
    policy: dict[str, Any] = {}
    for argument, value in values.items():
        name = option_name(argument)
        is_duration = name in IN_SECONDS and value is not None
        policy[name] = int(read_seconds(value, argument, zero=not RULES[name].low) * SECOND) if is_duration else value
    return policy


def read_seconds(value: Duration, field: str, *, zero: bool = False) -> float:
    """Return a duration in seconds."""
    if isinstance(value, str):
        return duration(value, field, zero=zero) / SECOND
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if type(seconds) not in (int, float):
        raise InvalidInput(field=field, problem="must be a timedelta, seconds, or a text such as 30s")
    if not abs(seconds) <= LONGEST_DURATION // SECOND:  # nor is NaN
        raise InvalidInput(field=field, problem="must be a finite number of seconds, at most a hundred years")
    return seconds


def duration(text: str, field: str, *, zero: bool = False) -> int:
    """Parse `30s`, `2h30m`, or a text such as `90 minutes` into microseconds. With `zero`, it may be `0s`."""
    tidy = " ".join(text.split()).lower()
    try:
        length = read_duration(tidy)
    except UnreadableTime as error:
        time = None
        with suppress(UnreadableTime):
            time = read_time(f"in {tidy}", zone="UTC", now=Instant(0))
        if time is None or time.note is not None:  # "2 days at 9" names a day
            raise InvalidInput(f"{field}: {error.message}", field=field) from None
        length = time.instant
    if length < 0 or (length == 0 and not zero):
        raise InvalidInput(f"{field}: must be greater than zero, such as 30s or 2h", field=field)
    if length > LONGEST_DURATION:
        raise InvalidInput(f"{field}: must not be longer than a hundred years; write it like 30s or 2h", field=field)
    return length


def _months(value: Duration) -> int | None:
    from duetime.engine.times.grammar import read_months  # as above

    return read_months(f"in {' '.join(value.split())}".lower()) if isinstance(value, str) else None


def with_cron_fault(message: str) -> str:
    """Return an error message, extended by an explanation if it is about a cron expression."""
    return f"{message}; {cron_fault(message.removeprefix(INVALID))}" if message.startswith(INVALID) else message
