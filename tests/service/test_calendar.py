"""The calendar says exactly what the triggers say: read back as calendar programs read it, instant by instant."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
import recurring_ical_events  # type: ignore[import-untyped]
from icalendar import Calendar, Event

from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND, Instant, datetime_of, instant_of
from duetime.engine.model import Definition, Progress, Schedule, ScheduleId, ScheduleState
from duetime.engine.triggers import IntervalTrigger, Trigger, build_trigger, trigger_to_json
from duetime.service.calendar import calendar_of, occurrences_of
from tests.support.size import FULL, some

pytestmark = pytest.mark.slow

NOW = instant_of(datetime(2026, 2, 10, 14, 7, 31, 250_000, tzinfo=UTC))
SPAN = 290 * DAY
"""Long enough to meet the changes of clocks in spring and in autumn."""
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Auckland")


def schedule_of(
    trigger: Trigger,
    *,
    policy: str = "{}",
    runs: int = 0,
    moved: Instant | None = None,
    state: str = "active",
    name: str = "n",
) -> Schedule:
    first = trigger.next_after(NOW) if moved is None else moved
    payload = json.dumps({"task": "echo", "args": [], "kwargs": {}})
    definition = Definition(
        ScheduleId(1), "job_1_1", "job", "local", name, "echo", trigger_to_json(trigger), payload, policy, 0, 1, "k",
        "f", NOW, NOW,
    )  # fmt: skip
    progress = Progress(
        ScheduleId(1), "local", "job", state, first, None, runs, 0, 0, None, None, None, None, 0, None
    )  # fmt: skip
    return Schedule(definition, progress)


def cron(expression: str, zone: str, **more: object) -> Trigger:
    return build_trigger("cron", {"expression": expression, **more}, zone=zone, now=NOW)


def rrule(rule: str, zone: str, dtstart: str = "2026-02-10T09:30:00", **more: object) -> Trigger:
    return build_trigger("rrule", {"rrule": rule, "dtstart": dtstart, **more}, zone=zone, now=NOW)


def seen(schedule: Schedule, span: int) -> list[datetime]:
    """What a calendar program shows, in UTC."""
    calendar = Calendar.from_ical(calendar_of([schedule], NOW))
    start, end = datetime_of(NOW) - timedelta(seconds=1), datetime_of(Instant(NOW + span))
    events = recurring_ical_events.of(calendar).between(start, end)
    shown = sorted(event["DTSTART"].dt.astimezone(UTC) for event in events)
    return [each for each in shown if each < end.replace(microsecond=0)]


def meant(trigger: Trigger, span: int) -> list[datetime]:
    found: list[datetime] = []
    following = trigger.next_after(NOW)
    while following is not None and following < (NOW + span) // SECOND * SECOND:
        found.append(datetime_of(following).replace(microsecond=0))
        following = trigger.next_after(following)
    return found


def agrees(trigger: Trigger, span: int = SPAN) -> bool:
    """Checks that both say the same, as far as it is written; answers whether a rule says it."""
    schedule = schedule_of(trigger)
    by_rule = occurrences_of(schedule, NOW).rule is not None
    first = schedule.progress.next
    assert first is not None
    reach = span if by_rule else min(span, max(NOW, first) + 30 * DAY - NOW)
    expected = meant(trigger, reach)
    shown = seen(schedule, reach)
    if not by_rule:
        expected = expected[:500]
    assert shown == expected, (trigger, by_rule)
    return by_rule


EXACT = (
    "0 9 * * 1-5", "30 6,18 * * *", "15 12 1,15 * *", "0 0 L * *", "0 12 * * 5L", "0 12 * * 2#2", "0 7 * 1,7 *",
    "0 7 29 2 *", "*/20 9-17 * * 1-5", "0 0 1 1 *", "0 12 LW * *", "5,35 */6 1-7 * *", "0 12 */5 * 1",
    "0 6 * 3-9 0", "59 23 31 * *",
)  # fmt: skip
NEVER_BY_RULE = ("0 9 1 * 1", "0 9,10 LW * *", "0 9 * * 1,2#2", "0 9 L,LW * *")


@pytest.mark.parametrize(
    ("expression", "zone"),
    some([*product(EXACT, ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"))]),
)
def test_cron_at_fixed_times(expression: str, zone: str) -> None:
    by_rule = agrees(cron(expression, zone), 800 * DAY if expression == "0 7 29 2 *" else SPAN)
    assert by_rule is True


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expression", NEVER_BY_RULE)
def test_cron_that_no_rule_says(expression: str, zone: str) -> None:
    assert agrees(cron(expression, zone)) is False


@pytest.mark.parametrize(
    ("expression", "zone"),
    [
        *product(["7 * * * *"], ZONES),
        *product(["*/15 * * * *", "* * * * *"], ZONES if FULL else ["America/New_York", "Australia/Lord_Howe"]),
    ],
)
def test_cron_of_every_hour_is_the_same_in_utc(expression: str, zone: str) -> None:
    """But for a zone whose clocks change by half an hour."""
    by_rule = agrees(cron(expression, zone), 2 * DAY if expression == "* * * * *" else 60 * DAY)
    assert by_rule is (zone != "Australia/Lord_Howe")


@pytest.mark.parametrize("dst", ["debian", "literal"])
@pytest.mark.parametrize(
    ("expression", "zone"),
    [
        ("30 2 * * *", "Europe/Berlin"), ("30 1 * * *", "America/New_York"), ("15 2 * * *", "Australia/Lord_Howe"),
        ("30 2 * * *", "America/New_York"), ("0 3 * * *", "Europe/Berlin"), ("*/30 1-3 * * *", "Europe/Berlin"),
    ],
)  # fmt: skip
def test_cron_where_clocks_change(expression: str, zone: str, dst: str) -> None:
    """Looked at from the day before each change: what is written out there is right too."""
    trigger = cron(expression, zone, dst=dst)
    agrees(trigger)
    for day in ("2026-03-07", "2026-03-28", "2026-04-04", "2026-10-03", "2026-10-24", "2026-10-31"):
        now = instant_of(datetime.fromisoformat(f"{day}T12:00:00+00:00"))
        first = trigger.next_after(now)
        assert first is not None
        instants, rule, _ = occurrences_of(schedule_of(trigger, moved=first), now)
        if rule is None:
            assert instants == _after(trigger, now, 33)[: len(instants)]
            assert len(instants) >= 29


def _after(trigger: Trigger, now: Instant, days: int) -> list[Instant]:
    found, following = [], trigger.next_after(now)
    while following is not None and following <= now + days * DAY:
        found.append(following)
        following = trigger.next_after(following)
    return found


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("period", [45 * SECOND, 7 * MINUTE, 90 * MINUTE, 5 * HOUR, DAY, 3 * DAY, 14 * DAY])
def test_intervals_are_rules_in_utc(period: int, zone: str) -> None:
    trigger = IntervalTrigger(timezone=zone, period=period, anchor=NOW)
    assert agrees(trigger, min(SPAN, 500 * period)) is True


def test_an_interval_of_fractions_is_written_out() -> None:
    trigger = IntervalTrigger(timezone="UTC", period=2_500_000 * 3600, anchor=NOW)
    assert agrees(trigger) is True
    assert agrees(IntervalTrigger(timezone="UTC", period=HOUR + 1, anchor=NOW)) is False


RULES = (
    "FREQ=DAILY", "FREQ=DAILY;INTERVAL=3;COUNT=10", "FREQ=WEEKLY;BYDAY=MO,TH;INTERVAL=2", "FREQ=MONTHLY;BYDAY=-1FR",
    "FREQ=MONTHLY;BYMONTHDAY=31", "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "FREQ=YEARLY;BYMONTH=3;BYDAY=2SU",
    "FREQ=DAILY;UNTIL=20260601", "FREQ=DAILY;UNTIL=20260601T093000Z", "FREQ=WEEKLY;WKST=SU;INTERVAL=2;BYDAY=SU,SA",
    "FREQ=MONTHLY;INTERVAL=2;BYMONTHDAY=1,-1;BYHOUR=8,20", "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO",
    "FREQ=YEARLY;BYYEARDAY=100", "FREQ=DAILY;BYHOUR=6,12;BYMINUTE=0,30;BYSECOND=0",
)  # fmt: skip


@pytest.mark.parametrize(("rule", "zone"), some([*product(RULES, ("UTC", "Europe/Berlin", "Asia/Kolkata"))], 2))
def test_rules_stay_rules(rule: str, zone: str) -> None:
    assert agrees(rrule(rule, zone), 800 * DAY) is True


@pytest.mark.parametrize("rule", ["FREQ=HOURLY;INTERVAL=5", "FREQ=MINUTELY;INTERVAL=90", "FREQ=HOURLY;BYHOUR=9,10,11"])
def test_rules_by_the_hour(rule: str) -> None:
    assert agrees(rrule(rule, "Asia/Kolkata"), 60 * DAY) is True
    agrees(rrule(rule, "Europe/Berlin"), 60 * DAY)


def test_a_rule_that_falls_into_the_gap_is_written_out() -> None:
    assert agrees(rrule("FREQ=DAILY", "Europe/Berlin", "2026-02-10T02:30:00")) is False


def test_start_end_and_how_many_are_left() -> None:
    trigger = cron("0 9 * * *", "Europe/Berlin", start="2026-03-01T00:00:00", end="2026-04-10T23:00:00")
    assert agrees(trigger) is True
    assert len(seen(schedule_of(trigger), SPAN)) == 41
    assert len(seen(schedule_of(trigger, policy='{"max_runs":5}', runs=2), SPAN)) == 3
    assert len(seen(schedule_of(trigger, policy='{"max_runs":500}'), SPAN)) == 41
    endless = cron("0 9 * * *", "Europe/Berlin")
    assert len(seen(schedule_of(endless, policy='{"max_runs":5}'), SPAN)) == 5
    assert seen(schedule_of(endless, policy='{"max_runs":5}', runs=5), SPAN) == []
    assert len(seen(schedule_of(cron("30 2 * * *", "Europe/Berlin"), policy='{"max_runs":3}'), SPAN)) == 3


@pytest.mark.parametrize(
    "trigger",
    [
        cron("0 9 * * *", "Europe/Berlin"),
        build_trigger("interval", {"hours": 7}, zone="UTC", now=NOW),  # a rule that began there would go on from there
        rrule("FREQ=DAILY;INTERVAL=3", "Europe/Berlin"),
    ],
    ids=["cron", "interval", "rrule"],
)
def test_a_time_that_was_moved_by_hand_is_shown_where_it_is(trigger: Trigger) -> None:
    moved = Instant(NOW + 3 * HOUR)
    shown = seen(schedule_of(trigger, moved=moved), 10 * DAY)
    assert shown[0] == datetime_of(moved).replace(microsecond=0)
    assert shown[1:] == meant(trigger, 10 * DAY)


@pytest.mark.parametrize("state", [each for each in ScheduleState if each != ScheduleState.ACTIVE])
def test_what_rests_or_is_over_is_not_there(state: str) -> None:
    assert seen(schedule_of(cron("0 9 * * *", "UTC"), state=state), SPAN) == []


def test_a_trigger_that_cannot_be_read_is_shown_once() -> None:
    schedule = schedule_of(cron("0 9 * * *", "UTC"))
    broken = schedule._replace(definition=schedule.definition._replace(trigger='{"type":"cron"}'))
    assert len(seen(broken, SPAN)) == 1


def test_once() -> None:
    trigger = build_trigger("once", {"run_at": "2026-03-29T02:30:00"}, zone="Europe/Berlin", now=NOW)
    assert agrees(trigger) is False
    assert len(seen(schedule_of(trigger), SPAN)) == 1


def test_events_are_whole_and_text_is_only_text() -> None:
    evil = "a\x1b[2J;b,c\r\nBEGIN:VEVENT\r\nSUMMARY:x"
    text = calendar_of([schedule_of(cron("0 9 * * *", "Europe/Berlin"), name=evil)], NOW)
    calendar = Calendar.from_ical(text)
    (event,) = [each for each in calendar.walk("VEVENT") if isinstance(each, Event)]
    assert str(event["SUMMARY"]) == "a\\x1b[2J;b,c\\r\\nBEGIN:VEVENT\\r\\nSUMMARY:x"
    assert {"UID", "DTSTAMP", "DTSTART", "RRULE", "DESCRIPTION", "LAST-MODIFIED"} <= set(event)
    assert str(event["UID"]) == "job_1_1@duetime"
    assert "every day at 09:00 (Europe/Berlin)" in str(event["DESCRIPTION"]) and "echo" in str(event["DESCRIPTION"])
    assert event["DTSTART"].params["TZID"] == "Europe/Berlin"
    assert [str(zone["TZID"]) for zone in calendar.walk("VTIMEZONE")] == ["Europe/Berlin"]
    assert all(len(line) <= 75 for line in text.split(b"\r\n"))


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("request", {"url": "https://ada:hunter2@example.org/?token=hunter2"}),
        ("prompt", {"prompt": "Call it with\nAuthorization: Bearer hunter2hunter2\nand password=hunter2"}),
        ("notification", {"message": "see https://example.org/?api_key=hunter2", "topic": "home"}),
    ],
)
def test_credentials_are_not_in_a_calendar(kind: str, payload: dict[str, str]) -> None:
    definition, progress = schedule_of(cron("0 9 * * *", "UTC"), name="with token=hunter2hunter2")
    schedule = Schedule(definition._replace(kind=kind, payload=json.dumps(payload)), progress)
    (event,) = Calendar.from_ical(calendar_of([schedule], NOW)).walk("VEVENT")
    assert "hunter2" not in str(event["DESCRIPTION"]) and "***" in str(event["DESCRIPTION"])
    assert str(event["SUMMARY"]) == "with token=***"


def test_uids_differ_where_instants_are_written_out() -> None:
    calendar = Calendar.from_ical(calendar_of([schedule_of(cron("30 2 * * *", "Europe/Berlin"))], NOW))
    uids = [str(event["UID"]) for event in calendar.walk("VEVENT")]
    assert len(uids) == len(set(uids)) == 31
