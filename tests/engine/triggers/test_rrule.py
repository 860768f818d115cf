from __future__ import annotations

import dataclasses
import gc
import time
from datetime import UTC, datetime, timedelta
from itertools import islice
from weakref import ref
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from duetime.engine.clock import DAY, Instant, datetime_of, instant_of
from duetime.engine.errors import InvalidTrigger
from duetime.engine.triggers import (
    RRuleTrigger,
    base,
    build_trigger,
    describe,
    trigger_from_dict,
    trigger_from_json,
    trigger_to_json,
    warnings_for,
)
from duetime.engine.triggers.describe import MAX_LENGTH
from duetime.engine.triggers.step_budget import TooManySteps

NOW = instant_of(datetime(2026, 2, 9, 18, 30, tzinfo=UTC))
BEGIN = datetime(2026, 1, 1, 9, tzinfo=UTC)


def rule(text: str, dtstart: str = "2026-01-01T09:00:00", zone: str = "UTC", **more: object) -> RRuleTrigger:
    built = build_trigger("rrule", {"rrule": text, "dtstart": dtstart, **more}, zone=zone, now=NOW)
    assert isinstance(built, RRuleTrigger)
    return built


def stored(text: str, begin: datetime = BEGIN, zone: str = "UTC") -> RRuleTrigger:
    return RRuleTrigger(rule=text, dtstart=int(begin.timestamp()), timezone=zone)


def upcoming(trigger: RRuleTrigger, after: Instant, number: int) -> list[datetime]:
    found: list[datetime] = []
    instant = trigger.next_after(after)
    while instant is not None and len(found) < number:
        found.append(datetime_of(instant))
        instant = trigger.next_after(instant)
    return found


RULES = [
    "FREQ=YEARLY",
    "FREQ=YEARLY;INTERVAL=3",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29",
    "FREQ=YEARLY;BYDAY=MO",
    "FREQ=YEARLY;BYDAY=20MO,-1FR",
    "FREQ=YEARLY;BYMONTH=3,11;BYDAY=2SU,-1SU",
    "FREQ=YEARLY;BYYEARDAY=1,100,-1",
    "FREQ=YEARLY;BYWEEKNO=1,20;BYDAY=MO,SU",
    "FREQ=YEARLY;BYWEEKNO=53;BYDAY=TH",
    "FREQ=YEARLY;BYMONTHDAY=13;BYDAY=FR",
    "FREQ=YEARLY;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8;BYMONTH=11;INTERVAL=4",
    "FREQ=MONTHLY",
    "FREQ=MONTHLY;INTERVAL=5",
    "FREQ=MONTHLY;BYMONTHDAY=31",
    "FREQ=MONTHLY;BYMONTHDAY=-1,15",
    "FREQ=MONTHLY;BYDAY=-1FR",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
    "FREQ=MONTHLY;INTERVAL=2;BYDAY=1MO,3WE;BYHOUR=8,20",
    "FREQ=MONTHLY;BYDAY=SA,SU;BYSETPOS=1,-2;BYHOUR=6,7;BYMINUTE=0,30",
    "FREQ=WEEKLY",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR",
    "FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=TU,SU",
    "FREQ=WEEKLY;INTERVAL=2;WKST=MO;BYDAY=TU,SU",
    "FREQ=WEEKLY;BYMONTH=6;BYDAY=WE",
    "FREQ=DAILY",
    "FREQ=DAILY;INTERVAL=10",
    "FREQ=DAILY;BYMONTH=1;INTERVAL=3",
    "FREQ=DAILY;BYHOUR=1,13;BYMINUTE=5;BYSECOND=9",
    "FREQ=DAILY;BYHOUR=1,2,3;BYSETPOS=2",
    "FREQ=DAILY;BYDAY=MO,WE",
    "FREQ=DAILY;BYMONTHDAY=13;BYDAY=FR",
    "FREQ=HOURLY",
    "FREQ=HOURLY;INTERVAL=5",
    "FREQ=HOURLY;INTERVAL=50;BYMINUTE=0,15",
    "FREQ=HOURLY;INTERVAL=7;BYHOUR=9,17",
    "FREQ=HOURLY;BYDAY=SA;INTERVAL=11",
    "FREQ=HOURLY;BYMINUTE=5,6,7;BYSETPOS=-1",
    "FREQ=MINUTELY;INTERVAL=45",
    "FREQ=MINUTELY;INTERVAL=1441",
    "FREQ=MINUTELY;INTERVAL=90;BYHOUR=9,10,11",
    "FREQ=MINUTELY;BYMONTH=5;BYDAY=MO;INTERVAL=100",
    "FREQ=SECONDLY;INTERVAL=7000",
    "FREQ=SECONDLY;INTERVAL=45;BYMINUTE=3",
    "FREQ=DAILY;COUNT=30",
    "FREQ=MONTHLY;BYDAY=FR;COUNT=9;BYSETPOS=2",
    "FREQ=DAILY;UNTIL=20260301T090000",
    "FREQ=DAILY;COUNT=1",
]


