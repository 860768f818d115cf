"""A recurrence rule in plain English."""

from __future__ import annotations

from duetime.core.triggers.rrule import RRuleTrigger, local_text
from duetime.core.triggers.rrule_fields import HOURLY, NthDay, RuleFields

_PERIODS = ("year", "month", "week", "day", "hour", "minute", "second")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_NUMBERED = {
    "BYMONTHDAY": "on the {} day of the month",
    "BYYEARDAY": "on the {} day of the year",
    "BYWEEKNO": "in the {} week of the year",
}
_CLOCK = {"BYHOUR": "hour", "BYMINUTE": "minute", "BYSECOND": "second"}
_FEW = 4


def rule_words(trigger: RRuleTrigger) -> str:
    fields = trigger.fields
    parts = [_every(fields), *_months(fields), *_days(fields), *_times(trigger), *_positions(fields)]
    if fields.count is not None:
        parts.append(f"{fields.count} time{'s' if fields.count != 1 else ''}")
    if "UNTIL=" in trigger.rule:
        parts.append(f"until {trigger.rule.partition('UNTIL=')[2].partition(';')[0]}")
    return " ".join(parts) + f", beginning {local_text(trigger.dtstart).replace('T', ' ')}"


def _every(fields: RuleFields) -> str:
    name = _PERIODS[fields.freq]
    return f"every {name}" if fields.interval == 1 else f"every {fields.interval} {name}s"


def _months(fields: RuleFields) -> list[str]:
    months = fields.parts.get("BYMONTH")
    return [f"in {joined([_MONTHS[month - 1] for month in months])}"] if months else []


def _days(fields: RuleFields) -> list[str]:
    words = [f"on {joined([_day(day) for day in fields.days])}"] if fields.days else []
    for part, phrase in _NUMBERED.items():
        if part in fields.parts:
            words.append(phrase.format(joined([ordinal(number) for number in fields.parts[part]])))
    return words


def _day(day: NthDay) -> str:
    name = _DAYS[day.weekday]
    return f"the {ordinal(day.nth)} {name}" if day.nth else name


def _times(trigger: RRuleTrigger) -> list[str]:
    offsets = trigger.times.offsets(_FEW)
    if trigger.fields.freq < HOURLY and offsets is not None:
        return [f"at {joined([_clock(offset) for offset in offsets])}"]
    parts = trigger.fields.parts
    return [
        f"at {name}{'s' if len(parts[part]) > 1 else ''} {joined([str(number) for number in parts[part]])}"
        for part, name in _CLOCK.items()
        if part in parts
    ]


def _clock(second: int) -> str:
    text = f"{second // 3600:02d}:{second // 60 % 60:02d}"
    return f"{text}:{second % 60:02d}" if second % 60 else text


def _positions(fields: RuleFields) -> list[str]:
    places = fields.parts.get("BYSETPOS")
    if not places:
        return []
    chosen = joined([ordinal(place) for place in places])
    return [f"(only the {chosen} such time of the {_PERIODS[fields.freq]})"]


def ordinal(number: int) -> str:
    if number < 0:
        return "last" if number == -1 else f"{ordinal(-number)} to last"
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
