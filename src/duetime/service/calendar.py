"""Upcoming occurrences of schedules as an iCalendar (RFC 5545) feed for calendar programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from duetime.engine.clock import DAY, HOUR, MINUTE, NEVER, SECOND, Instant, datetime_of, instant_of
from duetime.engine.encoding import clean
from duetime.engine.errors import DuetimeError
from duetime.engine.model import Schedule, ScheduleState
from duetime.engine.policy.options import policy_from_json
from duetime.engine.times.wall_clock import LATEST, ClockChange, wall_clock
from duetime.engine.triggers import (
    CronTrigger,
    DayIntervalTrigger,
    IntervalTrigger,
    OnceTrigger,
    RRuleTrigger,
    Trigger,
    known_zone,
    trigger_from_json,
)
from duetime.engine.triggers.base import WallTrigger
from duetime.engine.triggers.step_budget import spend, step_budget
from duetime.service.kind_spec import known_specs
from duetime.service.masking import masked, masking_of
from duetime.service.presenters import reads_as

if TYPE_CHECKING:
    from icalendar import Event


# Conversion of triggers to iCalendar rules, only where every calendar program computes exactly the same instants.

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
    if isinstance(trigger, DayIntervalTrigger):
        return None if trigger.period else _by_wall_clock(trigger, {"FREQ": "DAILY", "INTERVAL": trigger.days}, now)
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


def _meets(trigger: WallTrigger, change: ClockChange) -> bool:
    """Return whether a time of the trigger is skipped by the change, or is repeated and fires both times."""
    at, before, after = change
    if after < before and not trigger.follows:
        return False
    local = trigger.next_local(at + min(before, after))
    return local is not None and local < at + max(before, after)


@lru_cache(maxsize=256)
def _changes(zone: str, day: int) -> tuple[ClockChange, ...]:
    """Return the clock changes from this day on, cached because feeds keep asking for the same few zones."""
    start = day * DAY // SECOND
    return tuple(wall_clock(zone).changes(start, _HORIZON)) if start < _HORIZON else ()


def _rrule_parts(trigger: RRuleTrigger) -> Parts:
    """Return the rule's own parts, without COUNT and UNTIL, which the caller sets from the remaining occurrences."""
    pairs = (part.partition("=")[::2] for part in trigger.rule.split(";"))
    return {name: value.split(",") for name, value in pairs if name not in ("COUNT", "UNTIL")}


class _Cron:
    """The fields of a cron expression as sets. The month is parsed separately, so that 30 February is valid but never
    fires."""

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


DAYS = 30
"""How many days ahead the instants of a schedule without an RRULE are listed."""
MOST = 500
"""Maximum number of instants listed for one schedule."""
CALENDAR_STEPS = 100_000
"""Step budget for all triggers of one calendar. A schedule that would exceed it shows only its next instant."""
_EVENT = 4
"""Steps charged for writing one event."""
_LONGEST = 2000
_LAST_DAY = date(2038, 1, 1)


class CalendarOccurrences(NamedTuple):
    """Upcoming occurrences of one schedule: a rule that starts at the first instant, or only these instants."""

    instants: list[Instant]
    rule: Rule | None = None
    limit: tuple[str, Any] | None = None
    """COUNT or UNTIL, with its value."""


def calendar_of(
    schedules: Iterable[Schedule], now: Instant, *, days: int = DAYS, name: str = "Duetime", about: str | None = None
) -> bytes:
    """Render all active schedules; others have no upcoming occurrences. `about` is the calendar's description."""
    from icalendar import Calendar

    calendar = Calendar()
    calendar.add("prodid", "-//Duetime//Duetime//EN")
    calendar.add("version", "2.0")
    calendar.add("x-wr-calname", name)
    if about is not None:
        calendar.add("x-wr-caldesc", about)
    calendar.add("refresh-interval", timedelta(hours=1), parameters={"VALUE": "DURATION"})
    with step_budget(CALENDAR_STEPS):
        for schedule in schedules:
            for event in _events(schedule, now, days):
                calendar.add_component(event)
    calendar.add_missing_timezones(first_date=datetime_of(Instant(now - 366 * DAY)).date(), last_date=_LAST_DAY)
    return bytes(calendar.to_ical())