@pytest.mark.parametrize("text", RULES)
def test_equal_to_dateutil_from_the_start_and_from_later(text: str) -> None:
    theirs = list(islice(rrulestr(text, dtstart=BEGIN.replace(tzinfo=None)), 60))
    expected = [moment.replace(tzinfo=UTC) for moment in theirs]
    trigger = stored(text)
    assert upcoming(trigger, Instant(0), 60) == expected
    for index in range(0, len(expected) - 1, 7):
        assert upcoming(trigger, instant_of(expected[index]), 3) == expected[index + 1 : index + 4]
        before = Instant(instant_of(expected[index]) - 1)
        assert upcoming(trigger, before, 1) == [expected[index]]


numbers = st.integers
parts = st.fixed_dictionaries(
    {"FREQ": st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY"])},
    optional={
        "INTERVAL": numbers(1, 20).map(str),
        "WKST": st.sampled_from(["MO", "SU", "TH"]),
        "BYMONTH": st.lists(numbers(1, 12).map(str), min_size=1, max_size=4).map(",".join),
        "BYMONTHDAY": st.lists((numbers(1, 28) | numbers(-28, -1)).map(str), min_size=1, max_size=4).map(",".join),
        "BYDAY": st.lists(st.sampled_from(["MO", "TU", "WE", "FR", "SU"]), min_size=1, max_size=4).map(",".join),
        "BYHOUR": st.lists(numbers(0, 23).map(str), min_size=1, max_size=3).map(",".join),
        "BYMINUTE": st.lists(numbers(0, 59).map(str), min_size=1, max_size=2).map(",".join),
    },
)


@given(given_parts=parts, begin=st.integers(0, 40 * 365 * 86_400))
@settings(max_examples=150, deadline=None)
@pytest.mark.slow
def test_equal_to_dateutil_on_any_rule(given_parts: dict[str, str], begin: int) -> None:
    text = ";".join(f"{name}={value}" for name, value in given_parts.items())
    start = datetime(1990, 1, 1, tzinfo=UTC) + timedelta(seconds=begin)
    end = start + timedelta(days=700)
    try:
        ours = [moment for moment in upcoming(stored(text, start), Instant(0), 40) if moment <= end]
    except TooManySteps:  # such a rule is refused: its steps meet its hours never, or once in many years
        reject()
    try:
        bounded = rrulestr(text + f";UNTIL={end:%Y%m%dT%H%M%S}", dtstart=start.replace(tzinfo=None))
        assume(ours or given_parts["FREQ"] not in ("HOURLY", "MINUTELY"))  # it searches up to the year 9999
        theirs = [moment.replace(tzinfo=UTC) for moment in islice(bounded, 40)] if ours else []
    except ValueError:  # its word for a rule whose steps never meet its hours
        theirs = []
    assert ours == theirs


def test_a_weekly_choice_takes_the_whole_first_week() -> None:
    """Where dateutil begins to count at the first time: 2026-01-01 is a Thursday."""
    trigger = stored("FREQ=WEEKLY;BYDAY=MO,TH,FR;BYSETPOS=2")
    assert upcoming(trigger, Instant(0), 2) == [BEGIN, BEGIN + timedelta(days=7)]


def test_an_until_that_is_a_date_includes_that_day() -> None:
    assert len(upcoming(stored("FREQ=DAILY;UNTIL=20260103"), Instant(0), 9)) == 3
    assert len(upcoming(stored("FREQ=DAILY;UNTIL=20260103T085959"), Instant(0), 9)) == 2
    berlin = stored("FREQ=DAILY;UNTIL=20260103T080000Z", zone="Europe/Berlin")
    assert len(upcoming(berlin, Instant(0), 9)) == 3


def test_wall_clock_time_stays_and_clock_changes_are_met_like_cron() -> None:
    daily = rule("FREQ=DAILY", "2026-03-07T02:30:00", "America/New_York")
    assert [moment.strftime("%d %H:%M") for moment in upcoming(daily, NOW, 3)] == ["07 07:30", "08 07:00", "09 06:30"]
    fold = rule("FREQ=DAILY", "2026-10-31T01:30:00", "America/New_York")
    assert [moment.strftime("%d %H:%M") for moment in upcoming(fold, NOW, 3)] == ["31 05:30", "01 05:30", "02 06:30"]
    hourly = rule("FREQ=HOURLY", "2026-11-01T00:00:00", "America/New_York")
    assert [moment.hour for moment in upcoming(hourly, NOW, 4)] == [4, 5, 6, 7]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "FREQ=SOMETIMES",
        "BYDAY=MO",
        "FREQ=DAILY;FREQ=DAILY",
        "FREQ=DAILY;BYMONTH=13",
        "FREQ=DAILY;BYMONTH=0",
        "FREQ=DAILY;BYHOUR=24",
        "FREQ=DAILY;BYSECOND=60",
        "FREQ=DAILY;INTERVAL=0",
        "FREQ=DAILY;INTERVAL=-1",
        "FREQ=DAILY;COUNT=0",
        "FREQ=DAILY;COUNT=10001",
        "FREQ=DAILY;COUNT=5;UNTIL=20270101",
        "FREQ=DAILY;UNTIL=soon",
        "FREQ=DAILY;UNTIL=20261332",
        "FREQ=WEEKLY;BYDAY=1MO",
        "FREQ=MONTHLY;BYDAY=0MO",
        "FREQ=MONTHLY;BYDAY=XX",
        "FREQ=MONTHLY;BYWEEKNO=3",
        "FREQ=DAILY;X=1",
        "FREQ=DAILY;BYHOUR",
        "FREQ=DAILY;BYHOUR=",
        "FREQ=DAILY;BYHOUR=1,,2",
        "DTSTART:20260101T000000\nRRULE:FREQ=DAILY",
        "FREQ=DAILY\nEXDATE:20260101",
        "FREQ=DAILY;BYEASTER=1",
        "FREQ=DAILY;WKST=XX",
        "FREQ=DAILY;INTERVAL=²",
        "FREQ=DAILY;BYMONTH=" + "1," * 3000 + "1",
        # those never fire
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=SECONDLY;BYMONTH=4;BYMONTHDAY=31",
        "FREQ=HOURLY;INTERVAL=24;BYHOUR=8",
        "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6",
        "FREQ=DAILY;UNTIL=20260201",
        "FREQ=DAILY;COUNT=3",
    ],
)
def test_a_wrong_rule_is_refused(text: str) -> None:
    with pytest.raises(InvalidTrigger) as caught:
        rule(text)
    assert caught.value.field == "rrule"
    assert "rrule" in str(caught.value)


