"""The clock was a year ahead and was corrected: every schedule goes on at its time, visibly, and nothing runs twice."""

from __future__ import annotations

import pytest

from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND, Instant
from duetime.engine.model import RunId, RunStatus, ScheduleId, ScheduleState
from duetime.engine.outcome import Failed, Retry, Returned, Waiting
from duetime.engine.policy import changes, checkout
from duetime.engine.policy.changes import Edit
from duetime.engine.store import ClaimRequest
from duetime.engine.worker.poison import count_from
from duetime.stores.base import BaseStore
from duetime.testing import SettableClock
from tests.support.drafts import T0, every, once
from tests.support.hand import LANES, Hand, create_one, runs_of, the, the_run

YEAR = 365 * DAY
NOW = Instant(T0 + 10 * SECOND)
"""When the clock is corrected."""
CORRECTED = "the clock was ahead and has been corrected"


def correct(store: BaseStore) -> None:
    """As a worker does it; the next worker that starts has nothing left to do."""
    count_from(store, SettableClock(NOW), 1)
    before = {schedule: runs_of(store, schedule) for schedule in store.ahead(NOW, 100)}
    count_from(store, SettableClock(NOW), 1)
    assert {schedule: runs_of(store, schedule) for schedule in before} == before


def lines(store: BaseStore, schedule: ScheduleId) -> list[Instant]:
    """When the history says that the clock was corrected."""
    return [run.due for run in runs_of(store, schedule) if run.error is not None and run.error.startswith(CORRECTED)]


def goes_on_hourly(store: BaseStore, hand: Hand, schedule: ScheduleId) -> None:
    """Once for each hour, except the one that ran while the clock was ahead."""
    assert the(store, schedule).progress.next == T0 + HOUR
    for hour in range(1, 4):
        (claim,) = hand.claim(T0 + hour * HOUR)
        assert (claim.run.due, claim.run.attempt) == (T0 + hour * HOUR, 1)
        hand.record([claim], T0 + hour * HOUR)
    assert len(lines(store, schedule)) == 1
    ran = [run.due for run in runs_of(store, schedule) if run.status == RunStatus.COMPLETED]
    assert len(ran) == len(set(ran))


@pytest.mark.parametrize("anchor", [T0 - HOUR, T0], ids=["began before", "all in the future"])
def test_a_range_of_missed_occurrences_ends_now(store: BaseStore, hand: Hand, anchor: int) -> None:
    schedule = create_one(store, every(HOUR, anchor))
    hand.record(hand.claim(T0 + YEAR), T0 + YEAR)
    correct(store)
    missed = [(run.due, run.last, run.number) for run in runs_of(store, schedule) if run.status == RunStatus.MISSED]
    assert missed == ([(T0, T0, 1)] if anchor < T0 else [])
    goes_on_hourly(store, hand, schedule)
    hand.record(hand.claim(T0 + YEAR - HOUR), T0 + YEAR - HOUR)
    assert hand.claim(T0 + YEAR) == [], "it ran while the clock was ahead"
    assert the(store, schedule).progress.next == T0 + YEAR + HOUR


def test_a_retry_is_as_far_from_now_as_its_policy_says(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR, T0, max_attempts=3, backoff=2 * SECOND))
    hand.record(hand.claim(T0 + YEAR), T0 + YEAR, Failed("no net"))
    correct(store)
    (again,) = hand.claim(NOW + 2 * SECOND)
    assert (again.run.due, again.run.attempt) == (T0 + YEAR, 2)
    hand.record([again], NOW + 2 * SECOND, Returned())
    (again,) = hand.claim(NOW + 2 * SECOND)
    hand.record([again], NOW + 3 * SECOND)
    goes_on_hourly(store, hand, schedule)


def test_a_retry_of_what_began_before_is_too(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR, T0 - HOUR, max_attempts=3, backoff=2 * SECOND))
    claims = hand.claim(T0)
    hand.record(claims, T0 + YEAR, Failed("no net"))
    correct(store)
    (again,) = hand.claim(NOW + 2 * SECOND)
    assert (again.run.id, again.run.attempt) == (claims[0].run.id, 2)
    hand.record([again], NOW + 2 * SECOND)
    goes_on_hourly(store, hand, schedule)


def test_a_long_retry_that_was_asked_for_stays(store: BaseStore, hand: Hand) -> None:
    create_one(store, once(T0, max_attempts=3, backoff=30 * DAY, backoff_limit=30 * DAY))
    hand.record(hand.claim(T0), T0, Failed("no net"))
    assert store.ahead(NOW, 10) == []
    correct(store)
    assert hand.claim(T0 + 10 * DAY) == []


def test_what_an_hourly_limit_held_back_starts_in_time(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR, T0))
    wants = [ClaimRequest(lane, 100, Instant(T0 + YEAR)) for lane in LANES]
    assert store.record_and_claim(hand.id, Instant(T0 + YEAR), [], wants, budget=0).claims == []
    correct(store)
    goes_on_hourly(store, hand, schedule)


