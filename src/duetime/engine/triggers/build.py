"""Builds triggers from a caller's configuration, or reports which field is wrong and what is valid; converts them to
the canonical text that is stored, and back."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, TypedDict

from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND, Instant
from duetime.engine.encoding import json_object
from duetime.engine.errors import InvalidInput, InvalidTrigger, TimePassed, UnreadableTime
from duetime.engine.model import ENDED, FOLLOWED
from duetime.engine.text_cache import text_cache
from duetime.engine.times import LONGEST_DURATION, read_exact, read_instant
from duetime.engine.times.grammar import plain_words, read_amounts, read_iso, read_relative
from duetime.engine.times.wall_clock import wall_clock
from duetime.engine.times.zones import known_zone, past_problem
from duetime.engine.triggers.base import ChangingTrigger, OnceTrigger, Trigger, instant_from, instant_text
from duetime.engine.triggers.cron import CronTrigger, Dst, malformed
from duetime.engine.triggers.interval import DayIntervalTrigger, IntervalTrigger, WindowTrigger, weekdays_of, window_of
from duetime.engine.triggers.rrule import RRuleTrigger, local_from
from duetime.engine.triggers.rrule_parser import WEEKLY, normal_rule, rule_fields
from duetime.engine.value_class import NamedTuple


class Common(TypedDict):
    timezone: str
    start: Instant | None
    end: Instant | None
    jitter: int


_COMMON: Final = frozenset({"type", "timezone", "start", "end", "jitter_us"})
_STORED_FIELDS: Final = {
    "once": {"at"},
    "interval": {"period_us", "days", "anchor", "between", "weekdays"},
    "cron": {"expression", "dst"},
    "rrule": {"rrule", "dtstart"},
    "changing": {"changes", "before", "after"},
    "event": {"event", "where", "cooldown_us", "label", "id", "outcome"},
}


_encode: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_MOST_BUILT: Final = 1000
_built: Final[dict[str, Trigger]] = {}
"""Triggers that were built here and not read back yet, so that a create need not parse the text that it has just
written."""


def trigger_to_json(trigger: Trigger) -> str:
    if isinstance(trigger, OnceTrigger) and trigger.start is None and trigger.end is None and not trigger.jitter:
        # The same text as from the encoder, at a fraction of the cost: neither part contains anything to escape.
        text = f'{{"at":"{instant_text(trigger.at)}","timezone":"{trigger.timezone}","type":"once"}}'
    else:
        text = _encode(trigger.to_dict())
    if len(_built) >= _MOST_BUILT:
        _built.clear()
    _built[text] = trigger
    return text


@text_cache(50_000, 1_000)
def trigger_from_json(text: str) -> Trigger:
    """Parse a stored trigger; cached, because every claim of a worker reads the same few texts again."""
    built = _built.pop(text, None)
    if built is not None:
        return built
    stored = json_object(text)
    if stored is None:
        raise InvalidTrigger("the stored trigger is not a JSON object.", field="trigger")
    return trigger_from_dict(stored)


def readable(stored: str) -> Trigger | None:
    """Return a stored trigger; None if it was corrupted in the database, which an edit repairs."""
    try:
        return trigger_from_json(stored)
    except InvalidInput:
        return None


def trigger_from_dict(stored: Mapping[str, object]) -> Trigger:
    kind = stored.get("type")
    keys = _STORED_FIELDS.get(kind) if isinstance(kind, str) else None
    if keys is None:
        raise unknown_type(kind)
    strange = sorted(str(key) for key in stored if key not in keys and key not in _COMMON)
    if strange:
        raise InvalidTrigger(f"{strange[0]} is not a field of a stored {kind} trigger.", field=strange[0])
    common = Common(
        timezone=known_zone(stored.get("timezone")).key,
        start=instant_from(stored["start"], "start") if "start" in stored else None,
        end=instant_from(stored["end"], "end") if "end" in stored else None,
        jitter=_whole(stored.get("jitter_us", 0), "jitter_us", least=0),
    )
    match kind:
        case "once":
            return OnceTrigger(at=instant_from(stored.get("at"), "at"), **common)
        case "interval":
            return _stored_interval(stored, common)
        case "cron":
            dst, expression = read_dst(stored.get("dst", "debian")), stored.get("expression")
            if not isinstance(expression, str):
                raise InvalidTrigger("expression must be text.", field="expression")
            return CronTrigger(expression=expression, dst=dst, **common)
        case "changing":
            return _stored_change(stored, common)
        case "event":
            return _stored_event(stored, common)
        case _:
            rule, dtstart = normal_rule(stored.get("rrule")), local_from(stored.get("dtstart"))
            return RRuleTrigger(rule=rule, dtstart=dtstart, **common)


def _stored_interval(stored: Mapping[str, object], common: Common) -> Trigger:
    if "between" in stored or "weekdays" in stored:
        return _window(stored, _whole(stored.get("period_us"), "period_us", least=1), common)
    anchor = instant_from(stored.get("anchor"), "anchor")
    if "days" not in stored:
        return IntervalTrigger(period=_whole(stored.get("period_us"), "period_us", least=1), anchor=anchor, **common)
    days, period = _whole(stored["days"], "days", least=1), _whole(stored.get("period_us", 0), "period_us", least=0)
    return DayIntervalTrigger(days=days, period=period, anchor=anchor, **common)


def _window(config: Mapping[str, object], period: int, common: Common) -> Trigger:
    """Build an interval within a daily window; without `between` the window is the whole day."""
    parts: dict[str, Any] = {}
    if config.get("between") is not None:
        parts["between"] = window_of(config["between"])
    if config.get("weekdays") is not None:
        parts["weekdays"] = weekdays_of(config["weekdays"])
    return WindowTrigger(period=period, **parts, **common)


def _stored_change(stored: Mapping[str, object], common: Common) -> Trigger:
    rules = [stored.get("before"), stored.get("after")]
    before, after = [trigger_from_dict(each) if isinstance(each, Mapping) else None for each in rules]
    if before is None or after is None or "event" in (before.type, after.type):
        raise InvalidTrigger("before and after must be stored triggers with times.", field="after")
    return ChangingTrigger(changes=instant_from(stored.get("changes"), "changes"), before=before, after=after, **common)


def _stored_event(stored: Mapping[str, object], common: Common) -> Trigger:
    from duetime.engine.triggers.event import EventTrigger, check_name, conditions_of  # few triggers need it

    event, where = check_name(stored.get("event"), listens=True), conditions_of(stored.get("where"))
    cooldown = _whole(stored.get("cooldown_us", 0), "cooldown_us", least=0)
    texts: dict[str, Any] = {name: stored.get(name, "") for name in ("id", "label", "outcome")}
    if not all(isinstance(text, str) for text in texts.values()):
        raise InvalidTrigger("id, label and outcome must be text.", field="label")
    return EventTrigger(event=event, where=where, cooldown=cooldown, **texts, **common)


def unknown_type(value: object) -> InvalidTrigger:
    return InvalidTrigger(f"Unknown trigger type: {value}", field="type")


def _whole(value: object, field: str, *, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidTrigger(f"{field} must be a whole number, at least {least}.", field=field)
    return value


def read_dst(value: object) -> Dst:
    if value == "debian":
        return "debian"
    if value == "literal":
        return "literal"
    raise InvalidTrigger('dst must be "debian" or "literal".', field="dst")


Config = Mapping[str, object]

UNITS: Final = {"seconds": SECOND, "minutes": MINUTE, "hours": HOUR, "days": DAY, "weeks": 7 * DAY}
_MAX_NUMBER: Final = sys.float_info.max


def time_of(config: Config, field: str, zone: str, now: Instant) -> Instant | None:
    """Return the instant in a field; an end that names a day without a time includes that day."""
    value = config.get(field)
    if value is None:
        return None
    exact = read_exact(value)
    if exact is not None:
        return exact
    try:
        return read_instant(value, zone, now, first=field == "start", last=field == "end")
    except UnreadableTime as unread:
        from duetime.engine.times.unread import about_part  # only needed for an error

        error = about_part(value, unread)
        is_far = isinstance(value, str) and read_iso(value.strip()) is not None
        hint = "give one from 1970 to 9999-12-29." if is_far else 'use ISO 8601 such as "2026-02-05T15:00:00".'
        raise InvalidTrigger(field=field, problem=f"{error.message.rstrip('.')}; {hint}") from None


def number(config: Config, field: str) -> float:
    value = config.get(field)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_NUMBER:
        raise InvalidTrigger(field=field, problem="must be a finite number, not negative, such as 1.")
    return value


class IntervalStep(NamedTuple):
    """The time from one occurrence to the next: whole days, which keep the wall-clock time, and an exact period."""

    days: int
    period: int


def step_of(config: Config) -> IntervalStep:
    lengths = {unit: _microseconds(number(config, unit), UNITS[unit]) for unit in UNITS if config.get(unit) is not None}
    _check_step(next(iter(lengths), "seconds"), sum(lengths.values()))
    days, fraction = divmod(lengths.get("days", 0) + lengths.get("weeks", 0), DAY)
    return IntervalStep(days, fraction + sum(length for unit, length in lengths.items() if UNITS[unit] < DAY))


def _check_step(field: str, total: int) -> None:
    wrong = ""
    if total == 0:
        wrong = "is zero"
    elif total < SECOND // 1000:
        wrong = "is shorter than 1 millisecond"
    elif total > LONGEST_DURATION:
        wrong = "is longer than 100 years"
    if wrong:
        raise InvalidTrigger(field=field, problem=f'the interval {wrong}; give one such as {{"hours": 1}}.')


def jitter(config: Config) -> int:
    amount = _microseconds(number(config, "jitter"), SECOND)
    if amount > DAY:
        raise InvalidTrigger(field="jitter", problem="must be at most 86400 seconds (a day).")
    return amount


def _microseconds(amount: float, unit: int) -> int:
    """Convert to microseconds. Whole numbers stay exact; fractions are rounded."""
    return amount * unit if isinstance(amount, int) else round(min(amount, 1e12) * unit)


_SHARED: Final = ("timezone", "start", "end", "jitter")
_OBJECT: Final = (dict, Mapping)  # first what nearly every configuration is: the abstract class takes longer to tell


def build_trigger(type: object, config: Config, *, zone: str, now: Instant, must_fire: bool = True) -> Trigger:
    """Build a trigger that fires at least once, unless `must_fire` is False; `zone` applies if the config names
    none."""
    builder = _BUILDERS.get(type) if isinstance(type, str) else None
    if builder is None:
        raise unknown_type(type)
    keys, example, build = builder
    if not isinstance(config, _OBJECT):
        raise InvalidTrigger(f"trigger_config must be an object such as {example}.", field="trigger_config")
    for key in config:
        if key not in keys and key not in _SHARED:
            allowed = (*keys, *_SHARED)
            message = f"unknown key for the trigger type {type}; use {', '.join(allowed)}, for example {example}."
            raise InvalidTrigger(field=str(key)[:60], problem=message)
    trigger = build(config, _read_shared(config, zone, now), now)
    if must_fire and (type != "once" or trigger.start is not None or trigger.end is not None):
        _check_fires(trigger, now)
    return trigger


def _read_shared(config: Config, zone: str, now: Instant) -> Common:
    timezone = config.get("timezone")
    name = known_zone(zone if timezone is None else timezone).key
    if "start" not in config and "end" not in config and "jitter" not in config:  # nearly always the case
        return {"timezone": name, "start": None, "end": None, "jitter": 0}
    start = time_of(config, "start", name, now)
    end = time_of(config, "end", name, now)
    if end is not None and end < now:
        raise TimePassed(field="end", problem=_over(end, name, now))
    if start is not None and end is not None and end < start:
        raise InvalidTrigger(field="end", problem="is before start; give a later end or leave it out.")
    return Common(timezone=name, start=start, end=end, jitter=jitter(config))


def _over(instant: Instant, zone: str, now: Instant) -> str:
    return f"{past_problem(instant, zone, now)}."


def _once(config: Config, shared: Common, now: Instant) -> Trigger:
    if config.get("delay") is not None:
        if config.get("run_at") is not None:
            raise InvalidTrigger(field="delay", problem="cannot be combined with run_at; give one of them.")
        return OnceTrigger(at=Instant(now + _delay(config["delay"])), **shared)
    at = time_of(config, "run_at", shared["timezone"], now)
    if at is None:
        raise InvalidTrigger(field="run_at", problem='is missing; give a time such as "2026-02-05T15:00:00".')
    if at < now:
        raise TimePassed(field="run_at", problem=_over(at, shared["timezone"], now))
    return OnceTrigger(at=at, **shared)


def _delay(value: object, field: str = "delay") -> int:
    """Return the microseconds of a delay: seconds, `2h30m` or `90 minutes`."""
    length = _microseconds(number({field: value}, field), SECOND) if isinstance(value, int | float) else 0
    if isinstance(value, str):
        text = " ".join(plain_words(value[:100]).split()).removeprefix("in ")
        length = sum(read_amounts(text).values()) or sum(read_amounts(f"1 {text}").values())
    if not 0 < length <= LONGEST_DURATION:
        raise InvalidTrigger(field=field, problem="must be a time from now such as 30m, 2h30m or 1 day.")
    return length


def delay_of(config: Config) -> int | None:
    """Return the microseconds from now until a one-off that gives its time so: as a delay, or as `in 3 hours`."""
    if config.get("delay") is not None:
        return _delay(config["delay"])
    text = config.get("run_at")
    words = text.split() if isinstance(text, str) else []
    return read_relative(plain_words(" ".join(words))) if len(words) > 1 else None


def _interval(config: Config, shared: Common, now: Instant) -> Trigger:
    """Build an interval that counts from now unless an anchor is given; with only a start, it first fires then."""
    days, period = step_of(config)
    if windowed := [name for name in ("between", "weekdays") if config.get(name) is not None]:
        wrong = "days" if days else "anchor" if config.get("anchor") is not None else None
        if wrong:
            problem = (
                f"cannot be combined with {windowed[0]}, which starts again each day; give hours, minutes or seconds."
            )
            raise InvalidTrigger(field=wrong, problem=problem)
        if period > DAY:
            problem = f"must be at most a day with {windowed[0]}, which starts again each day; give a cron or an rrule."
            raise InvalidTrigger(field=next(unit for unit in reversed(UNITS) if config.get(unit)), problem=problem)
        return _window(config, period, shared)
    anchor, start = time_of(config, "anchor", shared["timezone"], now), shared["start"]
    if days:
        anchor = anchor if anchor is not None else now if start is None else start
        return DayIntervalTrigger(days=days, period=period, anchor=anchor, **shared)
    if anchor is None:
        anchor = now if start is None else Instant(start - period)
    return IntervalTrigger(period=period, anchor=anchor, **shared)


def _cron(config: Config, shared: Common, now: Instant) -> Trigger:
    expression = config.get("expression")
    if expression is None:
        raise InvalidTrigger(field="expression", problem='is missing; give one such as "0 9 * * 1-5".')
    if not isinstance(expression, str):
        raise malformed(expression)
    CronTrigger(expression=expression, timezone="UTC")  # so that an error quotes the text as it was given
    return CronTrigger(expression=" ".join(expression.split()), dst=read_dst(config.get("dst", "debian")), **shared)


def _rrule(config: Config, shared: Common, now: Instant) -> Trigger:
    """Build a rule that begins at its first time, at its start, or else now. If it skips weeks and names weekdays, it
    counts the weeks from the first of these days on."""
    dtstart, rule = time_of(config, "dtstart", shared["timezone"], now), normal_rule(config.get("rrule"))
    begin = shared["start"] if dtstart is None else dtstart
    local = _local_second(now if begin is None else begin, shared["timezone"])
    if dtstart is None and skips_weeks(rule):
        local = _first_weekday(rule, local, shared, now if begin is None else Instant(begin - 1))
    elif begin is None and "COUNT=" in rule:
        local, start = _start_of_count(rule, local, shared, now)
        shared = {**shared, "start": start}
    return RRuleTrigger(rule=rule, dtstart=local, **shared)


def skips_weeks(rule: object) -> bool:
    """Return whether a rule is one such as "every second Tuesday", for which it matters in which week it begins."""
    fields = rule_fields(normal_rule(rule))
    return fields.freq == WEEKLY and fields.interval > 1 and bool(fields.days)


def counts_from_start(rule: Config) -> bool:
    """Return whether a stored rule skips weeks and names its time of day, so that another start changes only which
    weeks it skips."""
    text = str(rule.get("rrule"))
    return all(part in text for part in ("BYHOUR=", "BYMINUTE=", "BYSECOND=")) and skips_weeks(text)


def _first_weekday(rule: str, local: int, shared: Common, after: Instant) -> int:
    """Return the first time of a rule after an instant, in whichever week."""
    every_week = RRuleTrigger(rule=_without(rule, "COUNT=", "INTERVAL="), dtstart=local, **shared)
    t, offset = after // SECOND, every_week.clock.stretch(after // SECOND).offset
    passed = max(t + offset, every_week.clock.stretch(t).reached)
    return every_week.next_local(passed + 1) or local


def _without(rule: str, *parts: str) -> str:
    return ";".join(part for part in rule.split(";") if not part.startswith(parts))


def _local_second(instant: Instant, zone: str) -> int:
    t = instant // SECOND
    return t + wall_clock(zone).stretch(t).offset


def _start_of_count(rule: str, local: int, shared: Common, now: Instant) -> tuple[int, Instant | None]:
    """Return where a rule with COUNT begins if it would begin now. The current second has partly passed, so an
    occurrence in it would be counted but never run; the same holds for times that the clock showed before it was set
    back. The result is a time of the rule, even if the clock skips it on that day and the run is later. If the clock
    shows it twice and the rule begins with the second one, a start says so."""
    trigger = RRuleTrigger(rule=_without(rule, "COUNT="), dtstart=local, **shared)
    reached = wall_clock(shared["timezone"]).stretch(now // SECOND).reached
    passed = local if trigger.follows else max(local, reached)
    first = trigger.next_local(local)
    following = trigger.next_after(now) if first is not None and first <= passed else None
    if following is None:
        return local, None
    if trigger.follows:  # it leaves out times that the clock skips, so the clock does show a time of the rule
        local = _local_second(following, shared["timezone"])
        return local, None if trigger.clock.first_reach(local) == following // SECOND else following
    return trigger.next_local(passed + 1) or local, None


def _changing(config: Config, shared: Common, now: Instant) -> Trigger:
    """Build a trigger whose rule changes, from the stored form of both rules, as an export contains it."""
    return _stored_change(config, shared)


def _event(config: Config, shared: Common, now: Instant) -> Trigger:
    if str(config.get("event")).startswith("~"):
        raise InvalidTrigger(field="event", problem="names that begin with ~ are reserved; give another.")
    from duetime.engine.triggers.event import COMPARISON, OWN_TASK, conditions_of

    where: Any = config.get("where")
    for path, values in conditions_of(where):
        if isinstance(where[path], str) and any(map(COMPARISON.fullmatch, values)):
            # a list has the texts themselves, as in an export
            problem = f"{path} can only be equal to a value; {OWN_TASK}. A text that only looks so goes into a list."
            raise InvalidTrigger(field="where", problem=problem)
    return _waiting(config, {name: config[name] for name in ("event", "where") if config.get(name) is not None}, shared)


def _after(config: Config, shared: Common, now: Instant) -> Trigger:
    """Build a trigger that follows another schedule, which the scheduler has looked up."""
    from duetime.engine.triggers.event import OUTCOMES

    outcome, followed = str(config.get("outcome", "succeeds")), config.get(FOLLOWED)
    if outcome not in OUTCOMES:
        raise InvalidTrigger(field="outcome", problem=f"must be one of {', '.join(OUTCOMES)}.")
    if not isinstance(followed, tuple):
        raise InvalidTrigger(field="schedule", problem="must be the id or the name of a schedule to follow.")
    number, id, name = followed
    event = {"event": f"{ENDED}{number}", "where": {"status": OUTCOMES[outcome]}}
    return _waiting(config, {**event, "id": id, "label": name, "outcome": outcome}, shared)


def _waiting(config: Config, stored: Mapping[str, object], shared: Common) -> Trigger:
    """Build a trigger that waits for events. Nothing of the clock applies to it."""
    wrong = next((name for name in ("start", "end", "jitter") if config.get(name) is not None), None)
    if wrong is not None:
        raise InvalidTrigger(field=wrong, problem="does not apply to a schedule that waits for an event; leave it out.")
    every = config.get("at_most_every")
    return _stored_event({**stored, "cooldown_us": 0 if every is None else _delay(every, "at_most_every")}, shared)


def _check_fires(trigger: Trigger, now: Instant) -> None:
    if trigger.next_after(Instant(now - 1)) is not None:
        return
    field = {"once": "run_at", "interval": "seconds", "cron": "expression"}.get(trigger.type, "rrule")
    if trigger.start is not None or trigger.end is not None:
        field = "end" if trigger.end is not None else "start"
        message = "the trigger never fires between its start and its end; widen them."
    else:
        message = "it never fires: there is no such date, or it has passed; give one that is still to come."
    raise InvalidTrigger(field=field, problem=message)


_BUILDERS: Final[dict[str, tuple[tuple[str, ...], str, Callable[[Config, Common, Instant], Trigger]]]] = {
    "once": (("run_at", "delay"), '{"run_at": "2026-02-05T15:00:00"}', _once),
    "interval": ((*UNITS, "anchor", "between", "weekdays"), '{"hours": 1}', _interval),
    "cron": (("expression", "dst"), '{"expression": "0 9 * * 1-5"}', _cron),
    "rrule": (("rrule", "dtstart"), '{"rrule": "FREQ=MONTHLY;BYDAY=-1FR", "dtstart": "2026-02-05T09:00:00"}', _rrule),
    "changing": (
        ("changes", "before", "after"),
        '{"changes": "2026-02-05T15:00:00Z", "before": {}, "after": {}}',
        _changing,
    ),
    "after": (
        ("schedule", "outcome", "at_most_every", "name", FOLLOWED),
        '{"schedule": "backup", "outcome": "succeeds"}',
        _after,
    ),
    "event": (
        ("event", "where", "at_most_every"),
        '{"event": "github.push", "where": {"ref": "refs/heads/main"}, "at_most_every": "10m"}',
        _event,
    ),
}
