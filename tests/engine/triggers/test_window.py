"""Intervals within a daily window, and one-offs after a delay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND, Instant, datetime_of, instant_of
from duetime.engine.errors import InvalidTrigger
from duetime.engine.triggers import WindowTrigger, build_trigger, describe, trigger_from_json, trigger_to_json

NOW = instant_of(datetime(2027, 3, 12, 14, 30, tzinfo=UTC))


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"hours": 1, "between": "9-17"}, "between"),
        ({"hours": 1, "between": "09:00-09:00"}, "between"),
        ({"hours": 1, "between": "24:00-09:00"}, "between"),
        ({"hours": 1, "between": 9}, "between"),
        ({"hours": 1, "weekdays": "foo"}, "weekdays"),
        ({"hours": 1, "weekdays": ""}, "weekdays"),
        ({"hours": 1, "weekdays": 5}, "weekdays"),
        ({"days": 1, "between": "09:00-17:00"}, "days"),
        ({"hours": 48, "between": "09:00-10:00"}, "hours"),
        ({"minutes": 1, "hours": 24, "weekdays": "mon-fri"}, "hours"),
        ({"minutes": 1441, "weekdays": "mon-fri"}, "minutes"),
        ({"hours": 1, "between": "09:00-17:00", "anchor": "2027-01-01"}, "anchor"),
    ],
)
def test_a_wrong_window_names_its_field(config: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidTrigger) as caught:
        build_trigger("interval", config, zone="UTC", now=NOW)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"hours": 2, "between": "9:00-17:30"}, "every 2 hours between 09:00 and 17:30 (UTC)"),
        ({"hours": 2, "weekdays": "Mon-Fri"}, "every 2 hours on weekdays (UTC)"),
        ({"hours": 24, "between": "9:00-10:00"}, "every 24 hours between 09:00 and 10:00 (UTC)"),
        ({"hours": 2, "weekdays": "sat,sunday"}, "every 2 hours on Saturday and Sunday (UTC)"),
        ({"hours": 2, "weekdays": "fri-mon"}, "every 2 hours on Monday, Friday, Saturday and Sunday (UTC)"),
        ({"hours": 2, "between": "00:00-24:00"}, "every 2 hours (UTC)"),
    ],
)
def test_english(config: dict[str, object], words: str) -> None:
    trigger = build_trigger("interval", config, zone="UTC", now=NOW)
    assert describe(trigger) == words
    assert trigger_from_json(trigger_to_json(trigger)) == trigger


def test_the_end_of_a_window_is_included_and_the_next_begins_anew() -> None:
    trigger = build_trigger("interval", {"hours": 3, "between": "09:00-15:00"}, zone="UTC", now=NOW)
    nine = instant_of(datetime(2027, 3, 13, 9, tzinfo=UTC))
    assert trigger.next_after(NOW) == instant_of(datetime(2027, 3, 12, 15, tzinfo=UTC))
    assert trigger.next_after(Instant(nine - 18 * HOUR)) == nine
    assert trigger.count(Instant(nine - 1), Instant(nine + DAY - 1)) == 3


instants = st.integers(instant_of(datetime(2026, 1, 1, tzinfo=UTC)), instant_of(datetime(2028, 1, 1, tzinfo=UTC))).map(
    Instant
)
clocks = st.integers(0, 95).map(lambda quarter: quarter * 900)
windows = st.builds(
    WindowTrigger,
    period=st.integers(20 * MINUTE // SECOND, 30 * HOUR // SECOND).map(lambda seconds: seconds * SECOND),
    between=st.tuples(clocks, clocks).filter(lambda pair: pair[0] != pair[1]),
    weekdays=st.sets(st.integers(0, 6), min_size=1).map(lambda days: tuple(sorted(days))),
    timezone=st.sampled_from(("UTC", "America/New_York", "Australia/Lord_Howe")),
)


def first_shown(day: datetime, second: int, zone: ZoneInfo) -> Instant:
    """Return when the wall clock of this day first shows the time or a later one, by a search minute by minute."""
    wanted = day + timedelta(seconds=second)
    instant = Instant(instant_of(wanted.replace(tzinfo=UTC)) - 15 * HOUR)
    while datetime_of(instant).astimezone(zone).replace(tzinfo=None) < wanted:
        instant = Instant(instant + 15 * MINUTE)
    return instant


@given(trigger=windows, after=instants)
def test_the_next_one_is_the_first_that_lies_after(trigger: WindowTrigger, after: Instant) -> None:
    zone, (begin, end) = ZoneInfo(trigger.timezone), trigger.between
    today = datetime_of(after).astimezone(zone).replace(tzinfo=None, hour=0, minute=0, second=0, microsecond=0)
    expected: list[Instant] = []
    for shift in range(-2, 10):
        day = today + timedelta(days=shift)
        if day.weekday() not in trigger.weekdays:
            continue
        instant = first_shown(day, begin, zone)
        last = first_shown(day, end if end > begin else end + 86_400, zone)
        while instant <= last:
            expected.append(instant)
            instant = Instant(instant + trigger.period)
    assert trigger.next_after(after) == min(each for each in expected if each > after)


@pytest.mark.parametrize(
    ("delay", "length"),
    [
        ("2h30m", 150 * MINUTE),
        ("90 minutes", 90 * MINUTE),
        ("half an hour", 30 * MINUTE),
        (90, 90 * SECOND),
        ("1d", DAY),
    ],
)
def test_once_after_a_delay(delay: object, length: int) -> None:
    assert build_trigger("once", {"delay": delay}, zone="UTC", now=NOW).next_after(NOW) == NOW + length


@pytest.mark.parametrize("delay", ["", "soon", "0s", 0, -5, float("inf"), True, ["1h"], "40000d"])
def test_a_wrong_delay_is_refused(delay: object) -> None:
    with pytest.raises(InvalidTrigger) as caught:
        build_trigger("once", {"delay": delay}, zone="UTC", now=NOW)
    assert caught.value.field == "delay"


def test_a_delay_goes_without_run_at() -> None:
    with pytest.raises(InvalidTrigger, match="delay: cannot be combined with run_at"):
        build_trigger("once", {"delay": "1h", "run_at": "tomorrow 9am"}, zone="UTC", now=NOW)


def test_the_latest_occurrence_is_exact_below_a_second() -> None:
    trigger = build_trigger("interval", {"seconds": 0.25, "between": "09:00-15:00"}, zone="UTC", now=NOW)
    for late in (0, 1, SECOND // 4, SECOND // 2, SECOND - 1):
        assert trigger.latest(NOW, Instant(NOW + HOUR // 4 + late)) == NOW + HOUR // 4 + late // (SECOND // 4) * (
            SECOND // 4
        )
    uneven = build_trigger("interval", {"seconds": 1.1, "weekdays": "fri-sat"}, zone="UTC", now=NOW)
    midnight = instant_of(datetime(2027, 3, 13, tzinfo=UTC))
    assert uneven.next_after(Instant(midnight - SECOND // 2)) == midnight
    assert uneven.latest(NOW, midnight) == midnight
