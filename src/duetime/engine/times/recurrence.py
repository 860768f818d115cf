"""The grammar of recurring phrases such as "every weekday at 8:30"; a phrase becomes the configuration of a trigger."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from duetime.engine.clock import DAY, SECOND
from duetime.engine.errors import UnreadableTime
from duetime.engine.times.grammar import (
    DAY_NAMES,
    DAY_PARTS,
    MONTH_NUMBERS,
    NOON,
    WEEKDAY_NUMBERS,
    clock_text,
    plain_words,
    read_amounts,
    read_clock,
)

EXAMPLES: Final = '"every weekday at 8:30", "last friday of the month 5pm", "every 90 minutes between 9:00 and 17:00"'
SAY_AT_WHAT_TIME: Final = 'say at what time too, such as "every weekday at 8:30".'
EXCEPTIONS: Final = (
    'only days of the week can be left out, as in "every day at 9 except sunday"; to leave out a date, pause the '
    "schedule over it."
)
MAX_PHRASE_LENGTH: Final = 200
_RULE_DAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_ALL_DAYS: Final = tuple(range(7))
_DAY_GROUPS: Final = {
    **dict.fromkeys(("weekday", "workday", "business day", "working day"), _ALL_DAYS[:5]),
    "weekend": _ALL_DAYS[5:],
    "day": _ALL_DAYS,
}
_ADVERBS: Final = {
    "hourly": "every hour", "daily": "every day", "weekly": "every week", "monthly": "every month",
    "yearly": "every year", "annually": "every year", "biweekly": "every 2 weeks", "fortnightly": "every 2 weeks",
}  # fmt: skip
_ORDINALS: Final = {
    "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": -1,
    "1st": 1, "2nd": 2, "3rd": 3, "4th": 4, "5th": 5,
}  # fmt: skip
_STEPS: Final = {"other": 2, **{name: number for name, number in _ORDINALS.items() if number > 1}}

_TIME = r"(?:\d{1,2}(?::\d{2})?(?: ?[ap]m)?|noon|midday|midnight)"
_SURE = r"(?:\d{1,2}(?::\d{2}(?: ?[ap]m)?| ?[ap]m)|noon|midday|midnight)"
_WINDOW = re.compile(rf"\b(?:between|from) ({_TIME}) (?:and|to|until|till) ({_TIME})(?![\w:])", re.ASCII)
_TIMES = re.compile(rf"\b(?:at {_TIME}|{_SURE})(?:(?:, and |, | and )(?:at )?{_TIME})*(?![\w:])", re.ASCII)
_LIMITS = re.compile(
    r"(?:^| )(until|till|starting|beginning) (.+?)"
    rf"(?=,? (?:(?:until|till|starting|beginning|every|each|except) |(?:{'|'.join(_ADVERBS)})\b)|$)"
)
_EXCEPT = re.compile(r"(?: ?,)? (?:except|but not|excluding)(?: on| for)? ")
_PART = re.compile(r"(?:^| )(morning|afternoon|evening|night)s?$")
_STEP = re.compile(rf"(?:(\d{{1,6}}|{'|'.join(_STEPS)}) )?(second|minute|hour|day|week|month|year)s?(?: (?:on )?(.*))?")
_NAMED = re.compile(rf"(?:({'|'.join(_STEPS)}) )?([a-z ,-]+)")
_OF_MONTH = re.compile(r"(?:on )?(?:the )?(.+?) of (?:the|every|each) month")
_NTH = re.compile(rf"(?:the )?({'|'.join(_ORDINALS)}) ([a-z ]+)")
_MONTH_DAYS = re.compile(r"(?:the )?\d{1,2}(?:st|nd|rd|th)?(?:(?:, and |, | and )(?:the )?\d{1,2}(?:st|nd|rd|th)?)*")
_DATE = re.compile(r"(?:([a-z]+)\.? (\d{1,2})(?:st|nd|rd|th)?|(\d{1,2})(?:st|nd|rd|th)?\.? (?:of )?([a-z]+))")


class Recurrence(NamedTuple):
    """The type of a trigger and its configuration. Times in it stay text, because they depend on the current time and
    the zone."""

    type: str
    config: dict[str, Any]


class _Times(NamedTuple):
    """The parts of a phrase besides its days: times of day in seconds, and a daily window."""

    seconds: tuple[int, ...]
    window: str | None


class NoRule(Exception):
    """A part of a recurring phrase cannot be read."""


def parse_recurrence(text: str) -> Recurrence | None:
    """Parse a recurring phrase. Return None for a phrase that does not recur, such as "friday at 9"; raise NoRule if a
    part of it cannot be read, and UnreadableTime if it says too little or no trigger can express it."""
    words = " ".join(plain_words(text).split()).strip(" .")
    window, words = _taken_window(words)
    limits = {match[1][:1]: match[2] for match in _LIMITS.finditer(words)}
    seconds, rest = _taken_times(_LIMITS.sub("", words))
    rest = _ADVERBS.get(rest.partition(" ")[0], rest.partition(" ")[0]) + "".join(rest.partition(" ")[1:])
    rest, *excluded = _EXCEPT.split(rest, maxsplit=1)
    if not _recurs(rest):
        return None
    if not seconds and (part := _PART.search(rest)):
        seconds, rest = (DAY_PARTS[part[1]],), rest[: part.start()]
    if excluded:
        rest = _leave_out(rest, excluded[0])
    recurrence = _pattern(rest, _Times(seconds, window))
    if recurrence is None and " through " in words:  # not part of a range of weekdays, so it is the end
        return parse_recurrence(" until ".join(words.rsplit(" through ", 1)))
    if recurrence is None:
        raise NoRule
    return _with_limits(recurrence, limits)


def unclear(text: str, hint: str, as_what: str = "") -> UnreadableTime:
    return UnreadableTime(f'could not read "{text[:100]}"{as_what}; {hint}', field="when")


def _leave_out(rule: str, names: str) -> str:
    """Return a phrase that names the days which "every weekday except friday" leaves."""
    every = re.sub(r"^(?:every|each|on)(?: |$)", "", rule) or "day"
    step, excluded = _STEP.fullmatch(every), _days(names)
    begin, days = "every", _days(every)
    if step and step[2] in ("minute", "hour"):
        begin, days = f"{rule.partition(' on ')[0]} on", _days(step[3] or "day")
    left = [DAY_NAMES[day] for day in days or () if day not in (excluded or ())]
    if not excluded or not left:
        raise NoRule
    return f"{begin} {', '.join(left)}"


def _recurs(rest: str) -> bool:
    plural = rest.removeprefix("on ")
    days = plural.endswith("s") and plural not in WEEKDAY_NUMBERS and _days(plural) is not None
    return rest.startswith(("every", "each ")) or _OF_MONTH.fullmatch(rest) is not None or days


def _taken_window(words: str) -> tuple[str | None, str]:
    """Return the daily window and the words without it. Of two bare hours such as 9 and 5, the second is the later
    one."""
    match = _WINDOW.search(words)
    if match is None:
        return None, words
    begin, end = (read_clock(each if not each.isdigit() else f"at {each}") for each in match.groups())
    if begin is None or end is None:
        raise unclear(match[0], 'give a window such as "between 9:00 and 17:00".')
    last = end.second
    if begin.second <= NOON and not (end.meridiem or match[2].startswith("0")) and last <= begin.second < last + NOON:
        if not end.bare:
            raise unclear(match[0], 'say am or pm, as in "between 8:30am and 4:30pm".')
        last += NOON
    window = "-".join(map(clock_text, (begin.second, last)))
    return window, _join(words[: match.start()], words[match.end() :])


def _taken_times(words: str) -> tuple[tuple[int, ...], str]:
    match = _TIMES.search(words)
    if match is None:
        return (), words.strip(" ,")
    times = [each.removeprefix("at ") for each in re.split(r", and |, | and ", match[0])]
    read = [read_clock(f"at {each}") for each in times]
    if any(each is None for each in read):
        raise unclear(match[0], 'give times such as "9:00" or "5pm".')
    return tuple(each.second for each in read if each), _join(words[: match.start()], words[match.end() :])


def _join(before: str, after: str) -> str:
    return " ".join(f"{before} {after}".split()).strip(" ,")


def _pattern(rest: str, times: _Times) -> Recurrence | None:
    if match := _OF_MONTH.fullmatch(re.sub(r"^(?:every|each) ", "", rest)):
        return _monthly(1, match[1], times)
    rest = re.sub(r"^(?:every|each|on)(?: |$)", "", rest) or "day"
    named = _NAMED.fullmatch(rest)
    days = _days(named[2]) if named else None
    if named and days and days != _ALL_DAYS:
        step = _STEPS.get(named[1] or "", 1)
        if step > 1 and days == _ALL_DAYS[:5]:
            raise unclear(rest, 'say "every monday, wednesday and friday" or "every 2 weeks on weekdays".')
        return _weekly(step, days, times)
    if match := _STEP.fullmatch(rest):
        step = _STEPS.get(match[1] or "", 0) or int(match[1] or 1)
        return _read_step(step, match[2], match[3] or "", times)
    if sum(read_amounts(rest).values()):
        return _interval(interval_of(rest), "", times)
    if match := _MONTH_DAYS.fullmatch(rest):
        return _monthly(1, rest, times)
    return _yearly(rest, times)


def interval_of(text: str) -> dict[str, Any]:
    """Return the configuration of an interval such as `2h30m`, `1d` or `2 weeks`: days keep the wall-clock time,
    shorter units are exact. It is empty for any other text."""
    amounts = read_amounts(text)
    days, fraction = divmod(amounts.pop("d") + amounts.pop("w"), DAY)
    rest = fraction + sum(amounts.values())
    exact = {"seconds": rest // SECOND if rest % SECOND == 0 else rest / SECOND} if rest else {}
    return ({"days": days} if days else {}) | exact


def _days(text: str) -> tuple[int, ...] | None:
    """Return the weekdays of "weekday", "mondays", "mon, wed and fri" or "monday to friday"."""
    days: set[int] = set()
    for part in re.split(r", and |, | and ", text.strip()):
        ends = [_day_group(each) for each in re.split(r"-| to | through ", part)]
        if len(ends) > 2 or not all(ends):
            return None
        if len(ends) == 1:
            days |= set(ends[0] or ())
            continue
        if any(len(each or ()) > 1 for each in ends):
            return None  # only for a range from one day to another
        first, last = ((each or (0,))[0] for each in ends)
        days |= {day % 7 for day in range(first, last + 1 if last >= first else last + 8)}
    return tuple(sorted(days))


def _day_group(name: str) -> tuple[int, ...] | None:
    single = name.strip()
    for each in (single, single.removesuffix("s")):
        if each in _DAY_GROUPS:
            return _DAY_GROUPS[each]
        if each in WEEKDAY_NUMBERS:
            return (WEEKDAY_NUMBERS[each],)
    return None


def _read_step(step: int, unit: str, tail: str, times: _Times) -> Recurrence | None:
    if unit in ("second", "minute", "hour"):
        return None if times.seconds else _interval({f"{unit}s": step}, tail, times)
    if unit == "month":
        return _monthly(step, tail, times)
    if unit == "year":
        return _yearly(tail, times, step) if tail else _rule("YEARLY", step, "", times)
    days = _days(tail) if tail else None
    if (tail and not days) or times.window:
        return None
    if days and (unit == "week" or step == 1):
        return _weekly(step, days, times)
    if days:
        return None
    if step == 1 and unit == "day" and times.seconds:
        return _weekly(1, _ALL_DAYS, times)
    return _interval({f"{unit}s": step}, "", times)


def _interval(config: dict[str, Any], tail: str, times: _Times) -> Recurrence | None:
    days = _days(tail) if tail else _ALL_DAYS
    if days is None or len(times.seconds) > 1:
        return None
    if times.window is not None:
        config["between"] = times.window
    if days != _ALL_DAYS:
        config["weekdays"] = ",".join(DAY_NAMES[day] for day in days)
    if times.seconds:
        config["start"] = f"at {clock_text(times.seconds[0])}"
    return Recurrence("interval", config)


def _weekly(step: int, days: tuple[int, ...], times: _Times) -> Recurrence | None:
    if times.window is not None:
        return None
    if step == 1:
        numbers = sorted((day + 1) % 7 for day in days)
        listed = "*" if len(days) == 7 else "1-5" if days == _ALL_DAYS[:5] else ",".join(map(str, numbers))
        return _cron(times, f"* * {listed}")
    by_day = ",".join(_RULE_DAYS[day] for day in days)
    return _rule("WEEKLY", step, f";BYDAY={by_day}", times)


def _monthly(step: int, tail: str, times: _Times) -> Recurrence | None:
    if not tail:
        return _rule("MONTHLY", step, "", times)
    tail = tail.removeprefix("on ")
    if _MONTH_DAYS.fullmatch(tail):
        numbers = sorted({int(each) for each in re.findall(r"\d+", tail)})
        if numbers[0] < 1 or numbers[-1] > 31:
            return None
        listed = ",".join(map(str, numbers))
        return _cron(times, f"{listed} * *") if step == 1 else _rule("MONTHLY", step, f";BYMONTHDAY={listed}", times)
    match = _NTH.fullmatch(tail)
    days = _days(match[2]) if match else None
    if match is None or days is None:
        return None
    nth = _ORDINALS[match[1]]
    if days == _ALL_DAYS:
        return _rule("MONTHLY", step, f";BYMONTHDAY={nth}", times)
    if len(days) == 1:
        return _rule("MONTHLY", step, f";BYDAY={nth}{_RULE_DAYS[days[0]]}", times)
    by_day = ",".join(_RULE_DAYS[day] for day in days)
    return _rule("MONTHLY", step, f";BYDAY={by_day};BYSETPOS={nth}", times) if len(times.seconds) == 1 else None


def _yearly(tail: str, times: _Times, step: int = 1) -> Recurrence | None:
    match = _DATE.fullmatch(tail.removeprefix("on ").removeprefix("the "))
    month = MONTH_NUMBERS.get(match[1] or match[4]) if match else None
    if match is None or month is None:
        return None
    day = match[2] or match[3]
    if step > 1:
        return _rule("YEARLY", step, f";BYMONTH={month};BYMONTHDAY={int(day)}", times)
    return _cron(times, f"{day} {month} *")


def _cron(times: _Times, days: str) -> Recurrence | None:
    if times.window is not None:
        return None
    minute, hours = _minute_and_hours(times)
    return Recurrence("cron", {"expression": f"{minute} {hours} {days}"})


def _rule(freq: str, step: int, parts: str, times: _Times) -> Recurrence | None:
    """Return a recurrence rule. One without days or times begins now and keeps its day and time."""
    if times.window is not None:
        return None
    clock = ""
    if parts or times.seconds:
        minute, hours = _minute_and_hours(times)
        clock = f";BYHOUR={hours};BYMINUTE={minute};BYSECOND=0"
    every = f";INTERVAL={step}" if step > 1 else ""
    return Recurrence("rrule", {"rrule": f"FREQ={freq}{every}{parts}{clock}"})


def _minute_and_hours(times: _Times) -> tuple[int, str]:
    if not times.seconds:
        raise UnreadableTime(SAY_AT_WHAT_TIME, field="when")
    minutes = {second // 60 % 60 for second in times.seconds}
    if len(minutes) > 1:
        raise UnreadableTime("times with different minutes need a schedule each.", field="when")
    return minutes.pop(), ",".join(str(hour) for hour in sorted({second // 3600 for second in times.seconds}))


def _with_limits(recurrence: Recurrence, limits: dict[str, str]) -> Recurrence:
    """Add the limits that a phrase names: "until dec 24", "starting monday"."""
    config = dict(recurrence.config)
    if end := limits.get("u") or limits.get("t"):
        config["end"] = end
    if start := limits.get("s") or limits.get("b"):
        if "weekdays" in config and "between" not in config and read_clock(start):
            raise unclear(f"starting {start}", 'name both ends of the time of day, as in "between 9:00 and 17:00".')
        time = config.get("start")
        config["start"] = f"{start} {time}" if time else start
    return recurrence._replace(config=config)
