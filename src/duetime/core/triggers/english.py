"""What a trigger says, in plain English."""

from __future__ import annotations

import re

from duetime.core.clock import DAY, HOUR, MINUTE, SECOND
from duetime.core.times import clock_local
from duetime.core.triggers.base import Trigger
from duetime.core.triggers.cron import CronTrigger
from duetime.core.triggers.interval import IntervalTrigger
from duetime.core.triggers.once import OnceTrigger
from duetime.core.triggers.rrule import RRuleTrigger
from duetime.core.triggers.rrule_english import ordinal, rule_words

_ENDINGS = re.compile(r"\b([0-9]+)th\b")  # cronsim writes "31th"
_NTH = ("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_STEPS = re.compile(
    rf"every ({'|'.join(_NTH)}|[0-9]+th) (minute|second)(?: of every (?:hour|minute))?(?= from [0-9][0-9]:| on |$)"
)
_UNITS = ((7 * DAY, "week"), (DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second"))


def describe(trigger: Trigger) -> str:
    """Such as "every day at 09:00 (Europe/Berlin)"."""
    zone = trigger.timezone
    limits = ""
    if trigger.start is not None:
        limits += f", from {clock_local(trigger.start, zone)}"
    if trigger.end is not None:
        limits += f", until {clock_local(trigger.end, zone)}"
    if trigger.jitter:
        limits += f", up to {duration_words(trigger.jitter)} later at random"
    return f"{_words(trigger)} ({zone}){limits}"


def _words(trigger: Trigger) -> str:
    match trigger:
        case OnceTrigger():
            return f"once, on {clock_local(trigger.at, trigger.timezone)}"
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
    words = words[0].lower() + words[1:]
    if (steps := _STEPS.match(words)) is not None:
        words = _evenly(steps) + words[steps.end() :]
    words = _ENDINGS.sub(lambda match: ordinal(int(match[1])), words)
    if words.startswith("at ") and words.endswith(" every day"):
        words = "every day " + words.removesuffix(" every day")
    if trigger.dst == "literal":
        words += ", exactly as the wall clock shows"
    return words


def _evenly(match: re.Match[str]) -> str:
    """`every 10 minutes` for every tenth, where an hour holds them evenly; every seventh begins anew with each hour."""
    nth = match[1]
    step = _NTH.index(nth) + 2 if nth in _NTH else int(nth.removesuffix("th"))
    return match[0] if 60 % step else f"every {step} {match[2]}s"
