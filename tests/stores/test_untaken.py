"""Occurrences that wait and that nobody takes: what they are until then, and how they end."""

from __future__ import annotations

from typing import Any

import pytest

from duetime.engine.checkout import LEASE
from duetime.engine.clock import MINUTE, SECOND, Instant
from duetime.engine.kind import Caller
from duetime.engine.model import Run, ScheduleId, executed, status_of
from duetime.engine.outcome import Completed, Returned, Waiting
from duetime.engine.policy import changes
from duetime.engine.policy.changes import Edit
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import ScheduleQuery
from duetime.stores.base import BaseStore
from duetime.testing import SettableClock
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand, create_one, runs_of, statuses, the
from tests.support.invariants import invariants
from tests.support.refusals import refusal_of
from tests.support.shell import write

LANES = ("prompt", "prompt:exact", "prompt:solo")
ANN = Caller("ada", holder="ann")
FIRST, SECOND_TIME, THIRD = T0 + MINUTE, T0 + 2 * MINUTE, T0 + 3 * MINUTE


def come_due(hand: Hand, now: int) -> None:
    """What is due by now waits for somebody to take it."""
    hand.record(hand.claim(now, lanes=LANES), now, Waiting())
    invariants(hand.store)


def recurring(store: BaseStore, hand: Hand, **policy: Any) -> ScheduleId:
    """A prompt every minute whose first occurrence waits."""
    made = create_one(store, every(kind="prompt", subject="inbox", **policy))
    come_due(hand, FIRST)
    return made


def listed(store: BaseStore, status: str) -> list[ScheduleId]:
    page = store.search(ScheduleQuery(status=status))
    assert page.total == len(page.items)
    assert all(status_of(each.progress) == status for each in page.items)
    return [each.definition.id for each in page.items]


def taken(store: BaseStore, now: int) -> Run:
    held = Scheduler(store, {}, SettableClock(Instant(now))).take(ANN, "prompt")
    assert held is not None
    invariants(store)
    run: Run = held.run
    return run


def test_it_is_pending_until_somebody_takes_it(store: BaseStore, hand: Hand) -> None:
    made = recurring(store, hand)
    assert (listed(store, "pending"), listed(store, "running")) == ([made], [])
    run = taken(store, FIRST)
    assert (listed(store, "pending"), listed(store, "running")) == ([], [made])
    scheduler = Scheduler(store, {}, SettableClock(Instant(FIRST)))
    scheduler.finish(ANN, run.id, Returned("not mine"))
    invariants(store)
    assert (listed(store, "pending"), listed(store, "running")) == ([made], [])


def test_a_hold_that_lapses_makes_it_pending_again(store: BaseStore, hand: Hand) -> None:
    made = recurring(store, hand, overlap="skip")
    taken(store, FIRST)
    hand.claim(FIRST + LEASE, lanes=LANES)
    invariants(store)
    assert listed(store, "pending") == [made]


@pytest.mark.parametrize("lapsed", [False, True])
def test_one_that_is_taken_anew_is_counted_once(store: BaseStore, hand: Hand, lapsed: bool) -> None:
    recurring(store, hand)
    first = taken(store, FIRST)
    if not lapsed:
        Scheduler(store, {}, SettableClock(Instant(FIRST))).finish(ANN, first.id, Returned("no"))
    second = taken(store, FIRST + LEASE)
    assert second.id == first.id


def test_one_that_waits_goes_to_the_new_agent_of_a_schedule_that_was_broken(store: BaseStore, hand: Hand) -> None:
    made = recurring(store, hand, untaken="keep")
    good = the(store, made).definition.trigger
    write(store, "UPDATE schedules SET trigger = replace(trigger, 'UTC', 'Nowhere') WHERE id = ?", made)
    hand.claim(SECOND_TIME, lanes=LANES)
    assert the(store, made).progress.state == "broken"
    mended = Edit(trigger=good, subject="coder")
    store.change(made, Instant(SECOND_TIME), lambda change: changes.edit(change, mended))
    assert [claim.run.due for claim in hand.claim(SECOND_TIME, lanes=LANES)] == [FIRST]


def test_one_off_and_last_occurrence_stay_running(store: BaseStore, hand: Hand) -> None:
    single = create_one(store, once(FIRST, kind="prompt"))
    last = recurring(store, hand, max_runs=1)
    assert sorted(listed(store, "running")) == sorted([single, last])


