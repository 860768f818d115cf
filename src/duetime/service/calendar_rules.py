"""Conversion of triggers to iCalendar rules, only where every calendar program computes exactly the same instants.

Calendar programs evaluate a rule in the wall-clock time of its zone: a time in the gap when clocks go forward is moved
by the length of the gap, and a repeated time counts once. Triggers differ there, so only a trigger whose times never
coincide with a clock change gets a rule; the instants of others are listed one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Any, NamedTuple

from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND, Instant, datetime_of, instant_of
from duetime.engine.times.wall_clock import LATEST, Change, wall_clock
from duetime.engine.triggers import CronTrigger, IntervalTrigger, RRuleTrigger, Trigger, known_zone
from duetime.engine.triggers.base import WallTrigger

Parts = Mapping[str, Any]
"""Parts of a rule by their iCalendar names: FREQ, INTERVAL, BYDAY and so on."""

_HORIZON = instant_of(datetime(2038, 1, 1, tzinfo=UTC)) // SECOND
"""The last second for which a calendar describes time zones; later clock changes are unpredictable."""
_WEEKDAYS = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")
_UNITS = ((7 * DAY, "WEEKLY"), (DAY, "DAILY"), (HOUR, "HOURLY"), (MINUTE, "MINUTELY"), (SECOND, "SECONDLY"))
_ANY_DATE = datetime(2000, 1, 1, tzinfo=UTC)


class Rule(NamedTuple):
    parts: Parts
    zone: tzinfo
    """The zone of its times, including the first one."""


def rule_of(trigger: Trigger, first: Instant, now: Instant) -> Rule | None:
    """Return the rule that starts at this occurrence, or None if no rule is equivalent to the trigger."""
    if isinstance(trigger, IntervalTrigger):
        return _interval(trigger)
    if isinstance(trigger, CronTrigger):
        return _hourly(trigger, first, now) or _by_wall_clock(trigger, _cron_parts(trigger), now)
    if isinstance(trigger, RRuleTrigger):
        return _by_wall_clock(trigger, _rrule_parts(trigger), now)
    return None


def last_of(trigger: Trigger, first: Instant) -> Instant | None:
    """Return the last occurrence, or None if the trigger never ends."""
    ends = trigger.end is not None
    if isinstance(trigger, RRuleTrigger):
        fields = trigger.fields
        ends = ends or fields.count is not None or fields.until_local is not None or fields.until < LATEST
    return trigger.latest(Instant(first - 1), LATEST) if ends else None


# -- elapsed time -----------------------------------------------------------------------------------------------------


def _interval(trigger: IntervalTrigger) -> Rule | None:
    """Return a rule in UTC, where every day has 24 hours."""
    for length, name in _UNITS:
        if trigger.period % length == 0:
            return Rule({"FREQ": name, "INTERVAL": trigger.period // length}, UTC)
    return None


def _hourly(trigger: CronTrigger, first: Instant, now: Instant) -> Rule | None:
    """Return a rule in UTC for minutes of every hour of every day: clock changes of whole hours do not affect it."""
    fields = _Cron(trigger)
    clock = wall_clock(trigger.timezone)
    shift = clock.stretch(first // SECOND).offset % 3600
    whole_hours = all(change.after % 3600 == shift for change in _changes(trigger.timezone, now // DAY))
    every_hour = len(fields.hours) == 24 and fields.every_day and len(fields.months) == 12
    if not (trigger.follows and every_hour and whole_hours) or shift % 60:
        return None
    minutes = sorted((minute - shift // 60) % 60 for minute in fields.minutes)
    return Rule({"FREQ": "HOURLY", "BYMINUTE": minutes, "BYSECOND": sorted(fields.seconds)}, UTC)


# -- wall-clock time --------------------------------------------------------------------------------------------------


def _by_wall_clock(trigger: WallTrigger, parts: Parts | None, now: Instant) -> Rule | None:
    if parts is None or any(_meets(trigger, change) for change in _changes(trigger.timezone, now // DAY)):
        return None
    return Rule(parts, known_zone(trigger.timezone))


def _meets(trigger: WallTrigger, change: Change) -> bool:
    """Return whether a time of the trigger is skipped by the change, or is repeated and fires both times."""
    at, before, after = change
    if after < before and not trigger.follows:
        return False
    local = trigger.next_local(at + min(before, after))
    return local is not None and local < at + max(before, after)


@lru_cache(maxsize=256)
def _changes(zone: str, day: int) -> tuple[Change, ...]:
    """Return the clock changes from this day on, cached because feeds keep asking for the same few zones."""
    start = day * DAY // SECOND
    return tuple(wall_clock(zone).changes(start, _HORIZON)) if start < _HORIZON else ()


def _rrule_parts(trigger: RRuleTrigger) -> Parts:
    """Return the rule's own parts, without COUNT and UNTIL, which the caller sets from the remaining occurrences."""
    pairs = (part.partition("=")[::2] for part in trigger.rule.split(";"))
    return {name: value.split(",") for name, value in pairs if name not in ("COUNT", "UNTIL")}


