from __future__ import annotations

import calendar
import time
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND, Instant, datetime_of, instant_of
from duetime.engine.errors import InvalidTrigger, UnknownZone
from duetime.engine.times.wall_clock import LATEST
from duetime.engine.times.zones import known_zone
from duetime.engine.triggers import (
    CronTrigger,
    build_trigger,
    describe,
    trigger_from_dict,
    trigger_from_json,
    trigger_to_json,
    warnings_for,
)
from duetime.engine.triggers.describe import MAX_LENGTH
from tests.support.wordings import NEVER_FIRES

NOW = instant_of(datetime(2026, 2, 9, 18, 30, tzinfo=UTC))


def at(*parts: int) -> Instant:
    return instant_of(datetime(*parts, tzinfo=UTC))  # type: ignore[arg-type, misc]  # year to second


def cron(expression: str, zone: str = "UTC", **more: object) -> CronTrigger:
    built = build_trigger("cron", {"expression": expression, **more}, zone=zone, now=NOW)
    assert isinstance(built, CronTrigger)
    return built


def upcoming(trigger: CronTrigger, after: Instant, number: int) -> list[str]:
    found = []
    instant: Instant | None = after
    for _ in range(number):
        instant = trigger.next_after(instant) if instant is not None else None
        found.append("-" if instant is None else datetime_of(instant).strftime("%Y-%m-%d %H:%M:%S"))
    return found


def test_a_description_with_long_lists_is_bounded() -> None:
    minutes, hours = ",".join(map(str, range(59))), ",".join(map(str, range(0, 24, 2)))
    words = describe(
        CronTrigger(expression=f"{minutes} {hours} 1-3,5-7,9-11 1,3,5 1#1,2#1,3#2,5#1,6#2", timezone="UTC")
    )
    assert words.startswith("cron 0,1,2,") and " more 0,2,4" in words and len(words) <= MAX_LENGTH


@pytest.mark.parametrize(
    ("expression", "first"),
    [
        ("0 9 * * *", "2026-02-10 09:00:00"),
        ("*/20 * * * *", "2026-02-09 18:40:00"),
        ("0 9 * * MON-FRI", "2026-02-10 09:00:00"),
        ("0 0 1 JAN,JUL *", "2026-07-01 00:00:00"),
        ("10-50/20 8-10 * * 0,7", "2026-02-15 08:10:00"),
        ("0 0 L * *", "2026-02-28 00:00:00"),
        ("0 0 LW * *", "2026-02-27 00:00:00"),
        ("0 9 * * 5L", "2026-02-27 09:00:00"),
        ("0 9 * * FRI#2", "2026-02-13 09:00:00"),
        ("0 0 13 * FRI", "2026-02-13 00:00:00"),
        ("0 0 29 2 *", "2028-02-29 00:00:00"),
        ("@hourly", "2026-02-09 19:00:00"),
        ("@Daily", "2026-02-10 00:00:00"),
        ("@midnight", "2026-02-10 00:00:00"),
        ("@weekly", "2026-02-15 00:00:00"),
        ("@monthly", "2026-03-01 00:00:00"),
        ("@yearly", "2027-01-01 00:00:00"),
        ("@annually", "2027-01-01 00:00:00"),
        ("*/10 * * * * *", "2026-02-09 18:30:10"),
        ("5,50 31 18 * * *", "2026-02-09 18:31:05"),
        ("  0   9 * *\t* ", "2026-02-10 09:00:00"),
    ],
)
def test_first_time_after_an_instant(expression: str, first: str) -> None:
    assert upcoming(cron(expression), NOW, 1) == [first]