def test_paused_while_it_waits_is_paused(store: BaseStore, hand: Hand) -> None:
    made = recurring(store, hand)
    store.change(made, Instant(FIRST), changes.pause)
    assert (listed(store, "paused"), listed(store, "running")) == ([made], [])


def test_the_next_occurrence_replaces_it(store: BaseStore, hand: Hand) -> None:
    made = recurring(store, hand)
    come_due(hand, SECOND_TIME)
    first, second = runs_of(store, made)
    assert (first.status, first.error, first.finished) == ("missed", "no agent took it", SECOND_TIME)
    assert (second.status, second.due) == ("waiting", SECOND_TIME)
    assert taken(store, SECOND_TIME).id == second.id


def test_one_that_was_taken_is_not_replaced(store: BaseStore, hand: Hand) -> None:
    made = recurring(store, hand)
    run = taken(store, FIRST)
    come_due(hand, SECOND_TIME)
    assert statuses(store, made) == ["waiting", "skipped"]
    Scheduler(store, {}, SettableClock(Instant(SECOND_TIME))).finish(ANN, run.id, Completed())
    invariants(store)
    assert statuses(store, made) == ["completed", "skipped"]


def test_all_that_nobody_took_are_replaced_where_runs_may_overlap(store: BaseStore, hand: Hand) -> None:
    made = recurring(store, hand, overlap="allow", untaken="keep")
    come_due(hand, SECOND_TIME)
    assert statuses(store, made) == ["waiting", "waiting"]
    store.change(made, Instant(SECOND_TIME), lambda change: changes.edit(change, Edit(policy="{}")))
    come_due(hand, THIRD)
    assert statuses(store, made) == ["missed", "missed", "waiting"]


def test_what_nobody_took_does_not_count_as_executed(store: BaseStore, hand: Hand) -> None:
    made = recurring(store, hand, max_runs=2)
    for minute in range(2, 6):
        come_due(hand, T0 + minute * MINUTE)
        progress = the(store, made).progress
        assert (progress.run_count, executed(progress), progress.last_run) == (1, 0, None)
    run = taken(store, T0 + 5 * MINUTE)
    Scheduler(store, {}, SettableClock(Instant(T0 + 5 * MINUTE))).finish(ANN, run.id, Completed())
    come_due(hand, T0 + 6 * MINUTE)
    progress = the(store, made).progress
    assert (progress.run_count, executed(progress), progress.next) == (2, 1, None)


def test_kept_it_waits_and_the_next_one_is_skipped(store: BaseStore, hand: Hand) -> None:
    made = recurring(store, hand, untaken="keep")
    come_due(hand, SECOND_TIME)
    come_due(hand, THIRD)
    first, skipped = runs_of(store, made)
    assert (first.status, first.due) == ("waiting", FIRST)
    assert (skipped.status, skipped.error) == ("skipped", "an earlier run is still waiting for an agent")
    assert listed(store, "pending") == [made]


@pytest.mark.parametrize("single", [False, True])
def test_it_expires(store: BaseStore, hand: Hand, single: bool) -> None:
    policy: dict[str, Any] = {"untaken": "expire", "expire_after": 10 * SECOND}
    draft = once(FIRST, kind="prompt", **policy) if single else every(kind="prompt", **policy)
    made = create_one(store, draft)
    come_due(hand, FIRST)
    come_due(hand, FIRST + 9 * SECOND)
    assert statuses(store, made) == ["waiting"]
    come_due(hand, FIRST + 10 * SECOND)
    [run] = runs_of(store, made)
    assert (run.status, run.error) == ("missed", "no agent took it")
    assert status_of(the(store, made).progress) == ("failed" if single else "pending")


@pytest.mark.parametrize("manual", [False, True])
def test_the_last_of_max_runs_expires_and_the_schedule_goes_on(store: BaseStore, hand: Hand, manual: bool) -> None:
    draft = every(kind="prompt", max_runs=1, untaken="expire", expire_after=10 * SECOND)
    made, first = create_one(store, draft), T0 + SECOND if manual else FIRST
    if manual:
        store.change(made, Instant(first), changes.fire)
    come_due(hand, first)
    assert the(store, made).progress.next is None
    come_due(hand, first + 10 * SECOND)
    progress = the(store, made).progress
    following = FIRST if manual else SECOND_TIME
    assert (status_of(progress), progress.next, progress.run_count) == ("pending", following, 0)
    come_due(hand, following)
    run = taken(store, following)
    Scheduler(store, {}, SettableClock(Instant(following))).finish(ANN, run.id, Completed())
    invariants(store)
    assert statuses(store, made) == ["missed", "completed"]
    assert status_of(the(store, made).progress) == "completed"


