from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND, Instant, datetime_of, instant_of
from duetime.engine.errors import InvalidTrigger
from duetime.engine.times.wall_clock import LATEST
from duetime.engine.triggers import (
    IntervalTrigger,
    OnceTrigger,
    Trigger,
    build_trigger,
    describe,
    trigger_from_dict,
    trigger_from_json,
    trigger_to_json,
    warnings_for,
)
from duetime.engine.triggers.base import instant_text
from tests.support.wordings import NEVER_FIRES

NOW = instant_of(datetime(2026, 2, 9, 18, 30, tzinfo=UTC))


def interval(zone: str = "UTC", **config: object) -> Trigger:
    return build_trigger("interval", config, zone=zone, now=NOW)


def once(run_at: object, zone: str = "UTC", **config: object) -> Trigger:
    return build_trigger("once", {"run_at": run_at, **config}, zone=zone, now=NOW)


def test_an_interval_counts_from_its_creation() -> None:
    trigger = interval(hours=1)
    assert trigger.next_after(Instant(0)) == NOW + HOUR
    assert trigger.next_after(NOW) == NOW + HOUR
    assert trigger.next_after(Instant(NOW + HOUR)) == NOW + 2 * HOUR


def test_a_late_run_does_not_shift_the_following_ones() -> None:
    trigger = interval(minutes=10)
    assert trigger.next_after(Instant(NOW + 25 * MINUTE + 7)) == NOW + 30 * MINUTE


def test_units_add_up() -> None:
    trigger = interval(weeks=1, days=1, hours=1, minutes=1, seconds=1.5)
    assert trigger.next_after(NOW) == NOW + 8 * DAY + HOUR + MINUTE + 1_500_000


def test_a_start_alone_is_the_first_occurrence() -> None:
    trigger = interval(hours=2, start="2026-02-10T09:00:00Z")
    nine = instant_of(datetime(2026, 2, 10, 9, tzinfo=UTC))
    assert trigger.next_after(NOW) == nine
    assert trigger.next_after(nine) == nine + 2 * HOUR


def test_an_anchor_sets_the_beat() -> None:
    trigger = interval(hours=1, anchor="2026-01-01T00:15:00Z")
    assert trigger.next_after(NOW) == instant_of(datetime(2026, 2, 9, 19, 15, tzinfo=UTC))


def test_an_end_is_included() -> None:
    trigger = interval(hours=1, end="2026-02-09T20:30:00Z")
    assert trigger.next_after(Instant(NOW + HOUR)) == NOW + 2 * HOUR
    assert trigger.next_after(Instant(NOW + 2 * HOUR)) is None
    assert trigger.latest(NOW, Instant(NOW + DAY)) == NOW + 2 * HOUR
    assert trigger.count(NOW, Instant(NOW + DAY)) == 2


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, "seconds"),
        ({"hours": 0}, "hours"),
        ({"seconds": 0, "minutes": 0}, "seconds"),
        ({"hours": -1}, "hours"),
        ({"minutes": float("nan")}, "minutes"),
        ({"minutes": float("inf")}, "minutes"),
        ({"days": True}, "days"),
        ({"weeks": "1"}, "weeks"),
        ({"seconds": [1]}, "seconds"),
        ({"hours": 10**400}, "hours"),
        ({"hours": 1e300}, "hours"),
        ({"days": 40_000}, "days"),
        ({"seconds": 0.0009}, "seconds"),
        ({"hours": 1, "minutes": -30}, "minutes"),
        ({"hours": 1, "months": 1}, "months"),
        ({"hours": 1, "anchor": "whenever"}, "anchor"),
        ({"hours": 1, "end": "2026-02-09T19:00:00Z"}, "end"),
        ({"hours": 1, "start": "9999-12-29", "end": "9999-12-28"}, "end"),
    ],
)
def test_a_wrong_interval_names_its_field(config: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidTrigger) as caught:
        build_trigger("interval", config, zone="UTC", now=NOW)
    assert caught.value.field == field
    assert field in str(caught.value)


def test_the_configuration_must_be_an_object() -> None:
    with pytest.raises(InvalidTrigger) as caught:
        build_trigger("interval", ["hours", 1], zone="UTC", now=NOW)  # type: ignore[arg-type]
    assert caught.value.field == "trigger_config"


def test_a_week_of_seconds_is_counted_by_division() -> None:
    trigger = interval(seconds=1)
    until = Instant(NOW + 7 * DAY)
    assert trigger.count(NOW, until) == 604_800
    assert trigger.latest(NOW, Instant(until + 5)) == until


def test_an_interval_ends_with_the_last_instant() -> None:
    trigger = IntervalTrigger(period=100 * 365 * DAY, anchor=NOW, timezone="UTC")
    assert trigger.next_after(LATEST) is None
    assert trigger.count(NOW, Instant(LATEST * 2)) == (LATEST - NOW) // trigger.period


def test_once_happens_once() -> None:
    trigger = once("2026-02-10T15:00:00", "America/Los_Angeles")
    due = instant_of(datetime(2026, 2, 10, 23, tzinfo=UTC))
    assert trigger.next_after(NOW) == due
    assert trigger.next_after(due) is None
    assert trigger.latest(NOW, due) == due
    assert trigger.latest(due, LATEST) is None
    assert trigger.count(NOW, LATEST) == 1


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("2026-03-08T02:30:00", datetime(2026, 3, 8, 7, 30, tzinfo=UTC)),
        ("2026-11-01T01:30:00", datetime(2026, 11, 1, 5, 30, tzinfo=UTC)),
        ("2026-11-01T01:30:00-05:00", datetime(2026, 11, 1, 6, 30, tzinfo=UTC)),
    ],
)
def test_once_where_clocks_change(text: str, due: datetime) -> None:
    assert once(text, "America/New_York").next_after(NOW) == instant_of(due)