@pytest.mark.parametrize(
    "expression",
    [
        "", "foo", "* * * *", "* * * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *",
        "* * * * 8", "*/0 * * * *", "5-1 * * * *", "1,,2 * * * *", "1#2 * * * *", "* * * * 1#6", "* * * * FRIL",
        "* * 1W * *", "@never", "² * * * *", "* * * * 5L/2", "9" * 5000 + " * * * *", "\0 * * * *", "-1 * * * *",
    ],
)  # fmt: skip
def test_a_malformed_expression_is_quoted_and_nothing_else(expression: str) -> None:
    with pytest.raises(InvalidTrigger) as caught:
        cron(expression)
    assert str(caught.value) == f"Invalid cron expression: {expression}"
    assert caught.value.field == "expression"


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30,31 FEB *", "0 0 31 11 */2"])
def test_what_never_fires_is_refused(expression: str) -> None:
    with pytest.raises(InvalidTrigger) as caught:
        cron(expression)
    assert caught.value.field == "expression"


def test_a_stored_expression_that_never_fires_has_no_next_instant() -> None:
    trigger = CronTrigger(expression="0 0 30 2 *", timezone="Europe/Berlin")
    assert trigger.next_after(NOW) is None
    assert trigger.latest(Instant(0), NOW) is None
    assert trigger.count(Instant(0), NOW) == 0
    assert warnings_for(trigger, NOW) == [NEVER_FIRES]


def test_leap_days_on_one_weekday_are_at_most_forty_years_apart() -> None:
    """The search horizon rests on this; the calendar repeats after 400 years."""
    leaps = [date(year, 2, 29) for year in range(2000, 2800) if calendar.isleap(year)]
    gaps = [
        later.year - earlier.year
        for weekday in range(7)
        for earlier, later in pairwise(day for day in leaps if day.weekday() == weekday)
    ]
    assert max(gaps) == 40
    trigger = CronTrigger(expression="0 0 29 2 */7", timezone="UTC")  # */7: Sundays only
    assert upcoming(trigger, at(2088, 3, 1), 2) == ["2128-02-29 00:00:00", "2156-02-29 00:00:00"]


def test_a_fixed_time_in_the_gap_runs_right_after_it() -> None:
    trigger = cron("15,45 2 * * *", "America/New_York")
    assert upcoming(trigger, at(2026, 3, 8, 6), 3) == [
        "2026-03-08 07:00:00", "2026-03-09 06:15:00", "2026-03-09 06:45:00",
    ]  # fmt: skip


def test_a_fixed_time_in_the_repeated_hour_runs_once() -> None:
    trigger = cron("30 1 * * *", "America/New_York")
    assert upcoming(trigger, at(2026, 11, 1, 4), 2) == ["2026-11-01 05:30:00", "2026-11-02 06:30:00"]
    inside = trigger.next_after(at(2026, 11, 1, 6, 15))  # where cronsim goes back to 05:30
    assert inside == at(2026, 11, 2, 6, 30)


def test_a_wildcard_follows_the_wall_clock() -> None:
    trigger = cron("*/30 1 * * *", "America/New_York")
    assert upcoming(trigger, at(2026, 11, 1, 4), 4) == [
        "2026-11-01 05:00:00", "2026-11-01 05:30:00", "2026-11-01 06:00:00", "2026-11-01 06:30:00",
    ]  # fmt: skip
    assert upcoming(cron("*/30 2 * * *", "America/New_York"), at(2026, 3, 8, 6), 1) == ["2026-03-09 06:00:00"]


def test_literal_skips_the_gap_and_repeats_the_hour() -> None:
    gap = cron("30 2 * * *", "America/New_York", dst="literal")
    assert upcoming(gap, at(2026, 3, 7, 12), 1) == ["2026-03-09 06:30:00"]
    fold = cron("30 1 * * *", "America/New_York", dst="literal")
    assert upcoming(fold, at(2026, 11, 1, 4), 2) == ["2026-11-01 05:30:00", "2026-11-01 06:30:00"]


def test_six_fields_follow_the_same_rule() -> None:
    trigger = cron("20 30 1 * * *", "America/New_York")
    assert upcoming(trigger, at(2026, 11, 1, 4), 2) == ["2026-11-01 05:30:20", "2026-11-02 06:30:20"]
    seconds = cron("* 30 2 * * *", "America/New_York")
    assert upcoming(seconds, at(2026, 3, 8, 6), 2) == ["2026-03-08 07:00:00", "2026-03-09 06:30:00"]