@pytest.mark.parametrize(("config", "field"), [({"dtstart": "whenever"}, "dtstart"), ({"exdate": "x"}, "exdate")])
def test_a_wrong_field_is_named(config: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidTrigger) as caught:
        build_trigger("rrule", {"rrule": "FREQ=DAILY"} | config, zone="UTC", now=NOW)
    assert caught.value.field == field


@pytest.mark.parametrize("value", [None, 5, ["FREQ=DAILY"]])
def test_a_rule_that_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(InvalidTrigger, match="rrule"):
        build_trigger("rrule", {"rrule": value}, zone="UTC", now=NOW)


def test_without_a_first_time_it_begins_now() -> None:
    built = build_trigger("rrule", {"rrule": "RRULE:freq=weekly"}, zone="Europe/Berlin", now=NOW)
    assert built.next_after(NOW) == NOW + 7 * DAY


def test_a_step_costs_the_same_however_long_ago_the_rule_began() -> None:
    old = stored("FREQ=MINUTELY", datetime(1970, 1, 2, tzinfo=UTC))
    young = stored("FREQ=MINUTELY", datetime(2026, 2, 1, tzinfo=UTC))

    def cost(trigger: RRuleTrigger) -> float:
        begun = time.process_time()
        for number in range(300):
            assert trigger.next_after(Instant(NOW + number * DAY)) is not None
        return time.process_time() - begun

    cost(old), cost(young)
    assert min(cost(old) for _ in range(3)) < 5 * min(cost(young) for _ in range(3))