@pytest.mark.parametrize("value", [None, "", "soon", 5, "2026-02-09T18:29:59Z", "1969-01-01", "10000-01-01"])
def test_a_wrong_run_at_is_refused(value: object) -> None:
    with pytest.raises(InvalidTrigger) as caught:
        once(value)
    assert caught.value.field == "run_at"
    assert "run_at" in str(caught.value)


def test_a_past_run_at_says_what_time_it_is() -> None:
    with pytest.raises(InvalidTrigger, match="is in the past; it is now 2026-02-09T18:30:00"):
        once("2026-02-01T00:00:00")


def test_now_is_not_past() -> None:
    assert once("2026-02-09T18:30:00Z").next_after(Instant(NOW - 1)) == NOW


def test_once_outside_its_own_bounds_is_refused() -> None:
    with pytest.raises(InvalidTrigger) as caught:
        once("2026-02-10T00:00:00Z", start="2026-02-11T00:00:00Z")
    assert caught.value.field == "start"


def test_english() -> None:
    assert describe(once("2026-02-10T15:00:00", "America/Los_Angeles")) == (
        "once, on 2026-02-10 15:00 PST (America/Los_Angeles)"
    )
    assert describe(interval(hours=1)) == "every hour (UTC)"
    assert describe(interval(hours=1, minutes=30)) == "every 1 hour 30 minutes (UTC)"
    assert describe(interval(days=2, jitter=30)) == "every 2 days at 18:30 (UTC), up to 30 seconds later at random"
    assert describe(interval(seconds=0.25)) == "every 250 milliseconds (UTC)"
    assert describe(interval(hours=1, end="2026-02-10T12:00Z")).endswith(", until 2026-02-10 12:00 UTC")


def test_warnings() -> None:
    assert warnings_for(interval(hours=1), NOW) == []
    assert warnings_for(once("tomorrow 9am"), NOW) == []
    over = OnceTrigger(at=Instant(NOW - 1), timezone="UTC")
    assert warnings_for(over, NOW) == [NEVER_FIRES]
    assert warnings_for(interval(minutes=5, jitter=60), NOW) == []
    [spread] = warnings_for(interval(minutes=1, jitter=300), NOW)
    assert "every 1 minute but up to 5 minutes later" in spread


@pytest.mark.parametrize(
    "stored",
    [
        {"type": "interval", "timezone": "UTC", "period_us": 0, "anchor": "2026-01-01T00:00:00.000000Z"},
        {"type": "interval", "timezone": "UTC", "period_us": True, "anchor": "2026-01-01T00:00:00.000000Z"},
        {"type": "interval", "timezone": "UTC", "period_us": 5},
        {"type": "once", "timezone": "UTC"},
        {"type": "once", "timezone": "UTC", "at": "2026-01-01T00:00:00+01:00"},
        {"timezone": "UTC", "at": "2026-01-01T00:00:00.000000Z"},
    ],
)
def test_a_stored_trigger_that_is_not_whole_is_refused(stored: dict[str, object]) -> None:
    with pytest.raises(InvalidTrigger):
        trigger_from_dict(stored)


instants = st.integers(0, NOW * 2).map(Instant)
intervals = st.builds(
    IntervalTrigger,
    period=st.integers(1000, 40 * DAY),
    anchor=instants,
    timezone=st.just("Asia/Tokyo"),
    start=st.none() | instants,
    end=st.none() | instants,
    jitter=st.integers(0, SECOND),
)
onces = st.builds(OnceTrigger, at=instants, timezone=st.just("UTC"), end=st.none() | instants)


@given(trigger=intervals | onces)
def test_round_trip_to_the_microsecond(trigger: Trigger) -> None:
    again = trigger_from_json(trigger_to_json(trigger))
    assert again == trigger
    assert hash(again) == hash(trigger)


@given(instant=instants | st.sampled_from([Instant(0), Instant(DAY - 1), LATEST]))
def test_the_text_of_an_instant_is_that_of_its_datetime(instant: Instant) -> None:
    assert instant_text(instant) == datetime_of(instant).isoformat("T", "microseconds").replace("+00:00", "Z")


@given(trigger=intervals, after=instants, steps=st.integers(0, 60), rest=st.integers(0, 10**6))
def test_latest_and_count_agree_with_iterating(trigger: IntervalTrigger, after: Instant, steps: int, rest: int) -> None:
    until = Instant(max(after, trigger.anchor, trigger.start or 0) + steps * trigger.period + rest)
    found: list[Instant] = []
    instant = trigger.next_after(after)
    while instant is not None and instant <= until and len(found) < 2000:
        assert instant > (found[-1] if found else after)
        assert (instant - trigger.anchor) % trigger.period == 0
        found.append(instant)
        instant = trigger.next_after(instant)
    if len(found) == 2000:
        until = found[-1]
    assert trigger.latest(after, until) == (found[-1] if found else None)
    assert trigger.count(after, until) == len(found)
