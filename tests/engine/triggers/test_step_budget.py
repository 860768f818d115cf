"""Working out when a trigger fires has a bounded cost: what would take longer is refused, quickly and in words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from duetime.engine.clock import HOUR, SECOND, Instant, instant_of
from duetime.engine.errors import DuetimeError
from duetime.engine.kind import Caller
from duetime.engine.limits import Limits
from duetime.engine.queries import upcoming
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import ScheduleQuery
from duetime.engine.triggers import OnceTrigger, RRuleTrigger, trigger_from_json
from duetime.engine.triggers.rrule import local_from
from duetime.engine.triggers.step_budget import EVALUATION_STEPS, TooManySteps, spend, step_budget
from duetime.engine.validation import Changes, NewSchedule
from duetime.kinds.jobs.builtin import TASKS
from duetime.kinds.jobs.kind import JobKind
from duetime.kinds.jobs.registry import Registry
from duetime.stores.sqlite.store import SqliteStore
from duetime.testing import SettableClock
from tests.support.refusals import attempt, refusal_of

ADA = Caller("ada")
HOURS = ",".join(map(str, range(24)))
SIXTY = ",".join(map(str, range(60)))
THIRTEEN = ",".join(map(str, range(13)))
HOSTILE = [
    f"FREQ=DAILY;COUNT=300;BYHOUR={HOURS};BYMINUTE={SIXTY};BYSECOND={THIRTEEN};BYSETPOS=366",
    f"FREQ=DAILY;COUNT=10000;BYHOUR={HOURS};BYMINUTE={SIXTY};BYSECOND={THIRTEEN};BYSETPOS=366",
    f"FREQ=HOURLY;COUNT=10000;BYMINUTE={SIXTY};BYSECOND={SIXTY};BYSETPOS=-1",
    f"FREQ=YEARLY;COUNT=10000;BYDAY=MO,TU,WE,TH,FR;BYHOUR={HOURS};BYSETPOS=-1",
    f"FREQ=MONTHLY;COUNT=10000;BYMONTHDAY={','.join(map(str, range(1, 29)))};BYHOUR={HOURS};BYSETPOS=1",
    "FREQ=MONTHLY;COUNT=10000;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
    "FREQ=YEARLY;COUNT=10000;BYWEEKNO=53",
    "FREQ=SECONDLY;INTERVAL=86399;BYHOUR=3;BYMINUTE=7;BYSECOND=11;BYMONTH=2;BYMONTHDAY=29;COUNT=10000",
]


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    store = SqliteStore(":memory:")
    store.migrate()
    clock = SettableClock(instant_of(datetime(2026, 11, 15, 18, tzinfo=UTC)))
    yield Scheduler(store, {"job": JobKind(Registry(TASKS))}, clock, limits=Limits(smallest_interval=HOUR))
    store.close()


def ruled(rule: str, **more: Any) -> NewSchedule:
    return NewSchedule("job", "say", "rrule", {"rrule": rule}, {"task": "echo", "args": [], "kwargs": {}}, **more)


def assert_refused(call: Callable[[], object]) -> None:
    begun = time.process_time()
    refusal = refusal_of(call)
    assert refusal.code == "invalid_trigger"
    assert "make the rule narrower" in refusal.message
    assert refusal.details == {"field": "rrule"}
    assert time.process_time() - begun < 1.0


@pytest.mark.parametrize("rule", HOSTILE)
def test_a_rule_that_takes_too_many_steps_is_refused_quickly(scheduler: Scheduler, rule: str) -> None:
    assert_refused(lambda: scheduler.create(ADA, ruled(rule)))
    assert_refused(lambda: scheduler.preview("rrule", {"rrule": rule}))
    made = scheduler.create(ADA, ruled("FREQ=DAILY"))
    changes = Changes(trigger_type="rrule", trigger_config={"rrule": rule})
    assert_refused(lambda: scheduler.edit(ADA, made.definition.public_id, changes))
    page = scheduler.search(ADA, ScheduleQuery())
    assert page.items == [made]


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY;COUNT=10000",
        "FREQ=MONTHLY;COUNT=10000",
        "FREQ=MONTHLY;COUNT=600;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
        "FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29",
        f"FREQ=DAILY;BYHOUR={HOURS}",
    ],
)
def test_rules_that_people_write_are_still_taken(scheduler: Scheduler, rule: str) -> None:
    scheduler.create(ADA, ruled(rule))
    scheduler.preview("rrule", {"rrule": rule}, count=100)


def test_every_evaluation_of_a_stored_trigger_has_a_budget() -> None:
    trigger = RRuleTrigger(rule=HOSTILE[1], dtstart=local_from("2026-11-15T18:00:00"), timezone="UTC")
    now = instant_of(datetime(2026, 11, 15, 18, tzinfo=UTC))
    for evaluate in (
        lambda: trigger.next_after(now),
        lambda: trigger.latest(now, Instant(now + 100 * HOUR)),
        lambda: trigger.count(now, Instant(now + 100 * HOUR)),
    ):
        begun = time.process_time()
        with pytest.raises(TooManySteps):
            evaluate()
        assert time.process_time() - begun < 2.0


def test_reading_a_rule_with_every_second_of_a_day_is_quick_and_small() -> None:
    text = (
        '{"type":"rrule","timezone":"UTC","dtstart":"2026-11-15T18:00:00",'
        f'"rrule":"FREQ=DAILY;BYHOUR={HOURS};BYMINUTE={SIXTY};BYSECOND={SIXTY}"}}'
    )
    begun = time.thread_time()
    trigger = trigger_from_json(text)
    assert time.thread_time() - begun < 0.02
    assert isinstance(trigger, RRuleTrigger)
    now = instant_of(datetime(2026, 11, 15, 23, 59, 58, tzinfo=UTC))
    assert trigger.count(now, Instant(now + 5 * SECOND)) == 5


def test_budgets_nest_and_the_tightest_one_decides() -> None:
    with step_budget(100) as outer:
        with step_budget(1_000) as inner:
            spend(60)
            assert (inner.used, outer.used) == (60, 60)
        with pytest.raises(TooManySteps), step_budget(10):
            spend(11)
        assert outer.used == 71
        with pytest.raises(TooManySteps):
            spend(30)
    spend(10_000_000)  # no budget is open any more


def test_a_burst_behind_slow_times_is_found_by_the_smallest_interval(scheduler: Scheduler) -> None:
    """Six times an hour apart, then 29 times a second apart, every day."""
    slow = [1 + 60 * number for number in range(6)]
    burst = range(-29, 0)
    places = ",".join(map(str, [*slow, *burst]))
    rule = f"FREQ=DAILY;BYHOUR=0,1,2,3,4,5;BYMINUTE=0;BYSECOND={SIXTY};BYSETPOS={places}"
    refused = refusal_of(lambda: scheduler.create(ADA, ruled(rule)))
    assert "fires more often than every 3600 s" in (refused.message or "")
    scheduler.create(ADA, ruled("FREQ=HOURLY"))
    scheduler.create(ADA, ruled("FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"))


def test_each_rule_of_a_trigger_that_changes_is_checked(scheduler: Scheduler) -> None:
    def hourly(period: int) -> dict[str, Any]:
        return {"type": "interval", "timezone": "UTC", "period_us": period, "anchor": "2026-01-01T00:00:00.000000Z"}

    def created(before: dict[str, Any], after: dict[str, Any]) -> str | None:
        config = {"changes": "2031-01-01T00:00:00.000000Z", "before": before, "after": after}
        made = attempt(scheduler.create, ADA, NewSchedule("job", "report", "changing", config, {"task": "echo"}))
        return made.message if isinstance(made, DuetimeError) else None

    often = "fires more often than every 3600 s"
    assert created(hourly(HOUR), hourly(2 * HOUR)) is None
    assert often in (created(hourly(HOUR), hourly(1)) or "") and often in (created(hourly(SECOND), hourly(HOUR)) or "")
    many = hourly(HOUR)
    for _ in range(5):
        changes = "2030-01-01T00:00:00.000000Z"
        many = {"type": "changing", "timezone": "UTC", "changes": changes, "before": many, "after": hourly(HOUR)}
    assert "changes more than 5 times" in (created(many, hourly(HOUR)) or "")


def test_a_list_of_times_has_one_budget_for_all_of_them() -> None:
    class Slow(OnceTrigger):
        def next_after(self, instant: Instant) -> Instant | None:
            spend(EVALUATION_STEPS * 2 // 3)
            return Instant(instant + 1)

    assert len(upcoming(Slow(at=Instant(0), timezone="UTC"), Instant(0), 50)) == 1
