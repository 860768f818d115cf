from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND, Instant, instant_of
from duetime.engine.errors import UnknownZone, UnreadableTime
from duetime.engine.times import ReadTime, format_local, iso_local, read_duration, read_exact, read_time
from duetime.engine.times.wall_clock import DAY_SECONDS, LAST_SECOND, LATEST, WallClock, wall_clock

ZONE = "America/Los_Angeles"
NOW = instant_of(datetime(2026, 2, 9, 18, 30, tzinfo=UTC))  # a Monday, 10:30 in Los Angeles


def read(text: object, zone: str = ZONE) -> ReadTime:
    return read_time(text, zone=zone, now=NOW)


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("2026-02-10T15:00:00", "2026-02-10T15:00:00-08:00"),
        ("2026-02-10 15:00", "2026-02-10T15:00:00-08:00"),
        ("2026-02-10t15:00z", "2026-02-10T07:00:00-08:00"),
        ("2026-02-10T15:00:00+01:00", "2026-02-10T06:00:00-08:00"),
        ("2026-02-10 15:00 +01:00", "2026-02-10T06:00:00-08:00"),
        ("2026-02-10T15:00:00.25Z", "2026-02-10T07:00:00.250000-08:00"),
        ("20260210T150000Z", "2026-02-10T07:00:00-08:00"),
        ("2026-02-10 3:00 PM", "2026-02-10T15:00:00-08:00"),
        ("2026-02-10 12:00 am", "2026-02-10T00:00:00-08:00"),
        ("2026-02-10 12:30 p.m.", "2026-02-10T12:30:00-08:00"),
        ("Feb 10, 2026 3:00 PM", "2026-02-10T15:00:00-08:00"),
        ("february 10th 2026 at 3pm", "2026-02-10T15:00:00-08:00"),
        ("10 Feb 2026 15:00:30", "2026-02-10T15:00:30-08:00"),
        ("Feb 10, 2026 3:00 PM PST", "2026-02-10T15:00:00-08:00"),
        ("Feb 10, 2026 3:00 PM UTC", "2026-02-10T07:00:00-08:00"),
        ("15:30", "2026-02-09T15:30:00-08:00"),
        ("10:30", "2026-02-10T10:30:00-08:00"),
        ("3pm", "2026-02-09T15:00:00-08:00"),
        ("at 9 am", "2026-02-10T09:00:00-08:00"),
        ("noon", "2026-02-09T12:00:00-08:00"),
        ("in 2 hours", "2026-02-09T12:30:00-08:00"),
        ("In 1 day 3 hours", "2026-02-10T13:30:00-08:00"),
        ("in 1 day, 3 hours and 5 minutes", "2026-02-10T13:35:00-08:00"),
        ("in 2h30m", "2026-02-09T13:00:00-08:00"),
        ("in an hour", "2026-02-09T11:30:00-08:00"),
        ("90 seconds from now", "2026-02-09T10:31:30-08:00"),
        ("in 1.5 hours", "2026-02-09T12:00:00-08:00"),
        ("tomorrow 9am", "2026-02-10T09:00:00-08:00"),
        ("9am tomorrow", "2026-02-10T09:00:00-08:00"),
        ("today 17:00", "2026-02-09T17:00:00-08:00"),
        ("today 9:00", "2026-02-09T09:00:00-08:00"),
        ("friday 9am", "2026-02-13T09:00:00-08:00"),
        ("on Friday at 9am", "2026-02-13T09:00:00-08:00"),
        ("9am on friday", "2026-02-13T09:00:00-08:00"),
        ("monday 9am", "2026-02-16T09:00:00-08:00"),
        ("monday 11am", "2026-02-09T11:00:00-08:00"),
        ("next monday 11am", "2026-02-16T11:00:00-08:00"),
        ("next friday 9am", "2026-02-13T09:00:00-08:00"),
        ("now", "2026-02-09T10:30:00-08:00"),
        ("Feb 10 9am", "2026-02-10T09:00:00-08:00"),
        ("Feb 9 9am", "2027-02-09T09:00:00-08:00"),
        ("feb 29 9am", "2028-02-29T09:00:00-08:00"),
    ],
)
def test_what_people_write(text: str, local: str) -> None:
    assert iso_local(read(text).instant, ZONE) == local


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "foo", "9", "tomorrow 9", "25:00", "12:60", "13pm", "0pm", "2026-13-01", "2026-02-30",
        "31 feb 2026", "31.02.2026", "13/13/2026",
        "2026-02-10x15:00", "2026-02-10T15:00:60", "in -2 hours", "in hours", "in 2", "yesterdays", "some ago",
        "\0", "٣pm", "in ٣ hours", "1969-12-31", "9999-12-31", "0001-01-01T00:00:00+23:00", "in 999999999 weeks",
        "Feb 10, 2026 3:00 PM CET", "x" * 5000, "9am 9am", "friday friday", None, 5, ["now"],
    ],
)  # fmt: skip
def test_what_cannot_be_read(text: object) -> None:
    with pytest.raises(UnreadableTime) as caught:
        read(text)
    if isinstance(text, str) and len(text) <= 100:
        assert str(caught.value) == f'could not parse "{text}" as a date/time.'
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("2026-02-10T15:00:00", None),
        ("in 2 hours", None),
        ("2026-02-10", "no time given: read as 00:00 in America/Los_Angeles"),
        ("15:30", "no date given: read as Feb 9, 2026 3:30 PM PST"),
        ("friday 9am", "friday: read as Feb 13, 2026 9:00 AM PST"),
        ("Feb 10 9am", "no year given: read as Feb 10, 2026 9:00 AM PST"),
        ("2026-11-01 01:30", "that time comes twice in America/Los_Angeles: the first one is meant"),
        (
            "2026-03-08 02:30",
            "clocks go forward over that time in America/Los_Angeles: moved to Mar 8, 2026 3:30 AM PDT",
        ),
        ("in 40 days", "a day counts as 24 hours; clocks change in between"),
    ],
)
def test_what_was_assumed_is_said(text: str, note: str | None) -> None:
    assert read(text).note == note


