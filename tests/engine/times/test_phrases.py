"""Times as people write them, in five zones, against instants that were worked out by hand."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetime.engine.clock import Instant, datetime_of, instant_of
from duetime.engine.errors import UnreadableTime
from duetime.engine.times import read_time
from duetime.engine.times.unread import unread_part

NEW_YORK, BERLIN, AUCKLAND = "America/New_York", "Europe/Berlin", "Pacific/Auckland"
LORD_HOWE, KOLKATA = "Australia/Lord_Howe", "Asia/Kolkata"
ZONES = (NEW_YORK, BERLIN, AUCKLAND, LORD_HOWE, KOLKATA)


WORDS = (
    "every",
    "monday",
    "at",
    "9",
    "half",
    "past",
    "to",
    "except",
    "until",
    "christmas",
    "starting",
    "in",
    "two",
    "foo",
)


def at(text: str) -> Instant:
    return instant_of(datetime.fromisoformat(text))


def read(text: str, zone: str, now: str) -> str:
    return datetime_of(read_time(text, zone=zone, now=at(now)).instant).strftime("%Y-%m-%dT%H:%MZ")


# The local time is 10:30 on Friday, 12 March 2027, in each zone, whose offsets are -5:00, +1:00, +13:00, +11:00, +5:30.
FRIDAY = dict(zip(ZONES, (
    "2027-03-12T15:30Z", "2027-03-12T09:30Z", "2027-03-11T21:30Z", "2027-03-11T23:30Z", "2027-03-12T05:00Z",
), strict=True))  # fmt: skip


@pytest.mark.parametrize(
    ("text", "due"),
    [
        # 20:00 on Friday the 12th.
        ("tonight",
         ("2027-03-13T01:00Z", "2027-03-12T19:00Z", "2027-03-12T07:00Z", "2027-03-12T09:00Z", "2027-03-12T14:30Z")),
        # 09:00 on Saturday the 13th.
        ("tomorrow at 9",
         ("2027-03-13T14:00Z", "2027-03-13T08:00Z", "2027-03-12T20:00Z", "2027-03-12T22:00Z", "2027-03-13T03:30Z")),
        ("tomorrow morning",
         ("2027-03-13T14:00Z", "2027-03-13T08:00Z", "2027-03-12T20:00Z", "2027-03-12T22:00Z", "2027-03-13T03:30Z")),
        # 18:00 on Friday the 12th.
        ("this evening",
         ("2027-03-12T23:00Z", "2027-03-12T17:00Z", "2027-03-12T05:00Z", "2027-03-12T07:00Z", "2027-03-12T12:30Z")),
        # 09:00 on Friday the 19th, because 9 o'clock has passed on the 12th. New York has summer time by then.
        ("friday at nine",
         ("2027-03-19T13:00Z", "2027-03-19T08:00Z", "2027-03-18T20:00Z", "2027-03-18T22:00Z", "2027-03-19T03:30Z")),
        # 09:00 on Monday the 15th. New York has summer time by then.
        ("next week",
         ("2027-03-15T13:00Z", "2027-03-15T08:00Z", "2027-03-14T20:00Z", "2027-03-14T22:00Z", "2027-03-15T03:30Z")),
        # 30 minutes later.
        ("in half an hour",
         ("2027-03-12T16:00Z", "2027-03-12T10:00Z", "2027-03-11T22:00Z", "2027-03-12T00:00Z", "2027-03-12T05:30Z")),
        # 10:30 on Monday, 12 April. The offsets are -4:00, +2:00, +12:00, +10:30 and +5:30 by then.
        ("in 1 month",
         ("2027-04-12T14:30Z", "2027-04-12T08:30Z", "2027-04-11T22:30Z", "2027-04-12T00:00Z", "2027-04-12T05:00Z")),
        # 17:00 on Friday the 12th.
        ("end of day",
         ("2027-03-12T22:00Z", "2027-03-12T16:00Z", "2027-03-12T04:00Z", "2027-03-12T06:00Z", "2027-03-12T11:30Z")),
        # 18:00 on 24 December: -5:00, +1:00, +13:00, +11:00 and +5:30.
        ("24.12.2026 18:00",
         ("2026-12-24T23:00Z", "2026-12-24T17:00Z", "2026-12-24T05:00Z", "2026-12-24T07:00Z", "2026-12-24T12:30Z")),
        ("Dec 24 6pm",
         ("2027-12-24T23:00Z", "2027-12-24T17:00Z", "2027-12-24T05:00Z", "2027-12-24T07:00Z", "2027-12-24T12:30Z")),
    ],
)  # fmt: skip
def test_every_phrase_in_five_zones(text: str, due: tuple[str, ...]) -> None:
    assert tuple(read(text, zone, FRIDAY[zone]) for zone in ZONES) == due


@pytest.mark.parametrize(
    ("text", "zone", "now", "due"),
    [
        # New York, Saturday, 13 March 2027, 10:00 EST: clocks go forward at 02:00 on Sunday.
        ("tomorrow at 9", NEW_YORK, "2027-03-13T15:00Z", "2027-03-14T13:00Z"),
        ("tomorrow morning", NEW_YORK, "2027-03-13T15:00Z", "2027-03-14T13:00Z"),
        ("tomorrow at 2:30", NEW_YORK, "2027-03-13T15:00Z", "2027-03-14T07:30Z"),  # 03:30 EDT: moved by the gap
        ("next week", NEW_YORK, "2027-03-13T15:00Z", "2027-03-15T13:00Z"),
        ("in 1 month", NEW_YORK, "2027-03-13T15:00Z", "2027-04-13T14:00Z"),
        ("in half an hour", NEW_YORK, "2027-03-14T06:45Z", "2027-03-14T07:15Z"),  # 01:45 EST, then 03:15 EDT
        ("tonight", NEW_YORK, "2027-03-14T06:45Z", "2027-03-15T00:00Z"),
        ("end of day", NEW_YORK, "2027-03-14T06:45Z", "2027-03-14T21:00Z"),
        # Berlin, Saturday, 30 October 2027, 10:00 CEST: clocks go back at 03:00 on Sunday.
        ("tomorrow at 9", BERLIN, "2027-10-30T08:00Z", "2027-10-31T08:00Z"),
        ("tomorrow at 2:30", BERLIN, "2027-10-30T08:00Z", "2027-10-31T00:30Z"),  # the first of the two
        ("in half an hour", BERLIN, "2027-10-31T00:45Z", "2027-10-31T01:15Z"),
        ("this evening", BERLIN, "2027-10-31T00:45Z", "2027-10-31T17:00Z"),
        ("friday at nine", BERLIN, "2027-10-30T08:00Z", "2027-11-05T08:00Z"),
        ("Dec 24 6pm", BERLIN, "2027-10-30T08:00Z", "2027-12-24T17:00Z"),
        # Lord Howe, Saturday, 3 April 2027, 10:00 +11: clocks go back by 30 minutes at 02:00 on Sunday.
        ("tomorrow at 9", LORD_HOWE, "2027-04-02T23:00Z", "2027-04-03T22:30Z"),
        # Auckland, Saturday, 3 April 2027, 10:00 NZDT: clocks go back at 03:00 on Sunday.
        ("tomorrow at 9", AUCKLAND, "2027-04-02T21:00Z", "2027-04-03T21:00Z"),
    ],
)
def test_phrases_across_a_clock_change(text: str, zone: str, now: str, due: str) -> None:
    assert read(text, zone, now) == due


@pytest.mark.parametrize(
    ("text", "now", "due"),
    [
        ("tonight", "2027-03-12T18:59Z", "2027-03-12T19:00Z"),
        ("tonight", "2027-03-12T19:00Z", "2027-03-12T20:00Z"),
        ("tonight", "2027-03-12T20:09Z", "2027-03-12T21:00Z"),
        ("tonight", "2027-03-12T22:00Z", "2027-03-12T19:00Z"),  # no full hour is left, so it is refused as past
        ("tonight at 8", "2027-03-12T20:09Z", "2027-03-12T19:00Z"),
        ("this evening", "2027-03-12T20:09Z", "2027-03-12T21:00Z"),
        ("this afternoon", "2027-03-12T15:30Z", "2027-03-12T16:00Z"),
        ("this afternoon", "2027-03-12T16:30Z", "2027-03-12T14:00Z"),
        ("this morning", "2027-03-12T09:30Z", "2027-03-12T10:00Z"),
        ("tomorrow evening", "2027-03-12T20:09Z", "2027-03-13T17:00Z"),
    ],
)
def test_a_part_of_today_that_has_begun_means_its_next_full_hour(text: str, now: str, due: str) -> None:
    assert read(text, BERLIN, now) == due


@pytest.mark.parametrize("text", ["03/04/2026", "03/04/2026 18:00", "3-4-2026"])
def test_an_ambiguous_date_is_refused_with_both_readings(text: str) -> None:
    with pytest.raises(UnreadableTime) as refused:
        read_time(text, zone=BERLIN, now=at(FRIDAY[BERLIN]))
    assert str(refused.value) == (
        f'could not parse "{text}" as a date/time. It could mean March 4 or April 3: write 2026-03-04 or 2026-04-03.'
    )


# Friday, 12 March 2027, 10:30 in Berlin, which is 09:30 UTC; 28 March begins summer time.
@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("12/24/2027 6pm", "2027-12-24T17:00Z"),
        ("24/12/2027 6pm", "2027-12-24T17:00Z"),
        ("05/05/2027 noon", "2027-05-05T10:00Z"),
        ("2027/12/24 18:00", "2027-12-24T17:00Z"),
        ("24.12. 18:00", "2027-12-24T17:00Z"),
        ("tonight at 8", "2027-03-12T19:00Z"),
        ("tonight at 9:30", "2027-03-12T20:30Z"),
        ("this afternoon", "2027-03-12T14:00Z"),
        ("tomorrow evening at 7", "2027-03-13T18:00Z"),
        ("saturday morning at 7", "2027-03-13T06:00Z"),
        ("monday morning", "2027-03-15T08:00Z"),
        ("in the morning", "2027-03-13T08:00Z"),
        ("at nine", "2027-03-13T08:00Z"),
        ("at nine tomorrow", "2027-03-13T08:00Z"),
        ("friday next week at 14:00", "2027-03-19T13:00Z"),
        ("next week at 10", "2027-03-15T09:00Z"),
        ("next month", "2027-04-01T07:00Z"),
        ("end of week", "2027-03-12T16:00Z"),
        ("end of the month", "2027-03-31T15:00Z"),
        ("tomorrow end of day", "2027-03-13T16:00Z"),
        ("EOD", "2027-03-12T16:00Z"),
        ("in two hours", "2027-03-12T11:30Z"),
        ("in an hour and a half", "2027-03-12T11:00Z"),
        ("ten minutes from now", "2027-03-12T09:40Z"),
        ("in a year", "2028-03-12T09:30Z"),
        ("half past eight", "2027-03-13T07:30Z"),
        ("half past eight pm", "2027-03-12T19:30Z"),
        ("at half past 8 tonight", "2027-03-12T19:30Z"),
        ("tonight at 12", "2027-03-12T23:00Z"),
        ("tonight at 12:30", "2027-03-12T23:30Z"),
        ("tonight at midnight", "2027-03-12T23:00Z"),
        ("tonight at 1", "2027-03-13T00:00Z"),
        ("tonight at 5", "2027-03-12T16:00Z"),
        ("tomorrow night at 12am", "2027-03-13T23:00Z"),
        ("saturday night at 1am", "2027-03-14T00:00Z"),
        ("tomorrow night at 11", "2027-03-13T22:00Z"),
        ("new year's eve at midnight", "2027-12-30T23:00Z"),
        ("tomorrow at quarter to nine", "2027-03-13T07:45Z"),
        ("a quarter past three pm", "2027-03-12T14:15Z"),
        ("quarter to one", "2027-03-12T11:45Z"),
        ("quarter to 12 am tomorrow", "2027-03-13T22:45Z"),
        ("twenty-five minutes past ten pm", "2027-03-12T21:25Z"),
        ("tomorrow at ten to nine", "2027-03-13T07:50Z"),
        ("nine o'clock tomorrow", "2027-03-13T08:00Z"),
        ("midnight", "2027-03-12T23:00Z"),
        ("christmas", "2027-12-24T23:00Z"),
        ("christmas day at noon", "2027-12-25T11:00Z"),
        ("6pm on Christmas Eve", "2027-12-24T17:00Z"),
        ("New Year\u2019s Eve at 23:59", "2027-12-31T22:59Z"),
        ("new year's day 10am", "2028-01-01T09:00Z"),
        ("in two weeks at 9", "2027-03-26T08:00Z"),
        ("in two weeks and 3 days at noon", "2027-03-29T10:00Z"),  # in summer time
        ("9am in 1 month", "2027-04-12T07:00Z"),
        ("2 months from now", "2027-05-12T08:30Z"),
    ],
)
def test_further_phrases(text: str, due: str) -> None:
    assert read(text, BERLIN, FRIDAY[BERLIN]) == due


@pytest.mark.parametrize(
    ("text", "now", "note"),
    [
        ("tomorrow at 5", "2027-03-12T09:30Z", "tomorrow: read as Mar 13, 2027 5:00 AM CET"),
        ("24.12.2027 at 6", "2027-03-12T09:30Z", "neither am nor pm given: read as Dec 24, 2027 6:00 AM CET"),
        ("dec 31 at midnight", "2027-03-12T09:30Z",
         "the midnight at which that day begins: read as Dec 31, 2027 12:00 AM CET"),
        ("end of day", "2027-03-12T09:30Z", "end of day: read as Mar 12, 2027 5:00 PM CET"),
        ("in 1 month", "2027-01-31T09:30Z", "that month has no day 31: read as Feb 28, 2027 10:30 AM CET"),
        ("in 1 month", "2027-02-28T01:30Z",
         "clocks go forward over that time in Europe/Berlin: moved to Mar 28, 2027 3:30 AM CEST"),
    ],
)  # fmt: skip
def test_what_was_assumed_is_said(text: str, now: str, note: str) -> None:
    assert read_time(text, zone=BERLIN, now=at(now)).note == note


# 10:30 on Friday, 12 March 2027, in Berlin.
@pytest.mark.parametrize(
    ("text", "doubtful"),
    [
        ("tonight", False),
        ("tonight at 1am", True),  # the night after this day
        ("dec 31 at midnight", True),  # at its beginning
        ("tomorrow morning", False),
        ("tomorrow at 17", False),
        ("monday 9am", False),
        ("noon", False),
        ("midnight", False),
        ("9am", False),  # today it has passed, so tomorrow is meant
        ("dec 24 6pm", False),
        ("christmas at noon", False),
        ("in two weeks at noon", False),
        ("in the morning", False),
        ("tomorrow at 5", True),  # in the morning or in the afternoon
        ("8:30", True),  # tomorrow, or today in the evening
        ("friday 9am", True),  # today it has passed, so next week is meant
        ("next friday 9am", True),
        ("this morning", True),  # 9:00 has passed, so the next full hour is meant
        ("march 12 9am", True),  # today it has passed, so next year is meant
        ("tomorrow", True),  # at midnight
        ("march 28 2:30 am", True),  # skipped by the clock change
    ],
)
def test_only_a_doubtful_reading_is_warned_of(text: str, doubtful: bool) -> None:
    time = read_time(text, zone=BERLIN, now=at(FRIDAY[BERLIN]))
    assert time.note is not None and time.doubt == (time.note if doubtful else None)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("tomorow at 9", "tomorow"),
        ("tomorrow at 9ish", "at 9ish"),
        ("roughly every monday at 9", "roughly"),
        ("every monday during lent at 9", "during lent"),
        ("every weekday at 8 except 25 december", "except 25 december"),
        ("soon", "soon"),
        ("until new year's eve", "until new year's eve"),
        ("every fooday at 25:00", "fooday at 25:00"),
        ("every 25 hours at 9", "every 25 hours at 9"),  # each word has a meaning
        ("may the " + "fourth " * 30 + "be with you", "may the " + "fourth " * 30 + "be with you"),
    ],
)
def test_the_part_that_was_not_understood(text: str, part: str) -> None:
    assert unread_part(text) == part


@given(text=st.text(max_size=60) | st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
@settings(max_examples=200, deadline=None)
def test_the_unread_part_of_any_text_is_a_part_of_it(text: str) -> None:
    assert " ".join(unread_part(text).split()) in " ".join(text.split())