def test_what_queued_meanwhile_starts_now(store: BaseStore, hand: Hand) -> None:
    create_one(store, every(HOUR, T0, overlap="queue"))
    first = hand.claim(T0 + YEAR)
    assert hand.claim(T0 + YEAR + HOUR) == []
    correct(store)
    hand.record(first, NOW)
    (second,) = hand.claim(NOW)
    assert second.run.due == T0 + YEAR + HOUR


@pytest.mark.parametrize("by", ["a person", "the engine"])
def test_a_pause_ends_on_request_with_the_next_occurrence_after_now(store: BaseStore, hand: Hand, by: str) -> None:
    schedule = create_one(store, every(HOUR, T0, pause_after=1 if by == "the engine" else 0))
    hand.record(hand.claim(T0 + YEAR), T0 + YEAR, Failed("no net"))
    if by == "a person":
        store.change(schedule, Instant(T0 + YEAR), changes.pause)
    correct(store)
    assert the(store, schedule).progress.state == ScheduleState.PAUSED
    store.change(schedule, Instant(NOW + MINUTE), changes.resume)
    goes_on_hourly(store, hand, schedule)


def test_a_pause_keeps_its_end(store: BaseStore, hand: Hand) -> None:
    """It may have been set rightly, or name a date. Paused work that runs too early is worse than work that waits."""
    schedule = create_one(store, every(HOUR, T0))
    until = Instant(T0 + 90 * MINUTE)
    store.change(schedule, NOW, lambda change: changes.pause(change, until))
    store.change(schedule, Instant(T0 + DAY), lambda change: changes.edit(change, Edit(name="renamed")))
    correct(store)
    assert the(store, schedule).definition.resume_at == until
    assert hand.claim(T0 + HOUR) == []


def test_a_retry_waits_as_long_as_it_was_told_to(store: BaseStore, hand: Hand) -> None:
    create_one(store, once(T0, max_attempts=3, backoff=2 * SECOND))
    hand.record(hand.claim(T0 + YEAR), T0 + YEAR, Retry("429", after=6 * HOUR))
    correct(store)
    assert hand.claim(NOW + 6 * HOUR - SECOND) == []
    assert len(hand.claim(NOW + 6 * HOUR + SECOND)) == 1


@pytest.mark.parametrize("catch_up", ["skip", "once"])
def test_what_ended_before_its_time_is_live_again_unless_it_ran(store: BaseStore, hand: Hand, catch_up: str) -> None:
    schedule = create_one(store, once(T0 + DAY, catch_up=catch_up))
    hand.record(hand.claim(T0 + YEAR), T0 + YEAR)
    assert the(store, schedule).progress.state == ScheduleState.ENDED
    correct(store)
    claims = hand.claim(T0 + DAY)
    hand.record(claims, T0 + DAY)
    assert [claim.run.due for claim in claims] == ([T0 + DAY] if catch_up == "skip" else [])
    assert the(store, schedule).progress.state == ScheduleState.ENDED
    assert [run.status for run in runs_of(store, schedule)].count("completed") == 1
    assert len(lines(store, schedule)) == len(claims)


def test_a_lease_ends_as_long_after_now_as_it_was_to_last(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once(T0))
    (claim,) = hand.claim(T0)
    hand.record([claim], T0, Waiting())
    run = RunId(claim.run.id)
    store.change_run(run, Instant(T0 + YEAR), lambda c, r: checkout.take(c, r, "ann", 5 * MINUTE))
    correct(store)
    held = the_run(store, run)
    assert (held.holder, held.started, held.expires) == ("ann", NOW, NOW + 5 * MINUTE)
    assert hand.claim(NOW + 5 * MINUTE) == []
    assert the_run(store, run).holder is None, "the lease ended"
    assert len(lines(store, schedule)) == 1


def test_a_deadline_that_was_set_rightly_stays(store: BaseStore, hand: Hand) -> None:
    create_one(store, once(T0, untaken="expire", expire_after=8 * HOUR))
    (claim,) = hand.claim(T0)
    hand.record([claim], T0, Waiting())
    run = RunId(claim.run.id)
    store.change_run(run, Instant(T0 + 7 * HOUR), lambda c, r: checkout.take(c, r, "ann", 5 * MINUTE))
    correct(store)
    held = the_run(store, run)
    assert (held.until, held.expires) == (T0 + 8 * HOUR, NOW + 5 * MINUTE)


def test_clocks_that_differ_a_little_leave_no_line(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(SECOND, T0))
    hand.record(hand.claim(NOW + 2 * SECOND), NOW + 2 * SECOND)
    correct(store)
    assert the(store, schedule).progress.next == NOW + SECOND
    assert lines(store, schedule) == []