@pytest.mark.parametrize(
    ("text", "hours"),
    [("2026-02-10", 24), ("Feb 10", 24), ("2026-11-01", 25), ("2026-03-08", 23), ("2026-02-10T00:00", 0), ("now", 0)],
)
def test_a_day_without_a_time_ends_when_it_is_over(text: str, hours: int) -> None:
    found = read(text)
    assert found.last(ZONE) - found.instant == max(0, hours * HOUR - 1)


def test_gap_and_fold() -> None:
    assert iso_local(read("2026-03-08T02:30:00").instant, ZONE) == "2026-03-08T03:30:00-07:00"
    assert iso_local(read("2026-11-01T01:30:00").instant, ZONE) == "2026-11-01T01:30:00-07:00"
    assert iso_local(read("Nov 1, 2026 1:30 AM PST").instant, ZONE) == "2026-11-01T01:30:00-08:00"
    assert iso_local(read("Nov 1, 2026 1:30 AM PDT").instant, ZONE) == "2026-11-01T01:30:00-07:00"
    assert iso_local(read("2011-12-30 10:00", "Pacific/Apia").instant, "UTC") == "2011-12-30T20:00:00+00:00"


def test_at_the_end_of_time_nothing_overflows() -> None:
    last = Instant(LATEST - HOUR)
    for text in ("tomorrow 9am", "monday 9am", "dec 29 9am", "00:30", "in 2 hours", "next friday"):
        with pytest.raises(UnreadableTime):
            read_time(text, zone="Pacific/Kiritimati", now=last)


def test_an_unknown_zone_is_not_an_unreadable_time() -> None:
    with pytest.raises(UnknownZone):
        read("now", "Mars/Base")


def test_how_instants_are_shown() -> None:
    due = instant_of(datetime(2026, 2, 10, 23, tzinfo=UTC))
    assert format_local(due, ZONE) == "Feb 10, 2026 3:00 PM PST"
    assert format_local(due, "UTC") == "Feb 10, 2026 11:00 PM UTC"
    assert format_local(due, "Europe/Istanbul") == "Feb 11, 2026 2:00 AM +03"
    assert format_local(Instant(0), "UTC") == "Jan 1, 1970 12:00 AM UTC"
    assert iso_local(due, "Asia/Kathmandu") == "2026-02-11T04:45:00+05:45"
    assert iso_local(Instant(due + 1), "UTC") == "2026-02-10T23:00:00.000001+00:00"
    assert iso_local(LATEST, "Pacific/Kiritimati").startswith("9999-12-30T14:00:00")


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("1d", DAY),
        ("2h30m", 2 * HOUR + 30 * MINUTE),
        ("1d10h30m50s", DAY + 10 * HOUR + 30 * MINUTE + 50 * SECOND),
        ("30m", 30 * MINUTE),
        ("90s", 90 * SECOND),
        ("0s", 0),
        ("36525d", 36_525 * DAY),
    ],
)
def test_durations(text: str, length: int) -> None:
    assert read_duration(text) == length


