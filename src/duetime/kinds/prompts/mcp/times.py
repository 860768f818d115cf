"""Reads when a prompt fires from the flat arguments of the prompt tools."""

from __future__ import annotations

from typing import Any, NamedTuple

from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import UnreadableTime
from duetime.engine.times import LONGEST_DURATION, ReadTime, format_local, iso_local, read_time
from duetime.engine.times.grammar import read_relative
from duetime.engine.times.phrases import midnight_note
from duetime.kinds.prompts.mcp.text import Refusal, error
from duetime.mcp.definitions import Arguments

RULES = ("at", "cron", "rrule", "every")
SOON = "in 1 second"
"""Replaces `now` where the time must still be in the future when it is checked."""
_UNITS = frozenset({"second", "minute", "hour", "day", "week"})


class When(NamedTuple):
    """A trigger in the engine's terms; `argument` is the tool's name for the field that most errors are about."""

    type: str
    config: dict[str, Any]
    argument: str
    first: ReadTime | None = None


def read(text: str, zone: str, now: Instant) -> ReadTime:
    try:
        return read_time(text, zone=zone, now=now)
    except UnreadableTime as problem:
        raise error(problem.message) from problem


def read_ahead(text: str, zone: str, now: Instant) -> ReadTime:
    found = read(text, zone, now)
    if found.instant < now:
        raise past(found, zone, now)
    return found


def past(found: ReadTime, zone: str, now: Instant) -> Refusal:
    return error(f"{format_local(found.instant, zone)} is in the past; it is now {format_local(now, zone)}.")


def trigger_in(given: Arguments, zone: str, now: Instant) -> When:
    """Return the trigger. Times stay as written: a create that is repeated under its key must be the same request. The
    caller checks whether they are past, so that such a repeated create is still answered."""
    named = [name for name in RULES if name in given]
    if named not in (["at"], ["cron"], ["rrule"], ["every"], ["at", "every"]):
        was = ", ".join(named) or "none of them"
        raise error(f"give exactly one of at, cron, rrule, every (every may have at as its first time), not {was}.")
    first = read(given["at"], zone, now) if "at" in given else None
    if "every" in given:
        start = {} if first is None else {"start": SOON if given["at"].strip().lower() == "now" else given["at"]}
        return When("interval", {**_seconds(given["every"]), **start}, "every", first)
    if "cron" in given:
        return When("cron", {"expression": given["cron"]}, "cron")
    if "rrule" in given:
        return When("rrule", {"rrule": given["rrule"]}, "rrule")
    return When("once", {"run_at": given["at"]}, "at", first)


def rule_in(given: Arguments, zone: str, now: Instant) -> When | None:
    """Return the new rule of an edit. Its first time is made absolute, because the rule may have another zone."""
    if not any(name in given for name in ("cron", "rrule", "every")):
        return None
    when = trigger_in(given, zone, now)
    if when.first is not None and when.first.instant < now:
        raise past(when.first, zone, now)
    if "start" in when.config:
        when.config["start"] = iso_local(read(when.config["start"], zone, now).instant, zone)
    return when


def _seconds(text: str) -> dict[str, int | float]:
    """Read a duration: `2h30m`, `30 minutes`, `1 day`, `day`."""
    duration = " ".join(text.lower().split()).removeprefix("every ") if len(text) <= 100 else ""
    length = read_relative(f"in 1 {duration}" if duration in _UNITS else f"in {duration}")
    if not length or length > LONGEST_DURATION:
        raise error(f'could not read "{text[:100]}" as a duration; write it like 30m, 2h30m or 1 day.')
    return {"seconds": length // SECOND if length % SECOND == 0 else length / SECOND}


class Range(NamedTuple):
    first: Instant | None
    last: Instant | None
    notes: list[str]


def range_in(given: Arguments, zone: str, now: Instant) -> Range:
    """Return the range, both ends included. A day without a time is included whole, so no midnight is assumed."""
    ends: list[Instant | None] = []
    notes: list[str] = []
    for name in ("from", "to"):
        found = read(given[name], zone, now) if name in given else None
        if found is None:
            ends.append(None)
            continue
        ends.append(found.last(zone) if name == "to" else found.instant)
        assumed = (found.note or "").split("; ")
        notes += [f"{name}: {part}" for part in assumed if part and part != midnight_note(zone)]
    return Range(ends[0], ends[1], notes)
