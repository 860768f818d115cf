"""What a trigger says, in plain English."""

from __future__ import annotations

import re

from duetime.core.clock import DAY, HOUR, MINUTE, SECOND
from duetime.core.times import format_local
from duetime.core.triggers.base import Trigger
from duetime.core.triggers.cron import CronTrigger
from duetime.core.triggers.interval import IntervalTrigger
from duetime.core.triggers.once import OnceTrigger
from duetime.core.triggers.rrule import RRuleTrigger
from duetime.core.triggers.rrule_english import ordinal, rule_words

_ENDINGS = re.compile(r"\b([0-9]+)th\b")  # cronsim writes "31th"
_UNITS = ((7 * DAY, "week"), (DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second"))


def describe(trigger: Trigger) -> str:
    """Such as "every day at 09:00 (Europe/Berlin)"."""
    zone = trigger.timezone
    limits = ""
    if trigger.start is not None:
        limits += f", from {format_local(trigger.start, zone)}"
    if trigger.end is not None:
        limits += f", until {format_local(trigger.end, zone)}"
    if trigger.jitter:
        limits += f", up to {duration_words(trigger.jitter)} later at random"
    return f"{_words(trigger)} ({zone}){limits}"


def _words(trigger: Trigger) -> str:
    match trigger:
        case OnceTrigger():
            return f"once, on {format_local(trigger.at, trigger.timezone)}"
        case IntervalTrigger():
            return f"every {_every(trigger.period)}"
        case CronTrigger():
            return _cron_words(trigger)
        case RRuleTrigger():
            return rule_words(trigger)
        case _:
            return trigger.type


def duration_words(period: int) -> str:
    parts = []
    for size, name in _UNITS:
        amount, period = divmod(period, size)
        if amount:
            parts.append(f"{amount} {name}{'s' if amount != 1 else ''}")
    if period:
        parts.append(f"{period / 1000:g} milliseconds")
    return " ".join(parts) or "0 seconds"


def _every(period: int) -> str:
    words = duration_words(period)
    return words[2:] if words.startswith("1 ") and words.count(" ") == 1 else words


def _cron_words(trigger: CronTrigger) -> str:
    from cronsim.explain import explain

    try:
        words = explain(trigger.fields.text)
    except (ValueError, IndexError, AssertionError, TypeError):  # it knows less than the parser beside it
        return f"cron {trigger.fields.text}"
    words = _ENDINGS.sub(lambda match: ordinal(int(match[1])), words[0].lower() + words[1:])
    if words.startswith("at ") and words.endswith(" every day"):
        words = "every day " + words.removesuffix(" every day")
    if trigger.dst == "literal":
        words += ", exactly as the wall clock shows"
    return words