def test_start_and_end_are_included() -> None:
    trigger = cron("0 9 * * *", start="2026-03-01T09:00:00Z", end="2026-03-03T09:00:00Z")
    assert upcoming(trigger, NOW, 4) == ["2026-03-01 09:00:00", "2026-03-02 09:00:00", "2026-03-03 09:00:00", "-"]


def test_an_end_that_is_a_date_includes_that_day() -> None:
    trigger = cron("0 23 * * *", "America/Los_Angeles", end="2026-02-10")
    assert upcoming(trigger, NOW, 3) == ["2026-02-10 07:00:00", "2026-02-11 07:00:00", "-"]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"expresion": "x"}, "expresion"),
        ({"dst": "strict"}, "dst"),
        ({"jitter": -1}, "jitter"),
        ({"jitter": True}, "jitter"),
        ({"jitter": 90_000}, "jitter"),
        ({"start": "someday"}, "start"),
        ({"start": 5}, "start"),
        ({"end": "2020-01-01"}, "end"),
        ({"start": "2026-05-01", "end": "2026-04-01"}, "end"),
        ({"start": "2026-05-01T10:00Z", "end": "2026-05-01T11:00Z"}, "end"),
    ],
)
def test_a_wrong_field_is_named(more: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidTrigger) as caught:
        build_trigger("cron", {"expression": "0 9 * * *", **more}, zone="UTC", now=NOW)
    assert caught.value.field == field
    assert field in str(caught.value)


def test_an_expression_that_is_missing_is_named() -> None:
    for config in ({}, {"expression": None}):
        with pytest.raises(InvalidTrigger, match=r"^expression: is missing; give one such as ") as caught:
            build_trigger("cron", config, zone="UTC", now=NOW)
        assert caught.value.field == "expression"


@pytest.mark.parametrize("value", [5, ["0 9 * * *"], {}])
def test_an_expression_that_is_no_text_is_malformed(value: object) -> None:
    with pytest.raises(InvalidTrigger, match=r"^Invalid cron expression: "):
        build_trigger("cron", {"expression": value}, zone="UTC", now=NOW)


def test_an_unknown_type_is_quoted() -> None:
    for value in ("crno", "", None, ["cron"]):
        with pytest.raises(InvalidTrigger) as caught:
            build_trigger(value, {}, zone="UTC", now=NOW)
        assert str(caught.value) == f"Unknown trigger type: {value}"


@pytest.mark.parametrize(
    "name",
    [
        "", "Nowhere", "../etc/passwd", "/etc/localtime", "Europe/../UTC", "a\0b", "Europe", "right/UTC", "localtime",
        "x" * 5000, "Europe/Berlin\n", " UTC", 5, ["UTC"], "Европа/Берлин",
    ],
)  # fmt: skip
def test_odd_zones_are_refused(name: object) -> None:
    with pytest.raises(UnknownZone):
        known_zone(name)
    with pytest.raises(UnknownZone):
        cron("0 9 * * *", timezone=name)


def test_a_zone_nearly_right_is_suggested() -> None:
    with pytest.raises(UnknownZone, match=r"did you mean Europe/Berlin\?"):
        known_zone("CEST")
    with pytest.raises(UnknownZone, match="did you mean Europe/Berlin"):
        known_zone("europe/berlin")
    with pytest.raises(UnknownZone, match="America/New_York"):
        known_zone("new york")


@pytest.mark.parametrize(
    ("expression", "english"),
    [
        ("0 9 * * *", "every day at 09:00 (Europe/Berlin)"),
        ("0 9 * * 1-5", "at 09:00 on Monday through Friday (Europe/Berlin)"),
        ("*/5 * * * *", "every 5 minutes (Europe/Berlin)"),
        ("*/7 * * * *", "every seventh minute of every hour (Europe/Berlin)"),
        ("*/15 8-18 * * MON-FRI", "every 15 minutes from 08:00 through 18:59 on Monday through Friday (Europe/Berlin)"),
        ("*/5 */2 * * *", "every fifth minute past every second hour (Europe/Berlin)"),
        ("*/10 * * * * *", "every 10 seconds (Europe/Berlin)"),
        ("0 0 31 * *", "at 00:00 on the 31st day of every month (Europe/Berlin)"),
        ("@hourly", "at the start of every hour (Europe/Berlin)"),
    ],
)
def test_english(expression: str, english: str) -> None:
    assert describe(cron(expression, "Europe/Berlin")) == english


