"""What messages need of a store besides: failures that are dealt with, changes amid runs, answers that are kept."""

from __future__ import annotations

from typing import Any

import pytest

from duetime.engine.clock import HOUR, MINUTE, SECOND, Instant
from duetime.engine.model import Run, RunId, RunStatus, Schedule, ScheduleId, ScheduleState
from duetime.engine.outcome import Completed, Failed, Outcome, Retry, Returned
from duetime.engine.policy import changes
from duetime.engine.policy.changes import Edit
from duetime.engine.triggers import IntervalTrigger, trigger_to_json
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand, create_one, runs_of, the, the_run
from tests.support.refusals import refusal_of

OVERLAPPING: dict[str, Any] = {"overlap": "allow", "max_attempts": 3, "backoff": 1, "backoff_limit": 1}


def edit(store: BaseStore, schedule: ScheduleId, now: int, **patch: Any) -> Schedule:
    return store.change(schedule, Instant(now), lambda change: changes.edit(change, Edit(**patch)))


def failed(store: BaseStore, hand: Hand) -> Run:
    create_one(store, once(T0))
    [claim] = hand.claim(T0)
    hand.record([claim], T0, Failed("no", permanent=True))
    return the_run(store, claim.run.id)


# -- what was dealt with ----------------------------------------------------------------------------------------


def test_a_failure_that_was_dealt_with_stays_a_failure(store: BaseStore, hand: Hand) -> None:
    run = failed(store, hand)
    for _ in range(2):
        store.change_run(run.id, T0, changes.dismiss)
        assert the_run(store, run.id) == run._replace(stop=1)
    assert the(store, run.schedule).progress.last_status == RunStatus.FAILED


def test_a_retry_takes_it_back(store: BaseStore, hand: Hand) -> None:
    run = failed(store, hand)
    store.change_run(run.id, T0, changes.dismiss)
    store.change_run(run.id, T0, changes.retry)
    [claim] = hand.claim(T0)
    assert (claim.run.id, claim.run.stop) == (run.id, 0)
    hand.record([claim], T0, Failed("again", permanent=True))
    assert the_run(store, run.id).stop == 0


def test_only_a_failure_can_be_dealt_with(store: BaseStore, hand: Hand) -> None:
    create_one(store, once(T0))
    [claim] = hand.claim(T0)
    for outcome in (None, Completed()):
        if outcome is not None:
            hand.record([claim], T0, outcome)
        refused = refusal_of(lambda: store.change_run(claim.run.id, T0, changes.dismiss))
        assert refused.code == "not_possible"
        assert the_run(store, claim.run.id).stop == 0


# -- changes amid runs ------------------------------------------------------------------------------------------


def test_what_is_on_its_way_is_no_reason_to_wait(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, payload='"old"', **OVERLAPPING))
    [retried] = hand.claim(T0 + MINUTE)
    hand.record([retried], T0 + MINUTE, Retry("later", after=HOUR))
    [running] = hand.claim(T0 + 2 * MINUTE)
    now = T0 + 2 * MINUTE + SECOND
    refused = refusal_of(lambda: edit(store, schedule, now, payload='"new"', pending_only=True))
    assert refused.code == "not_possible"

    hourly = IntervalTrigger(timezone="UTC", period=HOUR, anchor=Instant(now))
    edit(store, schedule, now, payload='"new"', trigger=trigger_to_json(hourly), amid_runs=True)
    assert the(store, schedule).progress.next == now + HOUR
    assert the(store, schedule).progress.active == 2
    later = T0 + MINUTE + HOUR
    assert hand.claim(later - SECOND) == [], "the receiver said when to try again"
    [again] = hand.claim(later)
    assert (again.run.id, again.definition.payload) == (retried.run.id, '"new"')
    hand.record([again, running], later, Completed())
    assert {run.status for run in runs_of(store, schedule)} == {RunStatus.COMPLETED}
    assert hand.claim(now + HOUR - SECOND) == []
    assert len(hand.claim(now + HOUR)) == 1


def test_a_schedule_that_is_over_is_not_changed_amid_runs_either(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, **OVERLAPPING))
    hand.claim(T0 + MINUTE)
    store.change(schedule, Instant(T0 + MINUTE), changes.cancel)
    refusal_of(lambda: edit(store, schedule, T0 + MINUTE, payload='"new"', amid_runs=True))


# -- by hand, while the schedule is paused ------------------------------------------------------------------------


def dead_and_paused(store: BaseStore, hand: Hand, number: int = 1, **policy: Any) -> tuple[ScheduleId, list[RunId]]:
    """Occurrences that failed for good, of a schedule that was paused over it."""
    schedule = create_one(store, every(MINUTE, **{**OVERLAPPING, "pause_after": number, **policy}))
    for minute in range(1, number + 1):
        hand.record(hand.claim(T0 + minute * MINUTE), T0 + minute * MINUTE, Failed("no", permanent=True))
    assert the(store, schedule).progress.state == ScheduleState.PAUSED
    return schedule, [run.id for run in runs_of(store, schedule)]