def test_a_run_now_amid_a_pause_that_expires_ends_nothing(store: BaseStore, hand: Hand) -> None:
    draft = every(kind="prompt", max_runs=1, untaken="expire", expire_after=10 * SECOND)
    made, later = create_one(store, draft), FIRST + 20 * SECOND
    store.change(made, Instant(T0), changes.pause)
    store.change(made, Instant(T0 + SECOND), changes.fire)
    come_due(hand, T0 + SECOND)
    store.change(made, Instant(later), changes.resume)
    come_due(hand, later)
    progress = the(store, made).progress
    assert (status_of(progress), progress.next, progress.run_count) == ("pending", SECOND_TIME, 0)


def test_an_edit_that_allows_more_runs_lets_a_schedule_go_on(store: BaseStore, hand: Hand) -> None:
    policy: dict[str, Any] = {"untaken": "expire", "expire_after": 10 * SECOND}
    made = create_one(store, every(kind="prompt", max_runs=1, **policy))
    more = Edit(policy=every(kind="prompt", max_runs=5, **policy).definition.policy)
    store.change(made, Instant(T0), changes.pause)
    store.change(made, Instant(T0 + SECOND), changes.fire)
    store.change(made, Instant(T0 + SECOND), lambda change: changes.edit(change, more))
    invariants(store)
    assert the(store, made).progress.next == FIRST
    store.change(made, Instant(T0 + SECOND), changes.resume)
    come_due(hand, T0 + SECOND)
    come_due(hand, T0 + 11 * SECOND)
    progress = the(store, made).progress
    assert (status_of(progress), progress.next, progress.run_count) == ("pending", FIRST, 0)


def test_one_that_is_given_back_still_expires(store: BaseStore, hand: Hand) -> None:
    made = create_one(store, every(kind="prompt", untaken="expire", expire_after=10 * SECOND))
    come_due(hand, FIRST)
    run = taken(store, FIRST)
    Scheduler(store, {}, SettableClock(Instant(FIRST + SECOND))).finish(ANN, run.id, Returned("no"))
    invariants(store)
    come_due(hand, FIRST + 10 * SECOND)
    assert statuses(store, made) == ["missed"]


def test_it_can_be_edited_and_moved(store: BaseStore, hand: Hand) -> None:
    made = recurring(store, hand)
    patch = Edit(payload='{"prompt":"anew"}', next=Instant(T0 + 10 * MINUTE))
    store.change(made, Instant(FIRST), lambda change: changes.edit(change, patch))
    invariants(store)
    assert (statuses(store, made), the(store, made).progress.next) == (["waiting"], T0 + 10 * MINUTE)
    taken(store, FIRST)
    pending_only = patch._replace(pending_only=True)
    refused = refusal_of(lambda: store.change(made, Instant(FIRST), lambda change: changes.edit(change, pending_only)))
    assert refused.code == "not_possible"


@pytest.mark.parametrize("paused", [False, True])
def test_given_to_another_agent_it_starts_again(store: BaseStore, hand: Hand, paused: bool) -> None:
    made = recurring(store, hand)
    if paused:
        store.change(made, Instant(FIRST), changes.pause)
    store.change(made, Instant(FIRST), lambda change: changes.edit(change, Edit(subject="coder")))
    invariants(store)
    assert statuses(store, made) == ["pending"]
    if paused:
        assert hand.claim(FIRST, lanes=LANES) == []
        store.change(made, Instant(FIRST), changes.resume)
    [claim] = hand.claim(FIRST, lanes=LANES)
    assert (claim.run.due, claim.definition.subject) == (FIRST, "coder")


def test_run_now_says_that_one_waits(store: BaseStore, hand: Hand) -> None:
    made = recurring(store, hand)
    refused = refusal_of(lambda: store.change(made, Instant(FIRST), changes.fire))
    assert "waiting for an agent" in refused.message


def test_cancelling_ends_what_waits(store: BaseStore, hand: Hand) -> None:
    made = recurring(store, hand)
    store.change(made, Instant(FIRST), changes.cancel)
    invariants(store)
    assert (statuses(store, made), listed(store, "cancelled")) == (["cancelled"], [made])
