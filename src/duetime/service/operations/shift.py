"""Moves the times of a schedule by a duration, whatever its trigger."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from duetime.engine.model import Schedule
from duetime.engine.times.zones import known_zone
from duetime.engine.triggers.cron import ALIASES
from duetime.service.errors import refuse
from duetime.service.presenters import View, trigger_shape
from duetime.service.when import TriggerParts

_MINUTES_A_DAY: Final = 24 * 60
_NOT_SHIFTED: Final = "its times cannot be moved by a duration ({}); edit it with new ones"
_RULE_TIME: Final = re.compile(r"\b(BYHOUR|BYMINUTE)=(\d{1,2})(?=;|$)")


def shifted_trigger(schedule: Schedule, by: timedelta) -> TriggerParts:
    """Return the trigger of a schedule with its times later by a duration, or earlier by a negative one. A start that
    is its first time moves, too; other limits stay."""
    trigger = trigger_shape(schedule.definition.trigger)
    type_ = str(trigger.pop("type"))
    match type_:
        case "once":
            changes = {"run_at": _later(trigger, "run_at", by)}
        case "interval" if "between" in trigger:
            changes = {"between": _shift_window(trigger["between"], _whole_minutes(by))}
        case "interval":
            changes = {"anchor": _later(trigger, "anchor", by)}
        case "cron":
            changes = {"expression": _shift_cron(trigger["expression"], _whole_minutes(by))}
        case "rrule":
            changes = _shift_rule(trigger, by)
        case _:
            raise refuse("not_possible", _NOT_SHIFTED.format(f"its rule is {type_}"))
    for first in ("anchor", "dtstart"):
        if first in changes and "start" in trigger:
            until_start = _at(trigger, "start") - _at(trigger, first)  # an exact interval counts from a period before
            if not until_start or until_start == timedelta(seconds=trigger.get("seconds", 0)):
                changes["start"] = _later(trigger, "start", by)
    return type_, trigger | changes


def _at(trigger: View, name: str) -> datetime:
    time, zone = datetime.fromisoformat(trigger[name]), known_zone(trigger["timezone"])
    return time.replace(tzinfo=zone) if time.tzinfo is None else time.astimezone(zone)


def _later(trigger: View, name: str, by: timedelta) -> str:
    """Return a time that is later by a duration, whose days keep the time of day."""
    days = timedelta(days=int(by / timedelta(days=1)))
    try:
        time = _at(trigger, name)
        if "seconds" in trigger:  # it counts exact time
            time = time.astimezone(UTC)
        return ((time + days).astimezone(UTC) + (by - days)).astimezone(time.tzinfo).isoformat()
    except OverflowError:
        raise refuse("not_possible", _NOT_SHIFTED.format("it would be after the year 9999")) from None


def _shift_window(between: str, minutes: int) -> str:
    begin, end = (int(time[:2]) * 60 + int(time[3:]) + minutes for time in between.split("-"))
    if not (0 <= begin < _MINUTES_A_DAY and 0 <= end <= _MINUTES_A_DAY):
        raise refuse("not_possible", _NOT_SHIFTED.format("its daily window would be on two days"))
    return f"{begin // 60:02}:{begin % 60:02}-{end // 60:02}:{end % 60:02}"


def _whole_minutes(by: timedelta) -> int:
    minutes, rest = divmod(by, timedelta(minutes=1))
    if rest:
        raise refuse("invalid", "shift: must be whole minutes for a recurring time, such as 30m", "shift")
    return minutes


def _shift_cron(expression: str, minutes: int) -> str:
    *seconds, minute, hour, day, month, weekday = ALIASES.get(expression.strip().lower(), expression).split()
    if not (minute.isdecimal() and hour.isdecimal()):
        raise refuse("not_possible", _NOT_SHIFTED.format(f"the cron expression {expression} has no single time"))
    days, time = divmod(int(hour) * 60 + int(minute) + minutes, _MINUTES_A_DAY)
    if days and (day, month, weekday) != ("*", "*", "*"):
        raise refuse("not_possible", _NOT_SHIFTED.format("it would fire on another day"))
    if minutes and time == int(hour) * 60 + int(minute):
        raise refuse("not_possible", _NOT_SHIFTED.format("it fires every day, so its times would be the same"))
    return " ".join([*seconds, str(time % 60), str(time // 60), day, month, weekday])


def _shift_rule(trigger: View, by: timedelta) -> dict[str, str]:
    """Return the new start of a recurrence rule and, if that has a time of its own, the new rule."""
    start, rule = datetime.fromisoformat(trigger["dtstart"]), str(trigger["rrule"])
    parts = dict(_RULE_TIME.findall(rule))
    if not parts:
        moved = start + by
        if moved.date() != start.date() and "BY" in rule:
            raise refuse("not_possible", _NOT_SHIFTED.format("it would fire on another day"))
        return {"dtstart": moved.isoformat()}
    if ("BYHOUR" in rule and "BYHOUR" not in parts) or ("BYMINUTE" in rule and "BYMINUTE" not in parts):
        raise refuse("not_possible", _NOT_SHIFTED.format("its rule has several times a day"))
    time = int(parts.get("BYHOUR", start.hour)) * 60 + int(parts.get("BYMINUTE", start.minute)) + _whole_minutes(by)
    if not 0 <= time < _MINUTES_A_DAY:
        raise refuse("not_possible", _NOT_SHIFTED.format("it would fire on another day"))
    new = {"BYHOUR": time // 60, "BYMINUTE": time % 60}
    return {
        "dtstart": start.replace(hour=time // 60, minute=time % 60).isoformat(),
        "rrule": _RULE_TIME.sub(lambda match: f"{match[1]}={new[match[1]]}", rule),
    }
