"""Cron around every change of the clocks, in every zone: against a brute-force reading of the rule, and cronsim.

`make test` takes a sample of zones and years; DUETIME_FULL=1 takes all zones and all changes from 1970 to 2037.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import available_timezones

import pytest
from cronsim import CronSim

from duetime.engine.clock import Instant
from duetime.engine.times.wall_clock import ClockChange, wall_clock
from duetime.engine.times.zones import known_zone
from duetime.engine.triggers import CronTrigger
from duetime.engine.triggers.cron import Dst
from tests.support.size import FULL

pytestmark = pytest.mark.slow

MICROSECONDS = 1_000_000
DST: tuple[Dst, ...] = ("debian", "literal")
HOUR = 3600
FIRST_YEAR = 1970 if FULL else 2024
ZONES = sorted(available_timezones() - {"Factory", "localtime", "posixrules"})
# Midnight changes, half hours, a lost day, Ramadan, two hours: the odd ones are always in the sample.
ODD = {
    "Africa/Cairo", "Africa/Casablanca", "America/Havana", "America/New_York", "America/Nuuk", "America/Santiago",
    "Antarctica/Troll", "Asia/Beirut", "Asia/Gaza", "Atlantic/Azores", "Australia/Lord_Howe", "Europe/Berlin",
    "Europe/Dublin", "Pacific/Apia", "UTC",
}  # fmt: skip
SAMPLE = [
    pytest.param(zone, marks=() if zone in ODD else pytest.mark.later)
    for zone in (ZONES if FULL else sorted(ODD | set(ZONES[::20])))
]


class Expression(NamedTuple):
    """An expression that looks at the time of day only, and which minutes of the day it means."""

    text: str
    minutes: frozenset[int]
    follows: bool


def expression(minutes: str, hours: str) -> Expression:
    found = {60 * hour + minute for hour in numbers(hours, 24) for minute in numbers(minutes, 60)}
    follows = minutes.startswith("*") or hours.startswith("*")
    return Expression(f"{minutes} {hours} * * *", frozenset(found), follows)


def numbers(field: str, size: int) -> list[int]:
    if field == "*":
        return list(range(size))
    if field.startswith("*/"):
        return list(range(0, size, int(field[2:])))
    return [int(item) for item in field.split(",")]


def expressions(change: ClockChange) -> list[Expression]:
    """Fixed and wildcard ones that meet the hours around the change."""
    hour = (change.at + change.before) // HOUR % 24
    before, after = (hour - 1) % 24, (hour + 1) % 24
    fixed = [("30", str(hour)), ("0,30", f"{before},{hour}"), ("15,45", f"{hour},{after}"), ("0", "0")]
    fixed.append(("59", str(before)))
    following = [("*/15", "*"), ("0", "*"), ("30", "*/2"), ("*/20", str(hour)), ("*/20", str(before))]
    return [expression(*fields) for fields in fixed + following]


class Window(NamedTuple):
    start: int
    end: int
    step: int


def window(change: ClockChange) -> Window:
    """From some hours before until after whatever the change can still move; by seconds where offsets have any."""
    moved = abs(change.after - change.before)
    start = (change.at - moved - 4 * HOUR) // 60 * 60
    return Window(start, change.at + moved + 6 * HOUR, 1 if change.before % 60 or change.after % 60 else 60)


def brute(change: ClockChange, minutes: frozenset[int], follows: bool) -> list[int]:
    """The rule, read minute by minute off the wall clock."""
    start, end, step = window(change)
    due = []
    highest = start + change.before
    for t in range(start + step, end + 1, step):
        shown = t + (change.before if t < change.at else change.after)
        if follows:
            if shown % 60 == 0 and shown // 60 % 1440 in minutes:
                due.append(t)
        elif shown > highest:
            passed = range(highest // 60 + 1, shown // 60 + 1)  # more than one minute where clocks go forward
            if any(minute % 1440 in minutes for minute in passed):
                due.append(t)
            highest = shown
    return due


@cache
def expected(change: ClockChange, minutes: frozenset[int], follows: bool) -> list[int]:
    return brute(change, minutes, follows)


def isolated_changes(zone: str) -> list[ClockChange]:
    start = int(datetime(FIRST_YEAR, 1, 2, tzinfo=UTC).timestamp())
    changes = list(wall_clock(zone).changes(start, int(datetime(2038, 1, 1, tzinfo=UTC).timestamp())))
    # The oracle looks at one change at a time, so no second one may lie in its window.
    assert all(later.at - earlier.at > 3 * 86_400 for earlier, later in pairwise(changes))
    return changes


def ours(trigger: CronTrigger, start: int, end: int) -> list[int]:
    found = []
    instant = trigger.next_after(Instant(start * MICROSECONDS))
    while instant is not None and instant <= end * MICROSECONDS:
        found.append(instant // MICROSECONDS)
        instant = trigger.next_after(instant)
    return found


def check_change(zone: str, change: ClockChange) -> None:
    start, end, _ = window(change)
    for text, minutes, follows in expressions(change):
        for dst in DST:
            due = expected(change, minutes, follows or dst == "literal")
            with_seconds = CronTrigger(expression=f"0 {text}", timezone=zone, dst=dst)
            assert ours(with_seconds, start, end) == due, (zone, change, text, dst)
            trigger = CronTrigger(expression=text, timezone=zone, dst=dst)
            assert ours(trigger, start, end) == due, (zone, change, text, dst)
            for inside in range(start, end, 37 * 60):
                later = next((t for t in due if t > inside), None)
                found = trigger.next_after(Instant(inside * MICROSECONDS + 17))
                assert found is not None
                assert found > inside * MICROSECONDS + 17
                if later is not None:
                    assert found == later * MICROSECONDS, (zone, change, text, dst, inside)


@pytest.mark.parametrize("zone", SAMPLE)
def test_every_change_of_the_clocks_follows_the_rule(zone: str) -> None:
    for change in isolated_changes(zone):
        check_change(zone, change)


def cronsim_is_right(change: ClockChange, follows: bool) -> bool:
    """It leaves a gap by whole minutes; with wildcards it ticks by whole hours and may start a day at a midnight that
    does not exist, or never come to an end (Asia/Hong_Kong changed at half past).
    """
    if not follows:
        return change.before % 60 == 0 and change.after % 60 == 0
    whole = all(number % HOUR == 0 for number in change)
    shown = {(change.at + offset) // HOUR % 24 for offset in (change.before, change.after)}
    return whole and not shown & {0, 23} and abs(change.after - change.before) < 4 * HOUR


def by_cronsim(text: str, zone: str, start: int, end: int) -> list[int]:
    found: list[int] = []
    sim = CronSim(text, datetime.fromtimestamp(start, UTC).astimezone(known_zone(zone)))
    while True:
        t = int(next(sim).timestamp())
        if t > end:
            return found
        found.append(t)


@pytest.mark.parametrize("zone", SAMPLE)
def test_cronsim_agrees_where_it_is_right(zone: str) -> None:
    for change in isolated_changes(zone):
        start, end, _ = window(change)
        for text, _, follows in expressions(change):
            if cronsim_is_right(change, follows):
                trigger = CronTrigger(expression=text, timezone=zone)
                assert by_cronsim(text, zone, start, end) == ours(trigger, start, end), (zone, change, text)
