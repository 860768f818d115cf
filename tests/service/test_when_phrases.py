"""Rules in words: what they are stored as, and when they fire, against instants that were worked out by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from duetime.engine.clock import Instant, datetime_of, instant_of
from duetime.engine.errors import InvalidInput
from duetime.engine.triggers import build_trigger, describe, trigger_from_json, trigger_to_json
from duetime.service.when import read_phrase, read_times

NEW_YORK, BERLIN, AUCKLAND = "America/New_York", "Europe/Berlin", "Pacific/Auckland"
LORD_HOWE, KOLKATA = "Australia/Lord_Howe", "Asia/Kolkata"
ZONES = (NEW_YORK, BERLIN, AUCKLAND, LORD_HOWE, KOLKATA)
# The local time is 10:30 on Friday, 12 March 2027, in each zone, whose offsets are -5:00, +1:00, +13:00, +11:00, +5:30.
FRIDAY = dict(zip(ZONES, (
    "2027-03-12T15:30Z", "2027-03-12T09:30Z", "2027-03-11T21:30Z", "2027-03-11T23:30Z", "2027-03-12T05:00Z",
), strict=True))  # fmt: skip


def at(text: str) -> Instant:
    return instant_of(datetime.fromisoformat(text))


def times(text: str, zone: str, now: str, count: int) -> tuple[str, ...]:
    when = read_times({"when": text})
    trigger = build_trigger(when.type, when.config, zone=zone, now=at(now))
    assert trigger_from_json(trigger_to_json(trigger)) == trigger
    found: list[str] = []
    instant = at(now)
    while len(found) < count:
        following = trigger.next_after(instant)
        assert following is not None
        found.append(datetime_of(following).strftime("%Y-%m-%dT%H:%MZ"))
        instant = following
    return tuple(found)


@pytest.mark.parametrize(
    ("text", "due"),
    [
        # 08:30 on Monday the 15th. New York has summer time by then.
        ("every weekday at 8:30",
         ("2027-03-15T12:30Z", "2027-03-15T07:30Z", "2027-03-14T19:30Z", "2027-03-14T21:30Z", "2027-03-15T03:00Z")),
        # 17:00 on Friday the 26th.
        ("last friday of the month 5pm",
         ("2027-03-26T21:00Z", "2027-03-26T16:00Z", "2027-03-26T04:00Z", "2027-03-26T06:00Z", "2027-03-26T11:30Z")),
        # 16:00 on Tuesday the 16th.
        ("every second tuesday at 4pm",
         ("2027-03-16T20:00Z", "2027-03-16T15:00Z", "2027-03-16T03:00Z", "2027-03-16T05:00Z", "2027-03-16T10:30Z")),
        # 12:00 on Friday the 12th: 09:00 and twice 90 minutes.
        ("every 90 minutes between 9:00 and 17:00 on weekdays",
         ("2027-03-12T17:00Z", "2027-03-12T11:00Z", "2027-03-11T23:00Z", "2027-03-12T01:00Z", "2027-03-12T06:30Z")),
        # 10:30 on Saturday the 13th.
        ("every day",
         ("2027-03-13T15:30Z", "2027-03-13T09:30Z", "2027-03-12T21:30Z", "2027-03-12T23:30Z", "2027-03-13T05:00Z")),
        # 09:00 on Saturday the 13th.
        ("tomorrow morning",
         ("2027-03-13T14:00Z", "2027-03-13T08:00Z", "2027-03-12T20:00Z", "2027-03-12T22:00Z", "2027-03-13T03:30Z")),
    ],
)  # fmt: skip
def test_every_phrase_in_five_zones(text: str, due: tuple[str, ...]) -> None:
    assert tuple(times(text, zone, FRIDAY[zone], 1)[0] for zone in ZONES) == due


@pytest.mark.parametrize(
    ("text", "zone", "now", "due"),
    [
        # New York: clocks go forward at 02:00 on Sunday, 14 March 2027.
        ("every weekday at 8:30", NEW_YORK, "2027-03-12T12:00Z", ("2027-03-12T13:30Z", "2027-03-15T12:30Z")),
        ("last friday of the month 5pm", NEW_YORK, "2027-02-26T12:00Z", ("2027-02-26T22:00Z", "2027-03-26T21:00Z")),
        ("every second tuesday at 4pm", NEW_YORK, "2027-03-03T12:00Z", ("2027-03-09T21:00Z", "2027-03-23T20:00Z")),
        ("every 90 minutes between 9:00 and 17:00 on weekdays", NEW_YORK, "2027-03-12T19:00Z",
         ("2027-03-12T20:00Z", "2027-03-12T21:30Z", "2027-03-15T13:00Z", "2027-03-15T14:30Z")),
        ("every day", NEW_YORK, "2027-03-12T14:00Z", ("2027-03-13T14:00Z", "2027-03-14T13:00Z")),
        ("every 24h", NEW_YORK, "2027-03-12T14:00Z", ("2027-03-13T14:00Z", "2027-03-14T14:00Z")),
        ("every 2 days at 9", NEW_YORK, "2027-03-12T12:00Z", ("2027-03-12T14:00Z", "2027-03-14T13:00Z")),
        # In a window that meets the gap, time goes on: 01:00 and 01:30 EST, then 03:00 and 03:30 EDT.
        ("every 30 minutes between 1:00 and 3:30", NEW_YORK, "2027-03-14T05:00Z",
         ("2027-03-14T06:00Z", "2027-03-14T06:30Z", "2027-03-14T07:00Z", "2027-03-14T07:30Z", "2027-03-15T05:00Z")),
        # A window that begins in the gap begins right after it, at 03:00 EDT.
        ("every hour between 2:30 and 5:00", NEW_YORK, "2027-03-14T05:00Z",
         ("2027-03-14T07:00Z", "2027-03-14T08:00Z", "2027-03-14T09:00Z", "2027-03-15T06:30Z")),
        # Berlin: clocks go back at 03:00 on Sunday, 31 October 2027. 01:00 CEST is 23:00 UTC; the window has 4 hours.
        ("every hour between 1:00 and 4:00", BERLIN, "2027-10-30T22:30Z",
         ("2027-10-30T23:00Z", "2027-10-31T00:00Z", "2027-10-31T01:00Z", "2027-10-31T02:00Z", "2027-10-31T03:00Z",
          "2027-11-01T00:00Z")),
        ("every weekday at 8:30", BERLIN, "2027-10-29T05:00Z", ("2027-10-29T06:30Z", "2027-11-01T07:30Z")),
        ("last friday of the month 5pm", BERLIN, "2027-10-01T05:00Z", ("2027-10-29T15:00Z", "2027-11-26T16:00Z")),
        ("every second tuesday at 4pm", BERLIN, "2027-10-20T05:00Z", ("2027-10-26T14:00Z", "2027-11-09T15:00Z")),
        # A window across midnight belongs to the day on which it begins.
        ("every 4 hours between 22:00 and 6:00 on fridays", KOLKATA, "2027-03-12T05:00Z",
         ("2027-03-12T16:30Z", "2027-03-12T20:30Z", "2027-03-13T00:30Z", "2027-03-19T16:30Z")),
    ],
)  # fmt: skip
def test_phrases_across_a_clock_change(text: str, zone: str, now: str, due: tuple[str, ...]) -> None:
    assert times(text, zone, now, len(due)) == due


@pytest.mark.parametrize(
    ("text", "type_", "config"),
    [
        ("every weekday at 8:30", "cron", {"expression": "30 8 * * 1-5"}),
        ("weekdays at 8", "cron", {"expression": "0 8 * * 1-5"}),
        ("daily at 9am", "cron", {"expression": "0 9 * * *"}),
        ("every day at 9 and 17", "cron", {"expression": "0 9,17 * * *"}),
        ("every morning", "cron", {"expression": "0 9 * * *"}),
        ("every weekday evening", "cron", {"expression": "0 18 * * 1-5"}),
        ("every monday and thursday at noon", "cron", {"expression": "0 12 * * 1,4"}),
        ("Mondays at 9", "cron", {"expression": "0 9 * * 1"}),
        ("every monday to friday at 9", "cron", {"expression": "0 9 * * 1-5"}),
        ("every sat, sun at 10am", "cron", {"expression": "0 10 * * 0,6"}),
        ("weekly on monday at 9", "cron", {"expression": "0 9 * * 1"}),
        ("on the 1st of every month at 9am", "cron", {"expression": "0 9 1 * *"}),
        ("every month on the 15th at 9", "cron", {"expression": "0 9 15 * *"}),
        ("every year on dec 24 at 6pm", "cron", {"expression": "0 18 24 12 *"}),
        ("every 2 years on march 1st at 9", "rrule",
         {"rrule": "FREQ=YEARLY;INTERVAL=2;BYMONTH=3;BYMONTHDAY=1;BYHOUR=9;BYMINUTE=0;BYSECOND=0"}),
        ("every hour between 9am and 5", "interval", {"hours": 1, "between": "09:00-17:00"}),
        ("every hour between noon and 6", "interval", {"hours": 1, "between": "12:00-18:00"}),
        ("every hour between 10pm and 6", "interval", {"hours": 1, "between": "22:00-06:00"}),
        ("every hour between 9:00 and 05:00", "interval", {"hours": 1, "between": "09:00-05:00"}),
        ("every day at 9 until dec 24", "cron", {"expression": "0 9 * * *", "end": "dec 24"}),
        ("0 9 * * 1-5", "cron", {"expression": "0 9 * * 1-5"}),
        ("@daily", "cron", {"expression": "@daily"}),
        ("first monday of the month at 10", "rrule",
         {"rrule": "FREQ=MONTHLY;BYDAY=1MO;BYHOUR=10;BYMINUTE=0;BYSECOND=0"}),
        ("last day of the month at 6pm", "rrule",
         {"rrule": "FREQ=MONTHLY;BYMONTHDAY=-1;BYHOUR=18;BYMINUTE=0;BYSECOND=0"}),
        ("last weekday of the month at 4pm", "rrule",
         {"rrule": "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=16;BYMINUTE=0;BYSECOND=0"}),
        ("every 3 months on the 1st at 9", "rrule",
         {"rrule": "FREQ=MONTHLY;INTERVAL=3;BYMONTHDAY=1;BYHOUR=9;BYMINUTE=0;BYSECOND=0"}),
        ("every month", "rrule", {"rrule": "FREQ=MONTHLY"}),
        ("RRULE:FREQ=WEEKLY", "rrule", {"rrule": "FREQ=WEEKLY"}),
        ("every 15 minutes", "interval", {"minutes": 15}),
        ("every half an hour", "interval", {"minutes": 30}),
        ("hourly", "interval", {"hours": 1}),
        ("every 2h30m", "interval", {"seconds": 9000}),
        ("every 1d", "interval", {"days": 1}),
        ("every second", "interval", {"seconds": 1}),
        ("every other day", "interval", {"days": 2}),
        ("every second day at 9", "interval", {"days": 2, "start": "at 09:00"}),
        ("every 2 days at 9 starting monday", "interval", {"days": 2, "start": "monday at 09:00"}),
        ("every 2 hours from 9 to 5", "interval", {"hours": 2, "between": "09:00-17:00"}),
        ("every 2 hours on weekdays", "interval", {"hours": 2, "weekdays": "mon,tue,wed,thu,fri"}),
        ("every day at 9 through thursday", "cron", {"expression": "0 9 * * *", "end": "thursday"}),
        ("every monday through friday at 9", "cron", {"expression": "0 9 * * 1-5"}),
        ("every weekday at half past eight", "cron", {"expression": "30 8 * * 1-5"}),
        ("weekdays at a quarter to nine", "cron", {"expression": "45 8 * * 1-5"}),
        ("every monday at ten to six pm", "cron", {"expression": "50 17 * * 1"}),
        ("every day at 9 o'clock", "cron", {"expression": "0 9 * * *"}),
        ("every 2 hours from 10 to 6", "interval", {"hours": 2, "between": "10:00-18:00"}),
        ("every 30 minutes between half past eight and noon", "interval", {"minutes": 30, "between": "08:30-12:00"}),
        ("noon on weekdays", "cron", {"expression": "0 12 * * 1-5"}),
        ("at noon every monday", "cron", {"expression": "0 12 * * 1"}),
        ("midnight on fridays", "cron", {"expression": "0 0 * * 5"}),
        ("every christmas eve at 6pm", "cron", {"expression": "0 18 24 12 *"}),
        ("every new year\u2019s day at noon", "cron", {"expression": "0 12 1 1 *"}),
        ("every weekday at 8 starting in two weeks until december 24", "cron",
         {"expression": "0 8 * * 1-5", "start": "in 2 weeks", "end": "december 24"}),
        ("until Christmas every day at 9", "cron", {"expression": "0 9 * * *", "end": "december 25"}),
        ("starting monday, daily at 9", "cron", {"expression": "0 9 * * *", "start": "monday"}),
        ("every hour starting tomorrow until new year's eve", "interval",
         {"hours": 1, "start": "tomorrow", "end": "december 31"}),
        ("first monday of the month at 10 until christmas", "rrule",
         {"rrule": "FREQ=MONTHLY;BYDAY=1MO;BYHOUR=10;BYMINUTE=0;BYSECOND=0", "end": "december 25"}),
        ("every day at 9 except sunday", "cron", {"expression": "0 9 * * 1,2,3,4,5,6"}),
        ("every day except saturdays and sundays at 9", "cron", {"expression": "0 9 * * 1-5"}),
        ("weekdays at 8:30, except on fridays, until christmas", "cron",
         {"expression": "30 8 * * 1,2,3,4", "end": "december 25"}),
        ("every morning but not on weekends", "cron", {"expression": "0 9 * * 1-5"}),
        ("every 2 hours except weekends", "interval", {"hours": 2, "weekdays": "mon,tue,wed,thu,fri"}),
        ("friday at 9", "once", {"run_at": "friday at 9"}),
        ("in 2 hours", "once", {"run_at": "in 2 hours"}),
        ("tues 9am", "once", {"run_at": "tues 9am"}),
    ],
)  # fmt: skip
def test_what_a_phrase_is_stored_as(text: str, type_: str, config: dict[str, Any]) -> None:
    assert read_phrase(text) == (type_, config)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "give a time such as"),
        ("x" * 300, "give a time such as"),
        ("every weekday", "say at what time"),
        ("every foo", 'could not read "foo"; write it like "every weekday at 8:30"'),
        ("every tuesday to 9", 'could not read "every tuesday to 9" as a rule; write it like "every weekday at 8:30"'),
        ("every day at 8:30 and 17:00", "need a schedule each"),
        ("every 25 hours at 9", "could not read"),
        ("every day to friday at 9", "could not read"),
        ("every weekday to sunday at 9", "could not read"),
        ("every day at 25:00", 'could not read "at 25:00"; give times such as "9:00"'),
        (
            "every hour between 9 and 99",
            'could not read "between 9 and 99"; give a window such as "between 9:00 and 17:00"',
        ),
        ("every monday during lent at 9", 'could not read "during lent"; write it like'),
        ("every weekday at 8:30 sharp", 'could not read "sharp"; write it like'),
        ("every day at 9 except 25 december", 'could not read "except 25 december"; only days of the week can be'),
        ("every day at 9, except Christmas", 'could not read "except Christmas"; only days of the week can be'),
        ("every weekday at 9 except weekdays", 'could not read "except weekdays"'),
        ("every second tuesday except friday at 9", 'could not read "except friday"'),
        ("every tuesday between 9:00 and 17:00", "could not read"),
        ("every hour between 8:30 and 4:30", "say am or pm"),
        ("every other weekday at 9", 'say "every monday, wednesday and friday"'),
        ("every 45 minutes on mondays starting at 9:00", "name both ends"),
    ],
)
def test_a_phrase_that_says_too_little_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=r"^when: ") as refused:
        read_phrase(text)
    assert problem in refused.value.message and refused.value.field == "when"


@pytest.mark.parametrize(
    ("text", "now", "due", "end"),
    [
        # Berlin has summer time from 28 March to 31 October 2027: 09:00 is 08:00 UTC, or 07:00 UTC in summer.
        ("every day at 9 starting in two weeks", "2027-03-15T06:00Z", "2027-03-29T07:00Z", None),
        ("every 2 days at 9 starting in two weeks", "2027-03-15T06:00Z", "2027-03-29T07:00Z", None),
        ("every hour until halfway", "2027-03-15T06:00Z", None, None),
        # The end of 25 December is 22:59:59 UTC, even on that day itself and in the last days before.
        ("every day at 9 until christmas", "2027-03-15T06:00Z", "2027-03-15T08:00Z", "2027-12-25T22:59Z"),
        ("every day at 9 until christmas", "2027-12-24T12:00Z", "2027-12-25T08:00Z", "2027-12-25T22:59Z"),
        ("every day at 9 until christmas", "2027-12-25T07:00Z", "2027-12-25T08:00Z", "2027-12-25T22:59Z"),
        ("every day at 9 until christmas", "2027-12-26T07:00Z", "2027-12-26T08:00Z", "2028-12-25T22:59Z"),
        ("every day at 9 until new year's day", "2027-12-30T12:00Z", "2027-12-31T08:00Z", "2028-01-01T22:59Z"),
        ("every day at 9 starting december 31", "2027-12-31T07:00Z", "2027-12-31T08:00Z", None),
        ("every friday at 9 until friday", "2027-12-24T12:00Z", "2027-12-31T08:00Z", "2027-12-31T22:59Z"),
    ],
)
def test_limits_across_clock_changes_and_years(text: str, now: str, due: str | None, end: str | None) -> None:
    if due is None:
        with pytest.raises(InvalidInput, match='when: could not parse "halfway" as a date/time; give a time such as'):
            read_times({"when": text})
        return
    when = read_times({"when": text})
    trigger = build_trigger(when.type, when.config, zone=BERLIN, now=at(now))
    assert trigger.next_after(at(now)) == at(due)
    assert (trigger.end and datetime_of(trigger.end).strftime("%Y-%m-%dT%H:%MZ")) == end


@pytest.mark.parametrize("end", ["mar 14", "sunday", "2027-03-14", "march 14, 2027"])
def test_an_end_without_a_time_includes_its_day(end: str) -> None:
    trigger = build_trigger(*read_phrase(f"every day at 9 until {end}"), zone=BERLIN, now=at(FRIDAY[BERLIN]))
    assert describe(trigger).endswith("until 2027-03-14 23:59:59 CET")
    assert trigger.next_after(at("2027-03-13T12:00Z")) == at("2027-03-14T08:00Z")


def test_english() -> None:
    type_, config = read_phrase("every 90 minutes between 9:00 and 17:00 on weekdays")
    trigger = build_trigger(type_, config, zone=BERLIN, now=at(FRIDAY[BERLIN]))
    assert describe(trigger) == "every 1 hour 30 minutes between 09:00 and 17:00 on weekdays (Europe/Berlin)"


def test_one_way_to_say_when_is_enough() -> None:
    with pytest.raises(InvalidInput, match="exactly one of"):
        read_times({"when": "every day", "every": "1d"})
