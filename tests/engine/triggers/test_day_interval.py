"""Intervals of days and weeks keep their wall-clock time when clocks change; hours are exact."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND, Instant, datetime_of, instant_of
from duetime.engine.errors import InvalidTrigger
from duetime.engine.triggers import (
    DayIntervalTrigger,
    Trigger,
    build_trigger,
    describe,
    trigger_from_dict,
    trigger_from_json,
    trigger_to_json,
    warnings_for,
)
from duetime.engine.triggers.step_budget import step_budget

NEW_YORK = "America/New_York"


def at(text: str) -> Instant:
    return instant_of(datetime.fromisoformat(text))


def times(trigger: Trigger, after: str, count: int) -> list[str]:
    found, instant = [], at(after)
    for _ in range(count):
        following = trigger.next_after(instant)
        assert following is not None
        found.append(datetime_of(following).strftime("%Y-%m-%dT%H:%MZ"))
        instant = following
    return found


def interval(zone: str, now: str, **config: object) -> Trigger:
    return build_trigger("interval", config, zone=zone, now=at(now))


@pytest.mark.parametrize(
    ("zone", "created", "config", "due"),
    [
        # 14 March 2027: 09:00 EST is 14:00 UTC, and 09:00 EDT is 13:00 UTC.
        (NEW_YORK, "2027-03-12T14:00Z", {"days": 1}, ["2027-03-13T14:00Z", "2027-03-14T13:00Z", "2027-03-15T13:00Z"]),
        # 7 November 2027: back to EST.
        (NEW_YORK, "2027-11-05T13:00Z", {"days": 1}, ["2027-11-06T13:00Z", "2027-11-07T14:00Z", "2027-11-08T14:00Z"]),
        # 28 March 2027: 09:00 CET is 08:00 UTC, and 09:00 CEST is 07:00 UTC; 31 October 2027: back to CET.
        ("Europe/Berlin", "2027-03-20T08:00Z", {"weeks": 1}, ["2027-03-27T08:00Z", "2027-04-03T07:00Z"]),
        ("Europe/Berlin", "2027-10-28T07:00Z", {"days": 2}, ["2027-10-30T07:00Z", "2027-11-01T08:00Z"]),
        # 4 April 2027: 09:00 NZDT is 20:00 UTC the day before, and 09:00 NZST is 21:00 UTC.
        ("Pacific/Auckland", "2027-04-01T20:00Z", {"days": 1}, ["2027-04-02T20:00Z", "2027-04-03T21:00Z"]),
        # 4 April 2027: Lord Howe goes back by half an hour, from UTC+11 to UTC+10:30.
        ("Australia/Lord_Howe", "2027-04-01T22:00Z", {"days": 1}, ["2027-04-02T22:00Z", "2027-04-03T22:30Z"]),
        ("Asia/Kolkata", "2027-03-12T03:30Z", {"days": 1}, ["2027-03-13T03:30Z", "2027-03-14T03:30Z"]),
    ],
)
def test_days_keep_the_wall_clock_time(zone: str, created: str, config: dict[str, int], due: list[str]) -> None:
    trigger = interval(zone, created, **config)
    assert times(trigger, created, len(due)) == due
    assert isinstance(trigger, DayIntervalTrigger)


def test_hours_stay_exact() -> None:
    daily = interval(NEW_YORK, "2027-03-12T14:00Z", hours=24)
    assert times(daily, "2027-03-12T14:00Z", 3) == ["2027-03-13T14:00Z", "2027-03-14T14:00Z", "2027-03-15T14:00Z"]
    assert describe(daily) == "every 24 hours (America/New_York)"


def test_a_time_in_the_gap_runs_right_after_it_and_is_back_the_next_day() -> None:
    trigger = interval(NEW_YORK, "2027-03-12T07:30Z", days=1)  # 02:30 EST
    # On 14 March the clock goes from 02:00 to 03:00 EDT, which is 07:00 UTC; the next day 02:30 EDT is 06:30 UTC.
    assert times(trigger, "2027-03-12T07:30Z", 3) == ["2027-03-13T07:30Z", "2027-03-14T07:00Z", "2027-03-15T06:30Z"]
    [warning] = warnings_for(trigger, at("2027-03-12T07:30Z"))[:1]
    assert warning.startswith("2027-03-14 02:30 does not exist in America/New_York")


def test_a_repeated_time_runs_once() -> None:
    trigger = interval(NEW_YORK, "2027-11-06T05:30Z", days=1)  # 01:30 EDT
    # On 7 November 01:30 comes at 05:30 UTC and at 06:30 UTC; the first one counts. Then 01:30 EST is 06:30 UTC.
    assert times(trigger, "2027-11-06T05:30Z", 2) == ["2027-11-07T05:30Z", "2027-11-08T06:30Z"]


def test_a_day_that_a_zone_left_out_runs_once() -> None:
    trigger = interval("Pacific/Apia", "2011-12-28T10:00Z", days=1)  # midnight of the 28th; the 30th did not exist
    assert times(trigger, "2011-12-28T10:00Z", 3) == ["2011-12-29T10:00Z", "2011-12-30T10:00Z", "2011-12-31T10:00Z"]


def test_a_start_is_the_first_time_even_after_a_gap() -> None:
    trigger = interval(NEW_YORK, "2027-03-01T12:00Z", days=1, start="2027-03-15T02:30")
    assert times(trigger, "2027-03-01T12:00Z", 2) == ["2027-03-15T06:30Z", "2027-03-16T06:30Z"]
    fold = interval(NEW_YORK, "2027-03-01T12:00Z", days=1, start="2027-11-07T01:30:00-05:00")
    assert times(fold, "2027-03-01T12:00Z", 2) == ["2027-11-07T06:30Z", "2027-11-08T06:30Z"]


def test_an_anchor_sets_the_time_of_day() -> None:
    trigger = interval(NEW_YORK, "2027-03-01T12:00Z", days=2, anchor="2027-01-01T09:00")
    assert times(trigger, "2027-03-12T12:00Z", 2) == ["2027-03-12T14:00Z", "2027-03-14T13:00Z"]


def test_an_exact_part_is_added_to_the_days() -> None:
    trigger = interval(NEW_YORK, "2027-03-12T14:00Z", days=1, hours=12)
    # 09:00 EST on the 13th and 12 hours; 09:00 EDT on the 14th and 24 hours; 09:00 EDT on the 15th and 36 hours.
    assert times(trigger, "2027-03-12T14:00Z", 3) == ["2027-03-14T02:00Z", "2027-03-15T13:00Z", "2027-03-17T01:00Z"]
    assert describe(trigger) == "every 1 day 12 hours (America/New_York)"
    assert interval("UTC", "2027-03-12T14:00Z", days=1.5) == interval("UTC", "2027-03-12T14:00Z", days=1, hours=12)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"days": 1}, "every day at 14:00 (UTC)"),
        ({"days": 3}, "every 3 days at 14:00 (UTC)"),
        ({"weeks": 1}, "every week on Friday at 14:00 (UTC)"),
        ({"days": 14}, "every 2 weeks on Friday at 14:00 (UTC)"),
        ({"hours": 36}, "every 36 hours (UTC)"),
        ({"hours": 168}, "every 168 hours (UTC)"),
        ({"days": 0.5}, "every 12 hours (UTC)"),
    ],
)
def test_english(config: dict[str, float], words: str) -> None:
    assert describe(interval("UTC", "2027-03-12T14:00Z", **config)) == words


def test_rows_of_earlier_versions_keep_their_period() -> None:
    text = (
        '{"anchor":"2027-03-12T14:00:00.000000Z","period_us":86400000000,'
        '"timezone":"America/New_York","type":"interval"}'
    )
    stored = trigger_from_json(text)
    assert times(stored, "2027-03-12T14:00Z", 2) == ["2027-03-13T14:00Z", "2027-03-14T14:00Z"]
    assert describe(stored) == "every 24 hours (America/New_York)"
    assert trigger_to_json(stored) == text


@pytest.mark.parametrize("wrong", [{"days": 0}, {"days": 1.5}, {"days": True}, {"days": 1, "period_us": -1}])
def test_a_stored_trigger_with_wrong_days_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidTrigger):
        trigger_from_dict({"type": "interval", "timezone": "UTC", "anchor": "2026-01-01T00:00:00.000000Z", **wrong})


def test_a_far_away_time_costs_no_more_than_a_near_one() -> None:
    trigger = interval(NEW_YORK, "1970-01-02T00:00Z", days=1, anchor="1970-01-01T09:00")
    with step_budget(5):
        assert times(trigger, "9990-07-01T00:00Z", 1) == ["9990-07-01T13:00Z"]


ZONES = ("America/New_York", "Europe/Berlin", "Pacific/Auckland", "Australia/Lord_Howe", "Africa/Casablanca", "UTC")
instants = st.integers(at("2000-01-01T00:00Z"), at("2040-01-01T00:00Z")).map(Instant)
day_intervals = st.builds(
    DayIntervalTrigger,
    days=st.integers(1, 40),
    period=st.just(0) | st.integers(0, 30 * HOUR),
    anchor=instants | instants.map(lambda instant: Instant(instant // MINUTE * MINUTE)),
    timezone=st.sampled_from(ZONES),
    start=st.none() | instants,
    end=st.none() | instants,
    jitter=st.integers(0, SECOND),
)


@given(trigger=day_intervals)
def test_round_trip(trigger: DayIntervalTrigger) -> None:
    again = trigger_from_json(trigger_to_json(trigger))
    assert (again, hash(again)) == (trigger, hash(trigger))


@given(trigger=day_intervals, after=instants)
@example(DayIntervalTrigger(days=1, anchor=at("2027-03-12T07:30Z"), timezone=NEW_YORK), at("2027-03-14T07:00Z"))
def test_the_next_one_is_the_first_that_lies_after(trigger: DayIntervalTrigger, after: Instant) -> None:
    """Compared with a plain calendar calculation of every occurrence around it."""
    zone = ZoneInfo(trigger.timezone)
    local = datetime_of(trigger.anchor).astimezone(zone)
    lower = max(after, (trigger.start or 0) - 1)
    about = (lower - trigger.anchor) // (trigger.days * DAY + trigger.period)
    steps = [step for step in range(about - 5, about + 6) if step >= (0 if trigger.start == trigger.anchor else 1)]
    expected = []
    for step in steps or [0 if trigger.start == trigger.anchor else 1]:
        wanted = local.replace(tzinfo=None) + timedelta(days=step * trigger.days)
        instant = instant_of(wanted.replace(tzinfo=zone))
        if datetime_of(instant).astimezone(zone).replace(tzinfo=None) != wanted:  # skipped: the first instant after it
            instant = next_change(instant, zone)
        expected.append(trigger.anchor if step == 0 else Instant(instant + step * trigger.period))
    found = trigger.next_after(after)
    first = min((each for each in expected if each > lower), default=None)
    assert found == (first if first is not None and (trigger.end is None or first <= trigger.end) else None)


def next_change(around: Instant, zone: ZoneInfo) -> Instant:
    """Return when the clock goes forward, within a day of an instant."""
    low, high = Instant(around - DAY), Instant(around + DAY)
    offset = datetime_of(low).astimezone(zone).utcoffset()
    while high - low > 1:
        middle = Instant((low + high) // 2)
        if datetime_of(middle).astimezone(zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return high


@given(trigger=day_intervals, after=instants, days=st.integers(0, 200))
def test_latest_and_count_agree_with_iterating(trigger: DayIntervalTrigger, after: Instant, days: int) -> None:
    until = Instant(after + days * DAY)
    found, instant = [], trigger.next_after(after)
    while instant is not None and instant <= until:
        found.append(instant)
        instant = trigger.next_after(instant)
    assert trigger.latest(after, until) == (found[-1] if found else None)
    assert trigger.count(after, until) == len(found)


def test_the_time_of_day_is_that_of_the_zone() -> None:
    assert (
        describe(interval("Europe/Berlin", "2027-03-12T03:54:17Z", days=1)) == "every day at 04:54:17 (Europe/Berlin)"
    )
