"""When a schedule is due: once, at intervals, by cron, or by a recurrence rule, each in a time zone."""

from duetime.core.triggers.base import Trigger
from duetime.core.triggers.cautions import warnings_for
from duetime.core.triggers.codec import trigger_from_dict, trigger_from_json, trigger_to_json
from duetime.core.triggers.cron import CronTrigger
from duetime.core.triggers.english import describe
from duetime.core.triggers.interval import IntervalTrigger
from duetime.core.triggers.once import OnceTrigger
from duetime.core.triggers.parse import build_trigger
from duetime.core.triggers.rrule import RRuleTrigger
from duetime.core.zones import known_zone

__all__ = [
    "CronTrigger",
    "IntervalTrigger",
    "OnceTrigger",
    "RRuleTrigger",
    "Trigger",
    "build_trigger",
    "describe",
    "known_zone",
    "trigger_from_dict",
    "trigger_from_json",
    "trigger_to_json",
    "warnings_for",
]
