"""Parses a time or a duration from text; every instant that it returns can be displayed."""

from __future__ import annotations

import re
from typing import Final

from duetime.engine.clock import SECOND, Instant, instant_of
from duetime.engine.errors import UnreadableTime
from duetime.engine.times.grammar import ClockWords, read_iso, read_relative
from duetime.engine.times.phrases import ReadTime, from_midnight, place, read_words
from duetime.engine.times.wall_clock import DAY_SECONDS, LATEST, WallClock, wall_clock
from duetime.engine.times.zones import known_zone

LONGEST_DURATION: Final = 36_525 * DAY_SECONDS * SECOND
"""A hundred years, in microseconds."""

_LONGEST_TEXT = 100
_DURATION = re.compile(r"(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?")


def unreadable(text: object) -> UnreadableTime:
    shown = text if isinstance(text, str) else repr(text)
    shown = shown if len(shown) <= _LONGEST_TEXT else shown[:_LONGEST_TEXT] + "..."
    return UnreadableTime(f'could not parse "{shown}" as a date/time.', field="at")


def read_time(text: object, *, zone: str, now: Instant) -> ReadTime:
    """Parse what a person or an agent wrote as a time in `zone`."""
    clock = wall_clock(known_zone(zone).key)
    if not isinstance(text, str) or len(text) > _LONGEST_TEXT:
        raise unreadable(text)
    tidy = " ".join(text.split())
    found = _relative(tidy.lower(), clock, now) or _iso(tidy, zone, clock)
    found = found or read_words(tidy, zone, clock, now)
    if found is None or not 0 <= found.instant <= LATEST:
        raise unreadable(text)
    return found


def read_duration(text: object) -> int:
    """Return the microseconds of `30m`, `2h30m`, `1d10h30m50s`: units in this order, each at most once."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if not text or match is None:
        raise UnreadableTime(_bad_duration(text), field="duration")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    total = (days * DAY_SECONDS + hours * 3600 + minutes * 60 + seconds) * SECOND
    if total > LONGEST_DURATION:
        raise UnreadableTime(_bad_duration(text) + " It is longer than a hundred years.", field="duration")
    return total


def _bad_duration(text: object) -> str:
    shown = text[:_LONGEST_TEXT] if isinstance(text, str) else repr(text)[:_LONGEST_TEXT]
    hint = "write it like 30m, 2h30m or 1d10h30m50s (units in order d h m s)."
    return f'could not parse "{shown}" as a duration; {hint}'


def _relative(text: str, clock: WallClock, now: Instant) -> ReadTime | None:
    if text == "now":
        return ReadTime(now)
    ahead = read_relative(text)
    if ahead is None:
        return None
    instant = Instant(now + ahead)
    if ahead < DAY_SECONDS * SECOND or instant > LATEST:
        return ReadTime(instant)
    changed = clock.stretch(now // SECOND).offset != clock.stretch(instant // SECOND).offset
    return ReadTime(instant, "a day counts as 24 hours; clocks change in between" if changed else None)


def _iso(text: str, zone: str, clock: WallClock) -> ReadTime | None:
    found = read_iso(text)
    if found is None:
        return None
    moment, date_only = found
    if moment.tzinfo is not None:
        return ReadTime(instant_of(moment))
    second = moment.hour * 3600 + moment.minute * 60 + moment.second
    placed = place(moment.date(), ClockWords(second, moment.microsecond), zone, clock)
    return from_midnight(placed, zone) if placed and date_only else placed