class _Cron:
    """Fields of a cron expression as sets. The month is parsed apart, so that 30 February is valid but never fires."""

    def __init__(self, trigger: CronTrigger) -> None:
        from cronsim import CronSim

        parts = trigger.fields.text.split()
        sim = CronSim(" ".join([*parts[:-2], "*", parts[-1]]), _ANY_DATE)
        self.seconds, self.minutes, self.hours = sim.seconds, sim.minutes, sim.hours
        self.months = CronSim(f"0 0 * {parts[-2]} *", _ANY_DATE).months
        self.dates = {-1 if day == CronSim.LAST else day for day in sim.days if day != CronSim.LAST_WEEKDAY}
        self.last_weekday = CronSim.LAST_WEEKDAY in sim.days
        self.weekdays = {each % 7 for each in sim.weekdays if isinstance(each, int)}
        self.nth = {
            (weekday % 7, -1 if number == CronSim.LAST else number)
            for weekday, number in (each for each in sim.weekdays if isinstance(each, tuple))
        }
        self.any_date = set(range(1, 32)) <= self.dates
        self.any_weekday = len(self.weekdays) == 7
        self.either = not sim.day_and

    @property
    def every_day(self) -> bool:
        both = self.any_date and self.any_weekday
        return both or (self.either and (self.any_date or self.any_weekday))


def _cron_parts(trigger: CronTrigger) -> Parts | None:
    fields = _Cron(trigger)
    days = _day_parts(fields)
    if days is None:
        return None
    months = {} if len(fields.months) == 12 else {"BYMONTH": sorted(fields.months)}
    times = {"BYHOUR": sorted(fields.hours), "BYMINUTE": sorted(fields.minutes), "BYSECOND": sorted(fields.seconds)}
    if "BYSETPOS" in days and any(len(each) > 1 for each in times.values()):
        return None  # BYSETPOS would select only the last of several times on that weekday
    return {**days, **months, **times}


def _day_parts(fields: _Cron) -> Parts | None:
    if fields.every_day:
        return {"FREQ": "DAILY"}
    if fields.either:
        return None  # no single rule expresses "this date or this weekday"
    weekdays = sorted(_WEEKDAYS[each] for each in fields.weekdays)
    if fields.any_date:
        return _weekday_parts(fields, weekdays)
    if fields.nth:
        return None
    if fields.last_weekday:
        alone = not fields.dates and fields.any_weekday
        return {"FREQ": "MONTHLY", "BYDAY": ["MO", "TU", "WE", "TH", "FR"], "BYSETPOS": -1} if alone else None
    limit = {} if fields.any_weekday else {"BYDAY": weekdays}
    return {"FREQ": "MONTHLY", "BYMONTHDAY": sorted(fields.dates), **limit}


def _weekday_parts(fields: _Cron, weekdays: list[str]) -> Parts | None:
    if not fields.nth:
        return {"FREQ": "WEEKLY", "BYDAY": weekdays}
    if fields.weekdays:
        return None  # calendar programs disagree on a rule with both every Monday and the second Tuesday
    return {"FREQ": "MONTHLY", "BYDAY": [f"{number}{_WEEKDAYS[weekday]}" for weekday, number in sorted(fields.nth)]}


def local_start(first: Instant, zone: tzinfo) -> datetime:
    """Return the first occurrence as iCalendar requires it: in whole seconds, in the zone of its rule."""
    return datetime_of(first).replace(microsecond=0).astimezone(zone)