@pytest.mark.parametrize(
    "text", ["", "5", "1h1d", "1h1h", "1w", "-1h", "1.5h", "1 h", "h", "1D", "36526d", "9" * 500 + "d", "٣h", None, 6]
)
def test_durations_that_are_refused(text: object) -> None:
    with pytest.raises(UnreadableTime, match=r"could not parse .* as a duration; write it like 30m") as caught:
        read_duration(text)
    assert caught.value.field == "duration"


@given(text=st.text(max_size=120) | st.text(alphabet="0123456789-:T Zapm+.,infebdayhour", max_size=30))
@settings(max_examples=400, deadline=None)
def test_any_text_is_an_instant_or_a_clean_error(text: str) -> None:
    try:
        found = read(text)
    except UnreadableTime as error:
        assert error.field == "at"
    else:
        assert 0 <= found.instant <= LATEST


zones = st.sampled_from([ZONE, "UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Kiritimati"])


@given(instant=st.integers(0, LATEST).map(Instant), zone=zones)
def test_iso_reads_back_to_the_microsecond(instant: Instant, zone: str) -> None:
    assert read(iso_local(instant, zone), "UTC").instant == instant


@given(minute=st.integers(DAY // MINUTE, LATEST // MINUTE // 40), zone=zones)
@settings(deadline=None)
def test_what_is_shown_reads_back(minute: int, zone: str) -> None:
    instant = Instant(minute * MINUTE)
    assert read(format_local(instant, zone), zone).instant == instant


@given(local=st.integers(0, 4_000_000_000), zone=zones)
@settings(max_examples=300, deadline=None)
def test_a_wall_clock_time_is_resolved_to_an_instant_that_shows_it_unless_it_is_skipped(local: int, zone: str) -> None:
    clock = wall_clock(zone)
    t, kind = clock.resolve(local)
    shown = t + clock.stretch(t).offset
    assert shown > local if kind == "gap" else shown == local
    assert clock.first_reach(local) <= t


@pytest.mark.parametrize("zone", ["UTC", "Europe/Warsaw", "Africa/Casablanca", "Australia/Lord_Howe", "Pacific/Apia"])
def test_the_changes_of_a_year_are_the_same_from_every_second_of_a_day(zone: str) -> None:
    clock, year = wall_clock(zone), 366 * DAY_SECONDS
    starts = {1_800_000_000, 1_800_000_001, LAST_SECOND - DAY_SECONDS}
    for change in clock.changes(1_800_000_000, 1_800_000_000 + year):
        starts |= {change.at - 1, change.at, change.at - year - 1, change.at - year}
    for after in sorted(starts):
        assert clock.changes_within_a_year(after) == list(clock.changes(after, min(after + year, LAST_SECOND)))


def test_the_changes_of_a_zone_are_kept_for_some_centuries_only() -> None:
    clock = WallClock("Europe/Berlin")
    for year in range(1200):
        assert clock.stretch(year * 366 * DAY_SECONDS).offset in (3600, 7200)
    assert len(clock._blocks) <= 1024


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-05T15:00:00Z",
        "2026-02-05T15:00:00+00:00",
        "2026-02-05T15:00:00-05:30",
        "2026-02-05T15:00:00.123456Z",
        "2026-02-05T15:00:00.123456+14:00",
    ],
)
def test_an_exact_time_is_read_as_any_other(text: str) -> None:
    assert read_exact(text) == read(text).instant


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-05T15:00:00",
        "2026-02-05T15:00:00.123456",
        "2026-02-05 15:00:00+00:00",
        "2026-02-35T15:00:00+00:00",
        "1969-12-31T23:59:59Z",
        "9999-12-31T23:59:59Z",
        "in 1 hour, 20 minute",
        20,
        None,
    ],
)
def test_a_time_that_needs_a_zone_or_a_closer_look_is_not_exact(text: object) -> None:
    assert read_exact(text) is None