def occurrences_of(schedule: Schedule, now: Instant, days: int = DAYS) -> CalendarOccurrences:
    definition, progress = schedule
    first = progress.next
    if progress.state != ScheduleState.ACTIVE or first is None or first >= NEVER:
        return CalendarOccurrences([])
    try:
        trigger, most = trigger_from_json(definition.trigger), policy_from_json(definition.policy).max_runs
        left = None if most is None else max(0, most - progress.run_count)
        return _occurrences(trigger, first, now, days, left)
    except DuetimeError:  # it cannot be read, or takes too many steps
        return CalendarOccurrences([first])


def _occurrences(trigger: Trigger, first: Instant, now: Instant, days: int, left: int | None) -> CalendarOccurrences:
    on_its_rule = trigger.next_after(Instant(first - 1)) == first  # an edit may have moved it off the rule
    rule = rule_of(trigger, first, now) if on_its_rule and left != 0 else None
    if rule is None or isinstance(trigger, OnceTrigger):
        return CalendarOccurrences(_write_out(trigger, first, Instant(max(now, first) + days * DAY), left))
    return CalendarOccurrences([first], rule, _limit(trigger, first, left))


def _write_out(trigger: Trigger, first: Instant, until: Instant, left: int | None) -> list[Instant]:
    instants: list[Instant] = []
    following: Instant | None = first
    most = MOST if left is None else min(left, MOST)
    while following is not None and following <= until and len(instants) < most:
        instants.append(following)
        spend(_EVENT)
        following = trigger.next_after(following)
    return instants


def _limit(trigger: Trigger, first: Instant, left: int | None) -> tuple[str, Any] | None:
    last = last_of(trigger, first)
    if left is not None and (last is None or trigger.count(Instant(first - 1), last, left) > left):
        return "COUNT", left
    return None if last is None else ("UNTIL", datetime_of(last).replace(microsecond=0))


# -- events -----------------------------------------------------------------------------------------------------------


def _events(schedule: Schedule, now: Instant, days: int) -> Iterator[Event]:
    instants, rule, limit = occurrences_of(schedule, now, days)
    id = schedule.definition.public_id
    for instant in instants:
        alone = f"{id}@duetime" if rule is not None or len(instants) == 1 else f"{id}-{instant}@duetime"
        event = _event(schedule, alone, now)
        if rule is None:
            event.add("dtstart", local_start(instant, UTC))
        else:
            event.add("dtstart", local_start(instant, rule.zone))
            event.add("rrule", {**rule.parts, **({} if limit is None else {limit[0]: limit[1]})})
        yield event


def _event(schedule: Schedule, uid: str, now: Instant) -> Event:
    from icalendar import Event

    definition = schedule.definition
    event = Event()
    event.add("uid", uid)
    event.add("dtstamp", datetime_of(now).replace(microsecond=0))
    event.add("last-modified", datetime_of(definition.updated).replace(microsecond=0))
    event.add("summary", clean(masked(definition.name)))
    event.add("description", _description(schedule))
    event.add("categories", [definition.kind])
    event.add("transp", "TRANSPARENT")  # the event does not mark anyone as busy
    return event


def _description(schedule: Schedule) -> str:
    definition = schedule.definition
    masking = masking_of(definition.kind)
    payload = masking.brief(json.loads(definition.payload), masking.hide) or {}
    spec = known_specs().get(definition.kind)
    text = "" if spec is None else payload.get(spec.text) or ""
    lines = [f"{definition.kind} {definition.public_id}: {reads_as(definition.trigger)}", *str(text).splitlines()]
    return "\n".join(map(clean, lines))[:_LONGEST]