def test_warnings() -> None:
    assert warnings_for(cron("0 9 * * *", "Europe/Berlin"), NOW) == []
    assert warnings_for(cron("*/5 * * * *", "America/New_York"), NOW) == []
    assert "either matches" in warnings_for(cron("0 9 1 * MON"), NOW)[0]
    assert "without a day 31" in warnings_for(cron("0 9 31 * *"), NOW)[0]
    (gap,) = warnings_for(cron("30 2 * * *", "America/New_York"), NOW)
    assert "2026-03-08 02:30 does not exist" in gap
    assert "runs at 2026-03-08 03:00 EDT instead" in gap
    (fold,) = warnings_for(cron("30 1 * * *", "America/New_York", dst="literal"), NOW)
    assert "2026-11-01 01:30 comes twice" in fold
    assert "both times" in fold


def test_latest_is_cheap_over_many_occurrences() -> None:
    trigger = cron("* * * * * *")
    until = Instant(NOW + 400 * DAY)
    assert trigger.latest(NOW, until) == until
    assert trigger.count(NOW, until) == 1001
    january = cron("* * * 1 *")
    assert january.latest(NOW, at(2027, 6, 1)) == at(2027, 1, 31, 23, 59)


def test_nothing_lies_beyond_the_last_instant() -> None:
    trigger = CronTrigger(expression="* * * * *", timezone="Pacific/Kiritimati")
    assert trigger.next_after(LATEST) is None
    assert trigger.next_after(Instant(LATEST * 3)) is None
    assert trigger.next_after(Instant(-(10**20))) == 0
    literal = CronTrigger(expression="0 0 1 1 *", timezone="America/New_York", dst="literal")
    assert literal.next_after(Instant(LATEST - DAY)) is None


def test_a_stored_trigger_that_was_tampered_with_is_refused() -> None:
    stored = cron("0 9 * * *").to_dict()
    for change in ({"type": "x"}, {"expression": 5}, {"dst": "x"}, {"start": "soon"}, {"jitter_us": 1.5}, {"more": 1}):
        with pytest.raises(InvalidTrigger):
            trigger_from_dict(stored | change)
    with pytest.raises(UnknownZone):
        trigger_from_dict(stored | {"timezone": "Mars/Base"})
    for text in ("", "[]", "null", "{", "[" * 100_000):
        with pytest.raises(InvalidTrigger):
            trigger_from_json(text)


def test_the_stored_text_is_canonical() -> None:
    trigger = cron("0  9 * * *", "Europe/Berlin", start="2026-03-01", jitter=1.5, dst="literal")
    assert trigger_to_json(trigger) == (
        '{"dst":"literal","expression":"0 9 * * *","jitter_us":1500000,"start":"2026-02-28T23:00:00.000000Z",'
        '"timezone":"Europe/Berlin","type":"cron"}'
    )
    assert trigger_from_json(trigger_to_json(trigger)) is trigger_from_json(trigger_to_json(trigger))


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.integers(1, high).map(lambda size: f"*/{size}")
    listed = st.lists(st.one_of(number.map(str), span), min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), step, listed)


expressions = st.tuples(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 7)).map(" ".join)
zones = st.sampled_from(
    ["UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu"]
)
instants = st.integers(0, at(2060, 1, 1)).map(Instant)
triggers = st.builds(
    CronTrigger,
    expression=st.one_of(expressions, expressions.map(lambda text: f"*/7 {text}")),
    timezone=zones,
    dst=st.sampled_from(["debian", "literal"]),
)