def test_latest_and_count_over_many() -> None:
    trigger = stored("FREQ=MINUTELY;INTERVAL=2")
    until = Instant(NOW + 300 * DAY + 5)
    assert trigger.latest(NOW, until) == until - 5
    assert trigger.count(NOW, until) == 1001
    assert trigger.count(NOW, Instant(NOW + DAY)) == 720
    assert stored("FREQ=DAILY;COUNT=3").latest(Instant(0), until) == instant_of(BEGIN + timedelta(days=2))


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("FREQ=DAILY", "every day at 09:00"),
        ("FREQ=MONTHLY;BYDAY=-1FR", "every month on the last Friday at 09:00"),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR", "every 2 weeks on Monday and Friday at 09:00"),
        (
            "FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=21;BYHOUR=6,18",
            "every year in March on the 21st day of the month at 06:00 and 18:00",
        ),
        ("FREQ=HOURLY;BYMINUTE=0,30", "every hour at minutes 0 and 30"),
        (
            "FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-2",
            "every month on Monday and Tuesday at 09:00 (only the 2nd to last such time of the month)",
        ),
        ("FREQ=DAILY;COUNT=100", "every day at 09:00 100 times"),
    ],
)
def test_english(text: str, english: str) -> None:
    assert describe(rule(text)) == f"{english}, beginning 2026-01-01 09:00:00 (UTC)"


@pytest.mark.parametrize(
    ("text", "english"),
    [
        (
            f"FREQ=YEARLY;BYYEARDAY={','.join(map(str, range(1, 365)))}",
            "on the 1st, 2nd, 3rd, 4th, 5th, 6th, 7th, 8th, 9th, 10th, 11th, 12th, 13th, 14th, 15th, 16th, 17th,"
            " 18th and 346 more days of the year at 09:00",
        ),
        (f"FREQ=HOURLY;BYMINUTE={','.join(map(str, range(0, 60)))}", "at minutes 0, 1, 2"),
        (f"FREQ=YEARLY;BYDAY={','.join(f'-{n}{day}' for n in range(1, 51) for day in ('TU', 'WE'))}", "more at 09:00"),
    ],
)
def test_long_lists_are_cut_and_counted(text: str, english: str) -> None:
    words = describe(rule(text))
    assert english in words and " more" in words and len(words) <= MAX_LENGTH


@given(
    st.dictionaries(
        st.sampled_from(("BYMONTH", "BYMONTHDAY", "BYYEARDAY", "BYSETPOS", "BYHOUR", "BYMINUTE", "BYSECOND")),
        st.lists(st.integers(1, 12), min_size=1, max_size=12, unique=True),
    )
)
def test_a_description_is_bounded_whatever_the_rule(parts: dict[str, list[int]]) -> None:
    text = ";".join(["FREQ=YEARLY", *(f"{name}={','.join(map(str, part))}" for name, part in parts.items())])
    trigger = dataclasses.replace(
        stored(text, zone="America/Argentina/Buenos_Aires"), end=instant_of(BEGIN), jitter=DAY - 1
    )
    assert len(describe(trigger)) <= MAX_LENGTH and "(America/Argentina/Buenos_Aires)" in describe(trigger)


