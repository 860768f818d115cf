"""Triggers, which say when a schedule is due: once, at intervals, by cron or by recurrence rule, in a time zone."""

from duetime.engine.times.zones import known_zone
from duetime.engine.triggers.base import ChangingTrigger, OnceTrigger, Trigger, changes_of, changing
from duetime.engine.triggers.build import build_trigger, trigger_from_dict, trigger_from_json, trigger_to_json
from duetime.engine.triggers.cron import CronTrigger
from duetime.engine.triggers.describe import describe, warnings_for
from duetime.engine.triggers.interval import DayIntervalTrigger, IntervalTrigger, WindowTrigger
from duetime.engine.triggers.rrule import RRuleTrigger

__all__ = [
    "ChangingTrigger",
    "CronTrigger",
    "DayIntervalTrigger",
    "IntervalTrigger",
    "OnceTrigger",
    "RRuleTrigger",
    "Trigger",
    "WindowTrigger",
    "build_trigger",
    "changes_of",
    "changing",
    "describe",
    "known_zone",
    "trigger_from_dict",
    "trigger_from_json",
    "trigger_to_json",
    "warnings_for",
]
