"""Warnings about what may surprise the author of a trigger."""

from __future__ import annotations

from duetime.engine.clock import SECOND, Instant, datetime_of
from duetime.engine.times import clock_local
from duetime.engine.times.wall_clock import DAY_SECONDS, LAST_SECOND, Change
from duetime.engine.triggers.base import Trigger, WallTrigger
from duetime.engine.triggers.cron import CronTrigger
from duetime.engine.triggers.rrule import RRuleTrigger
from duetime.engine.triggers.rrule_parser import HOURLY

_YEAR = 366 * DAY_SECONDS


def warnings_for(trigger: Trigger, now: Instant) -> list[str]:
    if trigger.next_after(Instant(now - 1)) is None:
        return ["This never fires: no such time is still to come."]
    warnings: list[str] = []
    if isinstance(trigger, CronTrigger) and trigger.fields.dates_and_weekdays:
        warnings.append(
            "Both day-of-month and day-of-week are given: cron fires when either matches, not only on both."
        )
    if isinstance(trigger, WallTrigger):
        warnings += _short_months(trigger)
        warnings += _clock_changes(trigger, now)
    return warnings


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
    if by_hours or (trigger.follows and not literal):
        return []
    t = now // SECOND
    found = []
    for change in trigger.clock.changes(t, min(t + _YEAR, LAST_SECOND)):
        found += _at_change(trigger, change)
    return found


def _at_change(trigger: WallTrigger, change: Change) -> list[str]:
    at, before, after = change
    local = trigger.next_local(at + min(before, after))
    if local is None or local >= at + max(before, after):
        return []
    shown = datetime_of(Instant(local * SECOND)).strftime("%Y-%m-%d %H:%M")
    when = clock_local(Instant(at * SECOND), trigger.timezone)
    if after > before:
        outcome = "it does not run then" if trigger.follows else f"it runs at {when} instead"
        return [f"{shown} does not exist in {trigger.timezone} (clocks go forward): {outcome}."]
    outcome = "it runs both times" if trigger.follows else "it runs once, the first time"
    return [f"{shown} comes twice in {trigger.timezone} (clocks go back): {outcome}."]
