"""Parses times of the past, such as "yesterday" or "2 hours ago", for questions about what happened."""

from __future__ import annotations

from datetime import datetime, time, timedelta

from duetime.engine.clock import DAY, Instant, datetime_of, instant_of
from duetime.engine.times.grammar import read_relative
from duetime.engine.times.parser import ReadTime, read_time, unreadable
from duetime.engine.times.zones import known_zone

_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def read_past_time(text: object, *, zone: str, now: Instant) -> ReadTime:
    """Parse a time as `read_time` does, and also `yesterday`, `2 hours ago`; a weekday means the latest one."""
    if not isinstance(text, str):
        raise unreadable(text)
    words = " ".join(text.split()).lower().removeprefix("last ").removeprefix("on ")
    if words.endswith(" ago") and (length := read_relative(f"in {words.removesuffix(' ago')}")) is not None:
        return ReadTime(Instant(now - length))
    if words == "yesterday" or words.startswith("yesterday "):
        return read_time(words.replace("yesterday", "tomorrow", 1), zone=zone, now=_noon(zone, now, days=-2))
    if words[:3] in _WEEKDAYS:
        return read_time(words, zone=zone, now=Instant(now - 7 * DAY))
    return read_time(text, zone=zone, now=now)


def read_instant(text: object, zone: str, now: Instant, *, last: bool = False, past: bool = False) -> Instant:
    """Return the instant that a text means. With `last`, it is the end of a range, which includes a day without a time
    whole. With `past`, the question is about what happened: see `read_past_time`."""
    read = (read_past_time if past else read_time)(text, zone=zone, now=now)
    return read.last(zone) if last else read.instant


def _noon(zone: str, now: Instant, days: int) -> Instant:
    local = known_zone(zone)
    day = datetime_of(now).astimezone(local).date() + timedelta(days=days)
    return instant_of(datetime.combine(day, time(12), local))
