"""Rules such as "every second Tuesday" count from the first such day at or after their start, however it is given."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.engine.clock import Instant, datetime_of, instant_of
from duetime.engine.rule_edits import beginning
from duetime.engine.triggers import Trigger, build_trigger, describe
from duetime.service.when import When, read_times

ZONE: Final = "America/New_York"
NOW: Final = datetime(2026, 11, 17, 6, tzinfo=UTC)  # a Tuesday, 01:00 in New York
DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
CLOCK: Final = time(16, 0)
PHRASES: Final = {
    "every second {} at 4pm": 2,
    "every other {} at 16:00": 2,
    "every 3 weeks on {} at 4pm": 3,
    "every 2 weeks on {} at 4pm": 2,
    "biweekly on {} at 4pm": 2,
    "fortnightly on {} at 4pm": 2,
}
days = st.lists(st.sampled_from(range(7)), min_size=1, max_size=3, unique=True).map(sorted).map(tuple)
starts = st.datetimes(datetime(2026, 11, 17, 8), datetime(2028, 1, 1)).map(lambda each: each.replace(microsecond=0))


def built(when: When, now: datetime = NOW) -> Trigger:
    return build_trigger(when.type, when.config, zone=ZONE, now=instant_of(now))


def times(trigger: Trigger, count: int, after: datetime = NOW) -> list[datetime]:
    found: list[datetime] = []
    instant = instant_of(after)
    while len(found) < count:
        following = trigger.next_after(instant)
        assert following is not None
        found.append(datetime_of(following).astimezone(ZoneInfo(ZONE)).replace(tzinfo=None))
        instant = following
    return found


def wanted(start: datetime, weekdays: tuple[int, ...], weeks: int, count: int) -> list[datetime]:
    """Return the times in the week of the first such day at or after the start, and in every so many weeks after it."""
    first: date | None = None
    found: list[datetime] = []
    day = start.date()
    while len(found) < count:
        local = datetime.combine(day, CLOCK)
        if day.weekday() in weekdays and local >= start:
            first = first or day - timedelta(day.weekday())
            if (day - first).days // 7 % weeks == 0:
                found.append(local)
        day += timedelta(1)
    return found


def phrase(text: str, weekdays: tuple[int, ...]) -> str:
    return text.format(" and ".join(DAYS[day] for day in weekdays))


@given(st.sampled_from(sorted(PHRASES)), days, starts)
def test_weeks_are_counted_from_the_first_such_day_at_or_after_the_start(
    text: str, weekdays: tuple[int, ...], start: datetime
) -> None:
    expected = wanted(start, weekdays, PHRASES[text], 6)
    words = phrase(text, weekdays)
    limit = {"start": start.isoformat()}
    created = built(read_times({"when": words, **limit}))
    ways = {
        "created": created,
        "in words": built(read_times({"when": f"{words} starting {start:%Y-%m-%d %H:%M:%S}"})),
        "by a tool": built(read_times({"when": words, **limit}, ("", {}))),
        "edited": _edited(words, limit, None),
        "edited to start later": _edited(words, {}, start),
    }
    for way, trigger in ways.items():
        assert times(trigger, 6) == expected, way
    assert describe(created).count("beginning") == 1 and ", from" not in describe(created)
    assert f"beginning {expected[0]}" in describe(created)


def _edited(words: str, limit: dict[str, str], starting: datetime | None) -> Trigger:
    """Build a rule as an edit of a schedule that is due every hour does; `starting` is when it replaces the old one."""
    old = built(read_times({"when": "every hour"}))
    when = read_times({"when": words, **limit})
    moment = None if starting is None else instant_of(starting.replace(tzinfo=ZoneInfo(ZONE)))
    begin, config = beginning(when.type, when.config, old, moment, instant_of(NOW), "UTC")
    return build_trigger(when.type, config, zone=ZONE, now=begin)


@given(days, starts)
def test_an_edit_to_such_a_rule_counts_from_the_start_that_the_schedule_has(
    weekdays: tuple[int, ...], start: datetime
) -> None:
    old = built(read_times({"when": "every day at 9:00", "start": start.isoformat()}))
    when = read_times({"when": phrase("every second {} at 4pm", weekdays)})
    begin, config = beginning(when.type, when.config, old, None, instant_of(NOW), "UTC")
    assert times(build_trigger(when.type, config, zone=ZONE, now=begin), 6) == wanted(start, weekdays, 2, 6)


def test_without_a_start_it_begins_with_the_next_such_day() -> None:
    friday = datetime(2026, 11, 20, 12, tzinfo=UTC)
    trigger = built(read_times({"when": "every other monday and thursday at 9:00"}), friday)
    assert [each.day for each in times(trigger, 4, friday)] == [23, 26, 7, 10]


def test_a_first_time_that_a_rule_names_is_taken_at_its_word() -> None:
    """As RFC 5545 says: the weeks are counted from the one that has the first time, though that is a Friday here."""
    rule: dict[str, Any] = {"rrule": "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;BYHOUR=16;BYMINUTE=0;BYSECOND=0"}
    trigger = built(When("rrule", {**rule, "dtstart": "2026-12-04T09:00:00"}))
    assert [each.day for each in times(trigger, 2)] == [15, 29]


def test_the_time_of_day_is_that_of_the_start_if_the_rule_names_none() -> None:
    trigger = built(When("rrule", {"rrule": "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU", "start": "2026-12-04T09:30:00"}))
    assert times(trigger, 2) == [datetime(2026, 12, 8, 9, 30), datetime(2026, 12, 22, 9, 30)]


def test_a_time_in_a_gap_of_the_clock_is_the_first_one() -> None:
    """On 14 March 2027 the clock goes from 2:00 to 3:00, so that Sunday's run is at 3:00."""
    trigger = built(read_times({"when": "every second sunday at 2:30", "start": "2027-03-14"}))
    assert times(trigger, 2) == [datetime(2027, 3, 14, 3, 0), datetime(2027, 3, 28, 2, 30)]


@pytest.mark.parametrize("trigger", [None, ("", {})])
def test_a_start_beside_a_phrase_that_has_one_is_refused(trigger: Any) -> None:
    """The time of such an interval is its start; a second start would replace 9:00 by midnight."""
    with pytest.raises(Exception, match="start: is given twice; give it once"):
        read_times({"when": "every 2 weeks at 9", "start": "2026-12-08"}, trigger)
    assert built(read_times({"when": "every 2 weeks at 9 starting 2026-12-08"})).start == Instant(
        instant_of(datetime(2026, 12, 8, 14, tzinfo=UTC))
    )