@given(trigger=triggers, instant=instants)
@settings(max_examples=150, deadline=None)
def test_instants_strictly_increase_and_nothing_lies_between(trigger: CronTrigger, instant: Instant) -> None:
    previous = instant
    for _ in range(20):
        following = trigger.next_after(previous)
        assert following is not None
        assert following > previous
        middle = Instant((previous + following) // 2)
        assert trigger.next_after(middle) == following
        assert trigger.next_after(Instant(following - 1)) == following
        previous = following


@given(trigger=triggers, after=instants, length=st.integers(0, 3 * DAY))
@settings(max_examples=100, deadline=None)
def test_latest_and_count_agree_with_iterating(trigger: CronTrigger, after: Instant, length: int) -> None:
    until = Instant(after + length)
    found: list[Instant] = []
    instant = trigger.next_after(after)
    while instant is not None and instant <= until and len(found) < 400:
        found.append(instant)
        instant = trigger.next_after(instant)
    if len(found) == 400:
        until = found[-1]
    assert trigger.latest(after, until) == (found[-1] if found else None)
    assert trigger.count(after, until) == len(found)
    assert trigger.count(after, until, cap=5) == min(len(found), 6)


@given(trigger=triggers, start=st.none() | instants, jitter=st.integers(0, HOUR))
def test_round_trip(trigger: CronTrigger, start: Instant | None, jitter: int) -> None:
    whole = CronTrigger(
        expression=trigger.expression, timezone=trigger.timezone, dst=trigger.dst, start=start, jitter=jitter
    )
    again = trigger_from_json(trigger_to_json(whole))
    assert again == whole
    assert hash(again) == hash(whole)
    assert trigger_to_json(again) == trigger_to_json(whole)


@given(expression=expressions, instant=instants)
@settings(max_examples=150, deadline=None)
def test_equal_to_cronsim_where_clocks_never_change(expression: str, instant: Instant) -> None:
    trigger = CronTrigger(expression=expression, timezone="UTC")
    assert trigger.next_after(instant) == instant_of(next(CronSim(expression, datetime_of(instant))))


@given(text=st.text(max_size=40) | st.text(alphabet="0123456789*/-,#LWFRI @", max_size=30))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_trigger_or_a_clean_error(text: str) -> None:
    try:
        trigger = cron(text, "Europe/Berlin")
    except InvalidTrigger as error:
        assert error.field == "expression"
    else:
        assert trigger.next_after(NOW) is not None
        assert "(Europe/Berlin)" in describe(trigger)


def seconds_per_step(steps: int, step: object) -> float:
    assert callable(step)
    best = float("inf")
    for _ in range(5):
        begun = time.process_time()
        for _ in range(steps):
            step()
        best = min(best, time.process_time() - begun)
    return best / steps


@pytest.mark.slow
def test_a_step_is_at_least_five_times_faster_than_cronsim() -> None:
    """A ratio, taken side by side, so that a busy machine does not decide it."""
    start = datetime(2026, 5, 1, tzinfo=known_zone("Europe/Berlin"))
    trigger = CronTrigger(expression="0 9 * * *", timezone="Europe/Berlin")
    instant = instant_of(start)

    def step() -> None:
        nonlocal instant
        instant = trigger.next_after(instant) or instant
        if instant > NOW + 300 * DAY:
            instant = instant_of(start)

    simulation = CronSim("0 9 * * *", start)
    theirs = seconds_per_step(200, lambda: next(simulation))
    assert seconds_per_step(2000, step) * 5 < theirs


def test_minutes_seconds_and_days_line_up() -> None:
    trigger = cron("59 59 23 31 12 *")
    first = trigger.next_after(NOW)
    assert first == at(2026, 12, 31, 23, 59, 59)
    assert first is not None
    assert datetime_of(first) + timedelta(microseconds=SECOND) == datetime(2027, 1, 1, tzinfo=UTC)
    assert trigger.next_after(Instant(first + MINUTE)) == at(2027, 12, 31, 23, 59, 59)
