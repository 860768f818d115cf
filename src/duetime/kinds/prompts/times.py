"""Reads the times of prompts: the first time of one, and the range of a list."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from duetime.engine.clock import Instant
from duetime.engine.errors import InvalidInput, UnreadableTime
from duetime.engine.times import ReadTime, format_local, read_time
from duetime.engine.times.parser import midnight_note, read_past_time
from duetime.service.when import read_phrase

TIMES = ("at", "cron", "rrule", "every", "when")
RULES = ("cron", "rrule", "every")


def first_time(args: Mapping[str, Any], zone: str, now: Instant) -> ReadTime | None:
    """Return the time in `at`, or in a `when` that is a time. The caller checks whether it has passed."""
    named = [name for name in TIMES if name in args]
    if named not in (["at"], ["cron"], ["rrule"], ["every"], ["at", "every"], ["when"]):
        was = ", ".join(named) or "none of them"
        raise InvalidInput(f"give exactly one of {', '.join(TIMES)} (every may have at as its first time), not {was}.")
    is_time = named[0] == "at" or (named == ["when"] and read_phrase(args["when"])[0] == "once")
    try:
        return read_time(args[named[0]], zone=zone, now=now) if is_time else None
    except UnreadableTime as error:
        if named[0] == "at":
            raise
        from duetime.engine.times.unread import about_part  # only needed for an error

        message = about_part(args[named[0]], error).message
        raise UnreadableTime(f'{message} Write it like "tomorrow at 9" or "every weekday at 8:30".') from None


def read_ends(args: Mapping[str, Any], zone: str, now: Instant, *, past: bool) -> tuple[dict[str, Instant], list[str]]:
    """Return the ends of the range, both inclusive, and notes. A day without a time is included whole, so no
    midnight is assumed. With `past`, the question is also about what happened, so the range may begin on the most
    recent Monday."""
    ends: dict[str, Instant] = {}
    notes: list[str] = []
    for name in ("from", "to"):
        if name in args:
            time = _read_past(args[name], zone, now, first=past and name == "from")
            ends[name] = time.last(zone) if name == "to" else time.begin
            note = (time.note or "").replace(format_local(time.instant, zone), format_local(ends[name], zone))
            notes += [f"{name}: {part}" for part in note.split("; ") if part and part != midnight_note(zone)]
    return ends, notes


def _read_past(text: str, zone: str, now: Instant, *, first: bool) -> ReadTime:
    """Parse a time that may be in the past, such as yesterday: with `first`, prefer a past time; otherwise, use one
    only if the text has no other meaning."""
    if not first:
        with suppress(UnreadableTime):
            return read_time(text, zone=zone, now=now)
    return read_past_time(text, zone=zone, now=now)
