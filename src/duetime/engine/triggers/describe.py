"""Descriptions of triggers in plain English, and warnings about behaviour that may surprise their author."""

from __future__ import annotations

from duetime.engine.clock import HOUR, MINUTE, SECOND, Instant, datetime_of
from duetime.engine.times import clock_local
from duetime.engine.times.grammar import MONTHS, WEEKDAYS, clock_text
from duetime.engine.times.wall_clock import DAY_SECONDS, ClockChange
from duetime.engine.times.zones import zone_of_abbreviation
from duetime.engine.triggers.base import ChangingTrigger, OnceTrigger, Trigger, WallTrigger
from duetime.engine.triggers.cron import CronTrigger
from duetime.engine.triggers.interval import EPOCH_WEEKDAY, DayIntervalTrigger, IntervalTrigger, WindowTrigger
from duetime.engine.triggers.rrule import RRuleTrigger, local_text
from duetime.engine.triggers.rrule_parser import HOURLY, NthDay
from duetime.engine.value_class import pattern

_PERIODS = ("year", "month", "week", "day", "hour", "minute", "second")
_NUMBERED = {
    "BYMONTHDAY": "on the {} day{} of the month",
    "BYYEARDAY": "on the {} day{} of the year",
    "BYWEEKNO": "in the {} week{} of the year",
}
_CLOCK = {"BYHOUR": "hour", "BYMINUTE": "minute", "BYSECOND": "second"}
_MAX_LISTED = 4
MAX_LENGTH = 300
"""Maximum length of a description, in characters."""
_LONGEST_LIST = 100


def _rule_words(trigger: RRuleTrigger) -> str:
    fields = trigger.fields
    period, parts = _PERIODS[fields.freq], fields.parts
    words = [f"every {period}" if fields.interval == 1 else f"every {fields.interval} {period}s"]
    if "BYMONTH" in parts:
        words.append(f"in {_join([MONTHS[month - 1] for month in parts['BYMONTH']])}")
    if fields.days:
        words.append(f"on {_join([_day(day) for day in fields.days])}")
    for part, phrase in _NUMBERED.items():
        if part in parts:
            numbers = _join([_ordinal(number) for number in parts[part]])
            words.append(phrase.format(numbers, "s" if len(parts[part]) > 1 else ""))
    words += _times(trigger)
    if "BYSETPOS" in parts:
        words.append(f"(only the {_join([_ordinal(each) for each in parts['BYSETPOS']])} such time of the {period})")
    if fields.count is not None:
        words.append(f"{fields.count} time{'s' if fields.count != 1 else ''}")
    if "UNTIL=" in trigger.rule:
        words.append(f"until {trigger.rule.partition('UNTIL=')[2].partition(';')[0]}")
    if trigger.start is None or _begins_later(trigger):
        words[-1] += f", beginning {local_text(trigger.dtstart).replace('T', ' ')}"
    return " ".join(words)


def _begins_later(trigger: RRuleTrigger) -> bool:
    """Return whether a rule has its first time at or after its start, so that the start says nothing more."""
    return trigger.start is not None and trigger.start <= trigger.clock.first_reach(trigger.dtstart) * SECOND


def _day(day: NthDay) -> str:
    name = WEEKDAYS[day.weekday]
    return f"the {_ordinal(day.nth)} {name}" if day.nth else name


def _times(trigger: RRuleTrigger) -> list[str]:
    offsets = trigger.times.offsets(_MAX_LISTED)
    if trigger.fields.freq < HOURLY and offsets is not None:
        return [f"at {_join([_clock(offset) for offset in offsets])}"]
    parts = trigger.fields.parts
    return [
        f"at {name}{'s' if len(parts[part]) > 1 else ''} {_join([str(number) for number in parts[part]])}"
        for part, name in _CLOCK.items()
        if part in parts
    ]


def _clock(second: int) -> str:
    return f"{clock_text(second)}:{second % 60:02d}" if second % 60 else clock_text(second)


def _ordinal(number: int) -> str:
    if number < 0:
        return "last" if number == -1 else f"{_ordinal(-number)} to last"
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _join(words: list[str]) -> str:
    """Join the words of a list; of a long list, only the first ones and the number of the others."""
    joined = ", ".join(words)
    if len(joined) > _LONGEST_LIST:
        number = joined[:_LONGEST_LIST].count(", ")
        words = [*words[:number], f"{len(words) - number} more"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3].rstrip()}..."


