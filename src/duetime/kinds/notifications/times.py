"""Parses the time of a one-off notification: a time with offset, a wall-clock time with its zone, or a delay."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any, NamedTuple

from duetime.engine.clock import DAY, HOUR, SECOND, Instant, datetime_of
from duetime.engine.errors import InvalidInput, UnreadableTime
from duetime.engine.times import read_duration, read_time
from duetime.engine.times.grammar import read_clock, read_iso
from duetime.service.services import Call
from duetime.service.vocabulary import iso_local, known_zone
from duetime.service.when import When

_WAYS = ("datetime", "time", "delay")


class RequestedTime(NamedTuple):
    """A requested time. `text` depends only on the arguments, so that a repeated request is recognized on any day."""

    argument: str
    text: str
    zone: str
    day: str = ""
    time_of_day: str = ""
    phrase: bool = False

    def notes(self, at: Instant, now: Instant) -> list[str]:
        """Return how a time in words was understood, and a wall-clock time that a clock change skips or repeats."""
        if self.phrase:
            return When("once", {"run_at": self.text}, self.zone).notes(self.zone, now)
        if not self.time_of_day:
            return []
        day = self.day or _local_date(at, self.zone).isoformat()
        return When("once", {"run_at": f"{day}T{self.time_of_day}"}, self.zone).notes(self.zone, at)


def requested_time(call: Call, arguments: Mapping[str, Any]) -> RequestedTime:
    zone = call.in_zone(arguments.get("timezone")).zone
    chosen = [way for way in _WAYS if way in arguments]
    if len(chosen) != 1:
        ways = f"{' and '.join(chosen)} were" if chosen else "none of them was"
        raise InvalidInput(
            f"Give exactly one of datetime, time (with timezone) or delay; {ways} given. For example datetime "
            f"{_example(call, zone)}, or time 15:30 with timezone Europe/Berlin, or delay 2h30m. {now_text(call, zone)}"
        )
    if "date" in arguments and chosen != ["time"]:
        example = f"time 15:30, timezone {zone}, date {_tomorrow(call, zone)}"
        raise InvalidInput(f"date: goes with time alone, for example {example}. {now_text(call, zone)}")
    return {"datetime": _by_datetime, "time": _by_time, "delay": _by_delay}[chosen[0]](call, arguments, zone)


def past(call: Call, when: RequestedTime, reason: str) -> InvalidInput:
    """Return the engine's error about the time, with the name of the argument that contained it."""
    name = "date" if when.day else when.argument
    later = f"Give a later one, such as {_example(call, when.zone)}."
    if when.argument == "time":
        later = f"Give a later time, or a later date such as {_tomorrow(call, when.zone)}."
    return InvalidInput(f"{name}: {reason.rstrip('.')}. {later}")


def _by_datetime(call: Call, arguments: Mapping[str, Any], zone: str) -> RequestedTime:
    text = " ".join(arguments["datetime"].split())
    read = read_iso(text) if len(text) <= 100 else None
    if read is None and (phrase := _phrase(call, text, zone)):
        return RequestedTime("datetime", phrase, zone, phrase=True)
    if read is None or read[1] or not _readable(call, text, zone):
        raise _unreadable(call, "datetime", text, f"give ISO 8601 with offset, such as {_example(call, zone)}", zone)
    if read[0].tzinfo is None:
        rule = f"it has no offset, so it could mean any zone's time; give one such as {_example(call, zone)}"
        raise InvalidInput(
            f'datetime: "{text}" cannot be used: {rule}, or use time with timezone. {now_text(call, zone)}'
        )
    return RequestedTime("datetime", text, zone)


def _by_time(call: Call, arguments: Mapping[str, Any], zone: str) -> RequestedTime:
    if "timezone" not in arguments:
        raise InvalidInput(
            "timezone: is required with time, for a wall-clock time means nothing without its zone; give the user's "
            f"IANA zone, for example time 15:30 with timezone Europe/Berlin. {now_text(call, zone)}"
        )
    read = read_clock(" ".join(arguments["time"].lower().split()))
    if read is None:
        raise _unreadable(call, "time", arguments["time"], "give HH:MM in 24 hours, such as 15:30", zone)
    time_of_day = f"{read.second // 3600:02d}:{read.second // 60 % 60:02d}:{read.second % 60:02d}"
    if "date" not in arguments:
        return RequestedTime("time", f"today {time_of_day}", zone, time_of_day=time_of_day)
    text = arguments["date"].strip()
    try:
        day = date.fromisoformat(text).isoformat() if len(text) == 10 else ""
    except ValueError:
        day = ""
    if not day or not _readable(call, f"{day}T{time_of_day}", zone):
        raise _unreadable(call, "date", arguments["date"], f"give YYYY-MM-DD, such as {_tomorrow(call, zone)}", zone)
    return RequestedTime("time", f"{day}T{time_of_day}", zone, day, time_of_day)


def _by_delay(call: Call, arguments: Mapping[str, Any], zone: str) -> RequestedTime:
    try:
        length = read_duration(arguments["delay"])
    except UnreadableTime as error:
        raise InvalidInput(f"delay: {error.message} {now_text(call, zone)}") from error
    if length == 0:
        raise InvalidInput(
            "delay: is zero; give one such as 30m, or use send_push_notification to send at once. "
            + now_text(call, zone)
        )
    return RequestedTime("delay", f"in {arguments['delay']}", zone)


def _phrase(call: Call, text: str, zone: str) -> str | None:
    """Return a time in words, such as "tomorrow at 9" or "2h30m", if it names a time and not only a day."""
    for words in (text, f"in {text}"):
        try:
            return None if read_time(words, zone=zone, now=call.scheduler.clock.now()).whole_day else words
        except UnreadableTime as error:
            if " It could mean " in error.message:
                raise InvalidInput(f"datetime: {error.message} {now_text(call, zone)}") from error
    return None


def _readable(call: Call, text: str, zone: str) -> bool:
    """Return whether the text is an instant that can be represented."""
    try:
        read_time(text, zone=zone, now=call.scheduler.clock.now())
    except UnreadableTime:
        return False
    return True


def _unreadable(call: Call, argument: str, text: str, rule: str, zone: str) -> InvalidInput:
    beginning = text if len(text) <= 100 else text[:100] + "..."
    return InvalidInput(f'{argument}: cannot read "{beginning}"; {rule}. {now_text(call, zone)}')


def whole_second(instant: Instant) -> Instant:
    return Instant(instant // SECOND * SECOND)


def now_text(call: Call, zone: str) -> str:
    return f"It is now {iso_local(whole_second(call.scheduler.clock.now()), zone)} in {zone}."


def _example(call: Call, zone: str) -> str:
    """Return a future time, so that the example can be used as it is."""
    return iso_local(Instant((call.scheduler.clock.now() + DAY) // HOUR * HOUR), zone)


def _tomorrow(call: Call, zone: str) -> str:
    return (_local_date(call.scheduler.clock.now(), zone) + timedelta(days=1)).isoformat()


def _local_date(instant: Instant, zone: str) -> date:
    return datetime_of(instant).astimezone(known_zone(zone)).date()