def test_all_that_failed_can_be_tried_again_at_once(store: BaseStore, hand: Hand) -> None:
    schedule, dead = dead_and_paused(store, hand, 3)
    for run in dead:
        store.change_run(run, Instant(T0 + HOUR), changes.retry)
    claims = hand.claim(T0 + HOUR)
    assert [claim.run.id for claim in claims] == dead
    hand.record(claims, T0 + HOUR)
    assert {run.status for run in runs_of(store, schedule)} == {RunStatus.COMPLETED}
    assert the(store, schedule).progress.state == ScheduleState.PAUSED


@pytest.mark.parametrize("outcome", [Retry("not yet"), Failed("not yet"), Returned()])
def test_what_was_retried_by_hand_is_not_parked_by_the_pause(store: BaseStore, hand: Hand, outcome: Outcome) -> None:
    """Nobody would hear of it again: it is no dead letter, and nothing would wake it."""
    _, [run] = dead_and_paused(store, hand)
    store.change_run(run, Instant(T0 + HOUR), changes.retry)
    hand.record(hand.claim(T0 + HOUR), T0 + HOUR, outcome)
    [again] = hand.claim(T0 + HOUR + SECOND)
    assert again.run.id == run
    hand.record([again], T0 + HOUR + SECOND, Failed("no more", permanent=True))
    assert the_run(store, run).status == RunStatus.FAILED, "a dead letter again"


def test_not_even_when_its_worker_dies(store: BaseStore, hand: Hand) -> None:
    _, [run] = dead_and_paused(store, hand)
    store.change_run(run, Instant(T0 + HOUR), changes.retry)
    assert len(hand.claim(T0 + HOUR)) == 1
    hand.die(T0 + HOUR)
    assert [claim.run.id for claim in Hand(store, "heir").claim(T0 + HOUR)] == [run]


def test_nor_when_it_had_not_even_begun_before(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, **OVERLAPPING))
    hand.record(hand.claim(T0 + MINUTE), T0 + MINUTE, Returned())
    [run] = runs_of(store, schedule)
    store.change_run(run.id, Instant(T0 + MINUTE), changes.cancel_run)
    store.change(schedule, Instant(T0 + MINUTE), changes.pause)
    store.change_run(run.id, Instant(T0 + HOUR), changes.retry)
    assert [(attempt.number, attempt.status) for attempt in store.attempts(run.id)] == [(1, RunStatus.CANCELLED)]
    hand.record(hand.claim(T0 + HOUR), T0 + HOUR, Retry("not yet"))
    assert [claim.run.id for claim in hand.claim(T0 + HOUR + SECOND)] == [run.id]


def test_what_was_run_by_hand_is_not_parked_either(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR, **OVERLAPPING))
    store.change(schedule, T0, changes.pause)
    fired = store.change(schedule, T0, changes.fire)
    hand.record(hand.claim(T0), T0, Retry("not yet"))
    edit(store, schedule, T0 + 1, name="new", amid_runs=True)
    [again] = hand.claim(T0 + SECOND)
    assert (again.run.id, again.run.attempt) == (fired.id, 2)


def test_a_pause_parks_what_nobody_asked_for(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, **OVERLAPPING))
    claims = hand.claim(T0 + MINUTE)
    hand.record(claims, T0 + MINUTE, Retry("first"))
    claims = hand.claim(T0 + MINUTE + SECOND)
    store.change(schedule, Instant(T0 + MINUTE + SECOND), changes.pause)
    hand.record(claims, T0 + MINUTE + SECOND, Retry("second"))
    assert hand.claim(T0 + HOUR) == []
    store.change(schedule, Instant(T0 + HOUR), changes.resume)
    assert [claim.run.attempt for claim in hand.claim(T0 + HOUR)] == [3]


# -- answers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "kept"),
    [
        (Failed("no", permanent=True, result='"answer"'), '"answer"'),
        (Retry("no", result='"answer"'), '"answer"'),
        (Failed("no", permanent=True), None),
        (Retry("no"), None),
    ],
)
def test_what_was_answered_last_is_kept(store: BaseStore, hand: Hand, outcome: Outcome, kept: str | None) -> None:
    create_one(store, once(T0))
    [claim] = hand.claim(T0)
    hand.record([claim], T0, outcome)
    run = the_run(store, claim.run.id)
    assert (run.status, run.error, run.result) == (RunStatus.FAILED, "no", kept)


def test_an_answer_before_the_last_attempt_is_not_kept(store: BaseStore, hand: Hand) -> None:
    create_one(store, once(T0, **OVERLAPPING))
    [claim] = hand.claim(T0)
    hand.record([claim], T0, Retry("no", result='"answer"'))
    assert the_run(store, claim.run.id).result is None
