"""Everything that can go wrong opens an incident, and each is over when it should be."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest

from duetime.engine.clock import DAY, HOUR, MINUTE, Instant
from duetime.engine.kind import Caller
from duetime.engine.model import ScheduleId, ScheduleState, Trouble
from duetime.engine.outcome import Failed, Waiting
from duetime.engine.policy import changes
from duetime.engine.policy.changes import Edit
from duetime.engine.policy.options import ALERTS
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import ScheduleQuery
from duetime.stores.base import BaseStore
from duetime.testing import SettableClock
from tests.stores.test_incidents import NO_WATER, open_incidents, run_at, tell, told
from tests.support.drafts import T0, every, once
from tests.support.hand import DONE, Hand, create, create_one, runs_of, the
from tests.support.shell import write

AT = T0 + 2 * HOUR
NOTIFICATIONS = ("notification", "notification:solo")


def fail(hand: Hand, **policy: Any) -> ScheduleId:
    schedule = create_one(hand.store, every(HOUR, T0 + HOUR, **policy))
    run_at(hand, AT, NO_WATER)
    return schedule


def lose(hand: Hand, **policy: Any) -> ScheduleId:
    schedule = create_one(hand.store, every(HOUR, T0 + HOUR, at_most_once=True, **policy))
    hand.claim(AT)
    hand.die(AT)
    hand.id = hand.store.register("another", ("job",), False, Instant(AT))
    return schedule


def miss(hand: Hand, **policy: Any) -> ScheduleId:
    schedule = create_one(hand.store, every(HOUR, T0 - 10 * HOUR + 30 * MINUTE, catch_up="skip", **policy))
    hand.claim(AT)
    return schedule


def leave(hand: Hand, **policy: Any) -> ScheduleId:
    schedule = create_one(hand.store, every(HOUR, T0, **policy))
    for hour in (1, 2):
        run_at(hand, T0 + hour * HOUR, Waiting())
    return schedule


def stop(hand: Hand, **policy: Any) -> ScheduleId:
    return fail(hand, pause_after=1, **policy)


def break_(hand: Hand, **policy: Any) -> ScheduleId:
    schedule = create_one(hand.store, every(HOUR, T0 + HOUR, **policy))
    write(hand.store, "UPDATE schedules SET trigger = ? WHERE id = ?", "no trigger", schedule)
    hand.claim(AT)
    return schedule


OPENED: dict[str, tuple[Callable[..., ScheduleId], list[Trouble]]] = {
    "fails": (fail, [Trouble.FAILED]),
    "is lost": (lose, [Trouble.FAILED]),
    "is missed": (miss, [Trouble.MISSED]),
    "is not taken": (leave, [Trouble.UNTAKEN]),
    "pauses itself": (stop, [Trouble.FAILED, Trouble.PAUSED]),
    "breaks": (break_, [Trouble.BROKEN]),
}


@pytest.mark.parametrize("what", OPENED)
def test_it_opens_an_incident_and_is_told_in_one_message(store: BaseStore, hand: Hand, what: str) -> None:
    act, troubles = OPENED[what]
    schedule = act(hand)
    assert sorted(each.trouble for each in open_incidents(store)) == sorted(troubles)
    assert {each.schedule for each in open_incidents(store)} == {schedule}
    tell(store, AT + MINUTE)
    (title,) = told(store)
    assert title.startswith("water the plants ")


@pytest.mark.parametrize("what", OPENED)
def test_a_schedule_without_alerts_opens_it_in_silence(store: BaseStore, hand: Hand, what: str) -> None:
    act, troubles = OPENED[what]
    act(hand, alert="off")
    tell(store, AT + MINUTE)
    tell(store, AT + 2 * DAY)
    assert (len(open_incidents(store)), told(store)) == (len(troubles), [])


@pytest.mark.parametrize("what", OPENED)
@pytest.mark.parametrize("end", [changes.cancel, changes.delete, partial(changes.delete, forever=True)])
def test_it_is_over_in_silence_when_nobody_wants_the_schedule(
    store: BaseStore, hand: Hand, what: str, end: Callable[[changes.Change], changes.Decision[Any]]
) -> None:
    schedule = OPENED[what][0](hand)
    tell(store, AT + MINUTE)
    store.change(schedule, Instant(AT + MINUTE), end)
    assert open_incidents(store) == []
    tell(store, AT + HOUR)
    tell(store, AT + 2 * DAY)
    assert len(told(store)) == 1


class End(NamedTuple):
    """What ends an incident, and whether its owner hears of that."""

    act: Callable[[BaseStore, Hand, ScheduleId], object]
    is_told: bool


def succeed(store: BaseStore, hand: Hand, schedule: ScheduleId) -> None:
    run_at(hand, AT + HOUR, DONE)


def succeed_half_an_hour_later(store: BaseStore, hand: Hand, schedule: ScheduleId) -> None:
    run_at(hand, AT + 30 * MINUTE, DONE)


def take(store: BaseStore, hand: Hand, schedule: ScheduleId) -> None:
    """Take the prompt that replaced the one that nobody took: it waits since the instant at which that one ended."""
    scheduler, agent = Scheduler(store, {}, SettableClock(Instant(AT + MINUTE))), Caller("ada", holder="ann")
    held = scheduler.take(agent, "job")
    assert held is not None
    scheduler.finish(agent, held.run.id, DONE)


def resume(store: BaseStore, hand: Hand, schedule: ScheduleId) -> None:
    store.change(schedule, Instant(AT + MINUTE), changes.resume)
    tell(store, AT + 2 * MINUTE)
    assert [each.trouble for each in open_incidents(store)] == [Trouble.FAILED]
    run_at(hand, AT + HOUR, DONE)


def edit(store: BaseStore, hand: Hand, schedule: ScheduleId) -> None:
    good = every(HOUR, T0 + HOUR).definition.trigger
    store.change(schedule, Instant(AT + MINUTE), lambda change: changes.edit(change, Edit(trigger=good)))


ENDS = {
    "fails": End(succeed, True),
    "is lost": End(succeed, True),
    "is missed": End(succeed_half_an_hour_later, False),
    "is not taken": End(take, True),
    "pauses itself": End(resume, True),
    "breaks": End(edit, False),
}


@pytest.mark.parametrize("what", ENDS)
def test_it_is_over_when_it_goes_well(store: BaseStore, hand: Hand, what: str) -> None:
    schedule = OPENED[what][0](hand)
    tell(store, AT + MINUTE)
    ENDS[what].act(store, hand, schedule)
    tell(store, AT + HOUR)
    assert open_incidents(store) == []
    for minute in (1, 5, 30, 2000):
        tell(store, AT + HOUR + minute * MINUTE)
    assert told(store)[1:] == ["water the plants works again"] * ENDS[what].is_told


def test_a_run_by_hand_does_not_end_a_pause(store: BaseStore, hand: Hand) -> None:
    schedule = stop(hand)
    store.change(schedule, Instant(AT + MINUTE), changes.fire)
    run_at(hand, AT + MINUTE, DONE)
    tell(store, AT + MINUTE)
    assert [each.trouble for each in open_incidents(store)] == [Trouble.PAUSED]
    assert the(store, schedule).progress.state == ScheduleState.PAUSED


def test_a_retry_of_a_one_off_ends_its_incident(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once())
    run_at(hand, T0, NO_WATER)
    tell(store, T0)
    (run,) = runs_of(store, schedule)
    store.change_run(run.id, Instant(T0 + HOUR), changes.retry)
    run_at(hand, T0 + HOUR, DONE)
    tell(store, T0 + HOUR)
    tell(store, T0 + 2 * HOUR)
    assert (open_incidents(store), told(store)[1:]) == ([], ["water the plants works again"])


def test_the_run_that_waited_for_the_failed_one_ends_the_incident(store: BaseStore, hand: Hand) -> None:
    """It starts in the transaction that records the failure, at the same instant."""
    create_one(store, every(HOUR, overlap="queue", queue_limit=1, max_runs=2))
    first = hand.claim(T0 + HOUR)
    assert hand.claim(T0 + 2 * HOUR) == []
    hand.record(first, T0 + 3 * HOUR, NO_WATER)
    hand.record(hand.claim(T0 + 3 * HOUR), T0 + 3 * HOUR, DONE)
    tell(store, T0 + 3 * HOUR)
    assert open_incidents(store) == []


def test_an_edit_silences_what_is_open(store: BaseStore, hand: Hand) -> None:
    schedule = fail(hand)
    tell(store, AT)
    policy = json.dumps({"alert": "off"})
    store.change(schedule, Instant(AT + HOUR), lambda change: changes.edit(change, Edit(policy=policy)))
    for day in range(1, 9):
        tell(store, AT + day * DAY)
    assert len(told(store)) == len(open_incidents(store)) == 1


# -- many together ---------------------------------------------------------------------------------------------------


def give_up(hand: Hand, now: int) -> None:
    hand.record(hand.claim(now, lanes=[*NOTIFICATIONS, "request", "request:solo"]), now, Failed("404", permanent=True))


def test_a_delivery_that_is_given_up_is_told(store: BaseStore, hand: Hand) -> None:
    callback = {"on": "success", "kind": "request", "payload": {"url": "https://example.org/hook"}}
    create(store, once(deliver_to="garden", name="mow"), once(callbacks=[callback], name="rake"))
    create(store, once(kind="notification", subject="garden", name="call mum", payload='{"title":"call"}'))
    run_at(hand, T0, DONE)
    give_up(hand, T0 + MINUTE)
    tell(store, T0 + MINUTE)
    assert {(each.name, each.trouble) for each in open_incidents(store)} == {
        ("mow completed", Trouble.UNDELIVERED),
        ("callback of rake", Trouble.UNDELIVERED),
        ("call mum", Trouble.FAILED),
    }
    assert told(store)[-1] == "3 problems need attention"


@pytest.mark.parametrize("alert", ["first", "every"])
def test_alerts_that_cannot_be_delivered_cause_none(store: BaseStore, hand: Hand, alert: str) -> None:
    """Neither the messages about incidents nor other alerts, such as about a limit."""
    create(store, every(HOUR, alert=alert), once(kind="notification", subject=ALERTS, key="~limit:7", payload="{}"))
    for hour in range(1, 30):
        run_at(hand, T0 + hour * HOUR, NO_WATER)
        tell(store, T0 + hour * HOUR)
        give_up(hand, T0 + hour * HOUR)
    assert {each.name for each in open_incidents(store)} == {"water the plants"}


def test_a_schedule_that_reports_its_pause_on_its_topic_has_an_incident_but_no_alert(
    store: BaseStore, hand: Hand
) -> None:
    stop(hand, deliver_to="garden")
    tell(store, AT + MINUTE)
    topics = {each.definition.subject for each in store.search(ScheduleQuery(owner="ada", kind="notification")).items}
    assert topics == {"garden"}
    assert sorted(each.trouble for each in open_incidents(store)) == [Trouble.FAILED, Trouble.PAUSED]


def test_a_thousand_schedules_that_fail_at_once_are_three_messages(store: BaseStore, hand: Hand) -> None:
    """Workers look every few seconds while the runs end, one batch after the other."""
    create(store, *(every(HOUR, name=f"plant {number}") for number in range(1000)))

    def run_all(hour: int, outcome: Any) -> None:
        for batch in range(20):
            now = T0 + hour * HOUR + batch * 3_000_000
            hand.record(hand.claim(now, limit=50), now, outcome)
            tell(store, now)

    run_all(1, NO_WATER)
    for minute in range(60, 118, 2):
        tell(store, T0 + minute * MINUTE)
    assert told(store) == ["50 problems need attention", "950 problems need attention"]
    assert len(open_incidents(store)) == 1000
    run_all(2, DONE)
    for minute in range(121, 240, 2):
        tell(store, T0 + minute * MINUTE)
    assert told(store)[2:] == ["1000 problems are over"]
    assert open_incidents(store) == []


@pytest.mark.parametrize("failing", [0, 5])
def test_an_outage_is_one_message_while_workers_find_what_was_missed(
    store: BaseStore, hand: Hand, failing: int
) -> None:
    """It takes them a while. What fails meanwhile is told at once, in a message of its own."""
    create(store, *(every(HOUR, name=f"plant {number}") for number in range(failing)))
    create(store, *(every(HOUR, name=f"tide {number}", catch_up="skip") for number in range(60)))
    for second in range(0, 30, 3):
        now = T0 + 8 * HOUR + 30 * MINUTE + second * 1_000_000
        hand.record(hand.claim(now, limit=10), now, NO_WATER)
        tell(store, now)
    for minute in range(31, 60):
        tell(store, T0 + 8 * HOUR + minute * MINUTE)
    failed = [f"{failing} problems need attention"] if failing else []
    assert told(store) == [*failed, "60 problems need attention"]


def test_what_failed_again_meanwhile_does_not_work_again(store: BaseStore, hand: Hand) -> None:
    create_one(store, every(2 * MINUTE))
    run_at(hand, T0 + 2 * MINUTE, NO_WATER)
    tell(store, T0 + 2 * MINUTE)
    for minute, outcome in ((4, DONE), (6, NO_WATER)):
        run_at(hand, T0 + minute * MINUTE, outcome)
        tell(store, T0 + minute * MINUTE)
    tell(store, T0 + 15 * MINUTE)
    assert told(store) == ["water the plants failed"] * 2


def test_a_schedule_that_works_again_is_named_once(store: BaseStore, hand: Hand) -> None:
    create_one(store, every(HOUR))
    for hour, error in ((1, "no water"), (2, "no permission")):
        run_at(hand, T0 + hour * HOUR, Failed(error, permanent=True))
        tell(store, T0 + hour * HOUR)
    run_at(hand, T0 + 3 * HOUR, DONE)
    tell(store, T0 + 3 * HOUR)
    tell(store, T0 + 4 * HOUR)
    assert told(store)[2:] == ["water the plants works again"]


def test_an_incident_of_a_schedule_that_was_pruned_is_pruned(store: BaseStore, hand: Hand) -> None:
    create_one(store, once())
    run_at(hand, T0, NO_WATER)
    store.prune(Instant(T0 + 30 * DAY), 1000)
    store.prune(Instant(T0 + 30 * DAY), 1000)
    assert [tuple(row) for row in store._rows("SELECT count(*) FROM incidents", ())] == [(0,)]