_ENDINGS = pattern(r"\b([0-9]+)th\b")  # cronsim writes "31th"
_NTH = ("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_STEPS = pattern(
    rf"every ({'|'.join(_NTH)}|[0-9]+th) (minute|second)(?: of every (?:hour|minute))?(?= from [0-9][0-9]:| on |$)"
)
_UNITS = ((HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second"))


def describe(trigger: Trigger) -> str:
    """Describe a trigger, such as "every day at 09:00 (Europe/Berlin)", in at most `MAX_LENGTH` characters."""
    zone = trigger.timezone
    if isinstance(trigger, ChangingTrigger) or trigger.type == "event":
        return _cut(_words(trigger), MAX_LENGTH)
    limits = f" ({zone})"
    if trigger.start is not None and not (isinstance(trigger, RRuleTrigger) and _begins_later(trigger)):
        limits += f", from {clock_local(trigger.start, zone)}"
    if trigger.end is not None:
        limits += f", until {clock_local(trigger.end, zone)}"
    if trigger.jitter:
        limits += f", up to {_duration_words(trigger.jitter)} later at random"
    text = _words(trigger) + limits
    return text if len(text) <= MAX_LENGTH else _cut(_words(trigger), MAX_LENGTH - len(limits)) + limits


def _words(trigger: Trigger) -> str:
    match trigger:
        case OnceTrigger():
            return f"once, on {clock_local(trigger.at, trigger.timezone)}"
        case IntervalTrigger():
            return _every(_duration_words(trigger.period))
        case DayIntervalTrigger():
            return _day_interval_words(trigger)
        case WindowTrigger():
            return _window_words(trigger)
        case CronTrigger():
            return _cron_words(trigger)
        case RRuleTrigger():
            return _rule_words(trigger)
        case ChangingTrigger():
            change = clock_local(trigger.changes, trigger.timezone)
            return f"{describe(trigger.before)} until {change}, then {describe(trigger.after)}"
        case _:
            return _event_words(trigger)


def _event_words(trigger: Trigger) -> str:
    from duetime.engine.triggers.event import EventTrigger  # few triggers need it

    if not isinstance(trigger, EventTrigger):
        return trigger.type
    words = "on any event" if trigger.event == "*" else f"on the event {trigger.event}"
    if trigger.outcome:
        words = f"after {trigger.label} {trigger.outcome}"
    elif trigger.where:
        parts = [f"{path} is {' or '.join(values) if values else 'present'}" for path, values in trigger.where]
        words += f" where {' and '.join(parts)}"
    return f"{words}, at most every {_duration_words(trigger.cooldown)}" if trigger.cooldown else words


def _day_interval_words(trigger: DayIntervalTrigger) -> str:
    weeks, odd_days = divmod(trigger.days, 7)
    words = _amount(trigger.days, "day") if odd_days else _amount(weeks, "week")
    if trigger.period:  # then each time of day differs from the one before
        return _every(f"{words} {_duration_words(trigger.period)}")
    day, second = divmod(trigger.local, DAY_SECONDS)
    weekday = "" if odd_days else f" on {WEEKDAYS[(day + EPOCH_WEEKDAY) % 7]}"
    return f"{_every(words)}{weekday} at {_clock(second)}"


def _window_words(trigger: WindowTrigger) -> str:
    words, (begin, end) = _every(_duration_words(trigger.period)), trigger.between
    if begin or end % DAY_SECONDS:
        words += f" between {_clock(begin)} and {_clock(end)}"
    if trigger.weekdays == tuple(range(5)):
        return f"{words} on weekdays"
    if len(trigger.weekdays) < len(WEEKDAYS):
        words += f" on {_join([WEEKDAYS[day] for day in trigger.weekdays])}"
    return words


def _every(words: str) -> str:
    is_single_unit = words.startswith("1 ") and words.count(" ") == 1
    return f"every {words.removeprefix('1 ') if is_single_unit else words}"


def _amount(number: int, unit: str) -> str:
    return f"{number} {unit}{'s' if number != 1 else ''}"


def _duration_words(period: int) -> str:
    """Describe exact time, in which a day is 24 hours."""
    parts = []
    for size, name in _UNITS:
        amount, period = divmod(period, size)
        if amount:
            parts.append(_amount(amount, name))
    if period:
        parts.append(f"{period / 1000:g} milliseconds")
    return " ".join(parts) or "0 seconds"


def _cron_words(trigger: CronTrigger) -> str:
    from cronsim.explain import explain

    try:
        words = explain(trigger.fields.text)
    except (ValueError, IndexError, AssertionError, TypeError):  # it supports less than cronsim's parser
        words = ""
    if not words or len(words) > 2 * _LONGEST_LIST:
        return "cron " + " ".join(_join(field.split(",")).replace(", ", ",") for field in trigger.fields.text.split())
    words = words[0].lower() + words[1:]
    if (steps := _STEPS.match(words)) is not None:
        nth = steps[1]
        step = _NTH.index(nth) + 2 if nth in _NTH else int(nth.removesuffix("th"))
        if 60 % step == 0:  # "every seventh minute" is not an interval, because it starts again each hour
            words = f"every {step} {steps[2]}s{words[steps.end() :]}"
    words = _ENDINGS.sub(lambda match: _ordinal(int(match[1])), words)
    if words.startswith("at ") and words.endswith(" every day"):
        words = "every day " + words.removesuffix(" every day")
    if trigger.dst == "literal":
        words += ", exactly as the wall clock shows"
    return words


def warnings_for(trigger: Trigger, now: Instant) -> list[str]:
    if trigger.next_after(Instant(now - 1)) is None:
        return ["This never fires: there is no such date, or it has passed."]
    if isinstance(trigger, ChangingTrigger):
        return warnings_for(trigger.after, max(now, trigger.changes))
    warnings: list[str] = []
    if isinstance(trigger, CronTrigger) and trigger.fields.dates_and_weekdays:
        warnings.append(
            "Both day-of-month and day-of-week are given: cron fires when either matches, not only on both."
        )
    if isinstance(trigger, WallTrigger):
        warnings += [*_short_months(trigger), *_clock_changes(trigger, now), *_fixed_zone(trigger.timezone)]
    return [*warnings, *_long_jitter(trigger, now)] if trigger.jitter else warnings


def _long_jitter(trigger: Trigger, now: Instant) -> list[str]:
    """Warn if an occurrence may be delayed beyond the next one: of two that are then due, only the later one runs."""
    first = trigger.next_after(now)
    second = None if first is None else trigger.next_after(first)
    if first is None or second is None or trigger.jitter < second - first:
        return []
    gap, jitter = _duration_words(second - first), _duration_words(trigger.jitter)
    return [
        f"It fires every {gap} but up to {jitter} later at random, so many occurrences are missed; use less jitter."
    ]


def _fixed_zone(name: str) -> list[str]:
    """Warn about a zone such as EST, which is a valid name but has no summer time."""
    zone = zone_of_abbreviation(name)
    return [f"{name} has no summer time; use {zone} if the local time there is meant."] if zone else []


def _short_months(trigger: WallTrigger) -> list[str]:
    """Warn if a rule matches only the 29th, 30th or 31st, so that it skips the months that lack it."""
    days = 0
    if isinstance(trigger, CronTrigger) and not trigger.fields.dates_and_weekdays:
        days = trigger.fields.days.least_date
    elif isinstance(trigger, RRuleTrigger):
        days = trigger.days.least_date
    if days <= 28:
        return []
    return [f"Months without a day {days} are skipped; use the last day of the month if that is meant."]


def _clock_changes(trigger: WallTrigger, now: Instant) -> list[str]:
    literal = isinstance(trigger, CronTrigger) and trigger.dst == "literal"
    by_hours = isinstance(trigger, RRuleTrigger) and trigger.fields.freq >= HOURLY
    moves = isinstance(trigger, DayIntervalTrigger) and trigger.period > 0
    if by_hours or moves or (trigger.follows and not literal):
        return []
    changes = trigger.clock.changes_within_a_year(max(now, trigger.start or now) // SECOND)
    return [warning for change in changes for warning in _at_change(trigger, change)]


def _at_change(trigger: WallTrigger, change: ClockChange) -> list[str]:
    at, before, after = change
    local = trigger.next_local(at + min(before, after))
    if local is None or local >= at + max(before, after):
        return []
    if trigger.end is not None and at * SECOND > trigger.end:
        return []
    reading = datetime_of(Instant(local * SECOND)).strftime("%Y-%m-%d %H:%M")
    when = clock_local(Instant(at * SECOND), trigger.timezone)
    if after > before:
        outcome = "it does not run then" if trigger.follows else f"it runs at {when} instead"
        return [f"{reading} does not exist in {trigger.timezone}: {outcome}."]
    outcome = "it runs both times" if trigger.follows else "it runs once, the first time"
    return [f"{reading} comes twice in {trigger.timezone}: {outcome}."]
