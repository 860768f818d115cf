"""Upcoming occurrences of schedules as an iCalendar (RFC 5545) feed for calendar programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, date, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from duetime.engine.clock import DAY, Instant, datetime_of
from duetime.engine.errors import DuetimeError
from duetime.engine.model import Schedule, ScheduleState
from duetime.engine.policy.options import policy_from_json
from duetime.engine.triggers import OnceTrigger, Trigger, trigger_from_json
from duetime.engine.triggers.step_budget import TooManySteps, spend, step_budget
from duetime.service.calendar_rules import Rule, last_of, local_start, rule_of
from duetime.service.kind_spec import known_specs
from duetime.service.masking import masking_of
from duetime.service.presenters import reads_as, shortened
from duetime.service.text import clean

if TYPE_CHECKING:
    from icalendar import Calendar, Event

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


class Occurrences(NamedTuple):
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

    made = Calendar()
    made.add("prodid", "-//Duetime//Duetime//EN")
    made.add("version", "2.0")
    made.add("x-wr-calname", name)
    if about is not None:
        made.add("x-wr-caldesc", about)
    made.add("refresh-interval", timedelta(hours=1), parameters={"VALUE": "DURATION"})
    with step_budget(CALENDAR_STEPS):
        for schedule in schedules:
            for event in _events(schedule, now, days):
                made.add_component(event)
    _describe_zones(made, now)
    return bytes(made.to_ical())


def _describe_zones(made: Calendar, now: Instant) -> None:
    made.add_missing_timezones(first_date=datetime_of(Instant(now - 366 * DAY)).date(), last_date=_LAST_DAY)


def occurrences_of(schedule: Schedule, now: Instant, days: int = DAYS) -> Occurrences:
    definition, progress = schedule
    first = progress.next
    if progress.state != ScheduleState.ACTIVE or first is None:
        return Occurrences([])
    try:
        trigger, policy = trigger_from_json(definition.trigger), policy_from_json(definition.policy)
    except DuetimeError:
        return Occurrences([first])
    left = None if policy.max_runs is None else max(0, policy.max_runs - progress.run_count)
    try:
        return _occurrences(trigger, first, now, days, left)
    except TooManySteps:
        return Occurrences([first])


def _occurrences(trigger: Trigger, first: Instant, now: Instant, days: int, left: int | None) -> Occurrences:
    on_its_rule = trigger.next_after(Instant(first - 1)) == first  # an edit may have moved it off the rule
    rule = rule_of(trigger, first, now) if on_its_rule and left != 0 else None
    if rule is None or isinstance(trigger, OnceTrigger):
        return Occurrences(_written_out(trigger, first, Instant(max(now, first) + days * DAY), left))
    return Occurrences([first], rule, _limit(trigger, first, left))


def _written_out(trigger: Trigger, first: Instant, until: Instant, left: int | None) -> list[Instant]:
    found: list[Instant] = []
    following: Instant | None = first
    most = MOST if left is None else min(left, MOST)
    while following is not None and following <= until and len(found) < most:
        found.append(following)
        spend(_EVENT)
        following = trigger.next_after(following)
    return found


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
    event.add("summary", clean(definition.name))
    event.add("description", _description(schedule))
    event.add("categories", [definition.kind])
    event.add("transp", "TRANSPARENT")  # does not mark anyone as busy
    return event


def _description(schedule: Schedule) -> str:
    definition = schedule.definition
    payload = masking_of(definition.kind).hide_brief(json.loads(definition.payload), shortened) or {}
    spec = known_specs().get(definition.kind)
    text = "" if spec is None else payload.get(spec.text) or ""
    lines = [f"{definition.kind} {definition.public_id}: {reads_as(definition.trigger)}", *str(text).splitlines()]
    return "\n".join(map(clean, lines))[:_LONGEST]