def test_warnings() -> None:
    assert warnings_for(rule("FREQ=DAILY"), NOW) == []
    assert "without a day 31" in warnings_for(rule("FREQ=MONTHLY;BYMONTHDAY=31"), NOW)[0]
    (gap,) = warnings_for(rule("FREQ=DAILY", "2026-01-01T02:30:00", "America/New_York"), NOW)
    assert "does not exist" in gap
    assert warnings_for(rule("FREQ=HOURLY", zone="America/New_York"), NOW) == []


def test_round_trip() -> None:
    for text in RULES:
        trigger = stored(text, zone="Europe/Berlin")
        again = trigger_from_json(trigger_to_json(trigger))
        assert again == trigger
        assert hash(again) == hash(trigger)
    for change in ({"rrule": 5}, {"dtstart": "x"}, {"dtstart": None}, {"rrule": "FREQ=X"}):
        with pytest.raises(InvalidTrigger):
            trigger_from_dict(stored("FREQ=DAILY").to_dict() | change)


def test_rare_rules_share_a_bounded_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these looks at hundreds of months before it finds a day."""
    monkeypatch.setattr(base, "_entries", base._Entries())
    monkeypatch.setattr(base, "_MOST_KEPT_IN_ALL", 2000)
    rules = [stored(f"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY={day}") for day in ("MO", "TU", "WE", "TH", "FR")] * 4
    rules = [dataclasses.replace(each, dtstart=each.dtstart + place) for place, each in enumerate(rules)]
    first = [each.next_after(NOW) for each in rules]
    kept = [each.days for each in rules]
    assert sum(len(days._masks) + len(days._known) for days in kept) <= 2000
    assert any(days._masks for days in kept) and not kept[0]._masks
    assert [each.next_after(NOW) for each in rules] == first


def test_what_sets_of_days_cache_goes_with_them() -> None:
    """Else the days of rules that nobody keeps, each with hundreds of numbers, would stay in memory by the thousand."""
    rule = stored("FREQ=YEARLY;BYYEARDAY=1,100,200")
    assert rule.next_after(NOW) is not None
    days = ref(rule.days)
    del rule
    gc.collect()
    assert days() is None


@pytest.mark.parametrize("now", [NOW, Instant(NOW + 1)], ids=["on a second", "within a second"])
@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("FREQ=DAILY;COUNT=3", 3),
        ("COUNT=1;FREQ=DAILY", 1),
        ("FREQ=SECONDLY;COUNT=3", 3),
        ("FREQ=WEEKLY;BYDAY=MO,WE;INTERVAL=2;COUNT=4", 4),
        ("FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0;COUNT=2", 2),
    ],
)
def test_a_rule_that_begins_now_counts_only_what_is_to_come(text: str, count: int, now: Instant) -> None:
    trigger = build_trigger("rrule", {"rrule": text}, zone="America/New_York", now=now)
    assert trigger.count(now, Instant(now + 400 * DAY), 10) == count
    endless = ";".join(part for part in text.split(";") if "COUNT" not in part)
    same = build_trigger("rrule", {"rrule": endless}, zone="America/New_York", now=now)
    assert trigger.next_after(now) == same.next_after(now)


@pytest.mark.parametrize(
    ("text", "now", "local"),
    [
        ("FREQ=DAILY;COUNT=3", "2026-03-28T01:30:05", ["29 03:00:00", "30 02:30:05", "31 02:30:05"]),
        ("FREQ=HOURLY;COUNT=2", "2026-03-29T00:30:05", ["29 03:30:05", "29 04:30:05"]),
        ("FREQ=DAILY;BYMINUTE=0,30;COUNT=2", "2026-10-25T01:00:05", ["26 02:00:05", "26 02:30:05"]),
        ("FREQ=DAILY;BYMINUTE=30;COUNT=2", "2026-10-25T01:10:05", ["26 02:30:05", "27 02:30:05"]),
        ("FREQ=HOURLY;COUNT=2", "2026-10-25T00:30:05", ["25 02:30:05", "25 03:30:05"]),
    ],
    ids=["skipped and moved", "skipped and left out", "shown again", "to be shown again", "repeated"],
)
def test_a_rule_that_begins_now_counts_from_a_time_of_its_own_at_a_clock_change(
    text: str, now: str, local: list[str]
) -> None:
    began = instant_of(datetime.fromisoformat(now).replace(tzinfo=UTC))
    trigger = build_trigger("rrule", {"rrule": text}, zone="Europe/Berlin", now=began)
    assert isinstance(trigger, RRuleTrigger)
    times = [each.astimezone(ZoneInfo("Europe/Berlin")) for each in upcoming(trigger, began, 9)]
    assert [f"{each:%d %H:%M:%S}" for each in times] == local


@pytest.mark.parametrize("begin", ["2026-03-28T23:00:00", "2026-10-24T23:00:00"], ids=["skipped hour", "repeated hour"])
@pytest.mark.parametrize(
    "text",
    [
        "FREQ=HOURLY",
        "FREQ=HOURLY;INTERVAL=2",
        "FREQ=HOURLY;BYMINUTE=0,30",
        "FREQ=MINUTELY;INTERVAL=30",
        "FREQ=SECONDLY;INTERVAL=1800",
        "FREQ=HOURLY;BYMINUTE=0,20,40;BYSETPOS=-1",
    ],
)
def test_a_rule_by_hours_or_less_runs_as_often_as_it_counts_across_a_clock_change(text: str, begin: str) -> None:
    before = instant_of(datetime.fromisoformat(begin).replace(tzinfo=UTC) - timedelta(hours=3))
    for count in range(1, 21):
        counted = upcoming(rule(f"{text};COUNT={count}", begin, "Europe/Berlin"), before, 30)
        assert counted == upcoming(rule(text, begin, "Europe/Berlin"), before, count)


@pytest.mark.parametrize("begin", ["2026-03-28T23:00:00", "2026-10-24T23:00:00"], ids=["skipped hour", "repeated hour"])
@pytest.mark.parametrize(
    "text",
    [
        "FREQ=DAILY;BYHOUR=2;BYMINUTE=0,20,40",
        "FREQ=DAILY;BYHOUR=1,2,3;BYMINUTE=0,30",
        "FREQ=WEEKLY;BYDAY=SA,SU;BYHOUR=2;BYMINUTE=15,45",
        "FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=28,29;BYHOUR=2;BYMINUTE=0;BYSECOND=1,2",
        "FREQ=DAILY;BYHOUR=2,3,4;BYSETPOS=1,2",
    ],
)
def test_a_daily_rule_runs_as_often_as_it_counts_across_a_clock_change(text: str, begin: str) -> None:
    before = instant_of(datetime.fromisoformat(begin).replace(tzinfo=UTC) - timedelta(hours=3))
    for count in range(1, 21):
        counted = upcoming(rule(f"{text};COUNT={count}", begin, "Europe/Berlin"), before, 30)
        assert counted == upcoming(rule(text, begin, "Europe/Berlin"), before, count)


def test_counting_across_the_clock_changes_of_many_centuries_takes_too_many_steps() -> None:
    yearly = "FREQ=HOURLY;BYMONTH=1;BYMONTHDAY=1;BYHOUR=9"
    assert upcoming(rule(f"{yearly};COUNT=300", zone="Europe/Berlin"), NOW, 400)[-1].year == 2325
    with pytest.raises(TooManySteps):
        rule(f"{yearly};COUNT=1000", zone="Europe/Berlin")


def test_a_start_is_the_first_time_of_a_rule() -> None:
    trigger = build_trigger("rrule", {"rrule": "FREQ=DAILY;COUNT=2", "start": "tomorrow 9am"}, zone="UTC", now=NOW)
    first = trigger.next_after(NOW)
    assert first == instant_of(datetime(2026, 2, 10, 9, tzinfo=UTC)) and trigger.next_after(first) == first + DAY
