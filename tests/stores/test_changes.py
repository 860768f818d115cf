"""What people do to schedules and runs: pause, resume, cancel, delete, edit, fire, retry, take, finish."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from duetime.engine.clock import HOUR, MINUTE, SECOND, Instant
from duetime.engine.errors import Conflict, DuetimeError, Refused
from duetime.engine.model import Cause, Run, RunId, RunStatus, Schedule, ScheduleId, ScheduleState
from duetime.engine.outcome import Completed, Failed, Returned, Waiting
from duetime.engine.policy import changes, checkout
from duetime.engine.policy.changes import Change, Decision, Edit
from duetime.engine.policy.pauses import NOTHING_FOLLOWS
from duetime.engine.store import RunQuery
from duetime.engine.triggers import IntervalTrigger, OnceTrigger, trigger_to_json
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand, create, create_one, runs_of, statuses, the, the_run
from tests.support.refusals import attempt, refusal_of
from tests.support.shell import break_trigger, go_back, write
from tests.support.wordings import NOT_FINISHED


def code_of(call: Callable[[], object]) -> str:
    return refusal_of(call).code


def edit(store: BaseStore, schedule: ScheduleId, now: int, **patch: Any) -> Schedule:
    return store.change(schedule, Instant(now), lambda change: changes.edit(change, Edit(**patch)))


def waiting_run(store: BaseStore, hand: Hand, schedule: ScheduleId, now: int, until: int | None = None) -> RunId:
    (claim,) = hand.claim(now)
    assert claim.definition.id == schedule
    hand.record([claim], now, Waiting(None if until is None else Instant(until)))
    return claim.run.id


def test_what_is_not_there_is_not_found(store: BaseStore) -> None:
    assert code_of(lambda: store.change(ScheduleId(99), T0, changes.pause)) == "not_found"
    assert code_of(lambda: store.change_run(RunId(99), T0, changes.retry)) == "not_found"


def test_a_refused_row_of_a_batch_is_returned_beside_the_others(store: BaseStore, hand: Hand) -> None:
    first, second = (each.definition.id for each in create(store, once(), once()))
    claims = {claim.definition.id: claim for claim in hand.claim(T0)}
    hand.record([claims[first]], T0, Failed("no", permanent=True))
    hand.record([claims[second]], T0)
    runs = [claims[first].run.id, claims[second].run.id, RunId(99)]
    dismissed, completed, missing = store.change_runs(runs, T0, changes.dismiss)
    assert isinstance(dismissed, Run) and dismissed.stop == the_run(store, runs[0]).stop == 1
    assert isinstance(completed, Refused) and isinstance(missing, Refused)
    assert (completed.code, missing.code) == ("not_possible", "not_found")
    assert completed.__traceback__ is None, "it would keep the rows of the batch in memory"


def test_a_decision_that_raises_writes_nothing(store: BaseStore) -> None:
    schedule = create_one(store, every(MINUTE))
    before = the(store, schedule)

    def stumble(change: Change) -> Decision[Any]:
        changes.pause(change)
        raise LookupError("oops")

    with pytest.raises(LookupError):
        store.change(schedule, T0, stumble)
    assert the(store, schedule) == before


def test_pause_parks_and_resume_goes_on_from_now(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    store.change(schedule, T0, changes.pause)
    store.change(schedule, T0, changes.pause)
    assert the(store, schedule).progress.state == ScheduleState.PAUSED
    assert hand.claim(T0 + 10 * MINUTE) == []
    store.change(schedule, Instant(T0 + 10 * MINUTE + 5), changes.resume)
    (skipped,) = runs_of(store, schedule)
    assert (skipped.status, skipped.due, skipped.last, skipped.number) == (
        "skipped",
        T0 + MINUTE,
        T0 + 10 * MINUTE,
        10,
    )
    assert skipped.error == "the schedule was paused"
    (claim,) = hand.claim(T0 + 11 * MINUTE)
    assert claim.run.due == T0 + 11 * MINUTE


def test_resume_before_anything_was_due_leaves_no_row(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR))
    store.change(schedule, T0, changes.pause)
    store.change(schedule, Instant(T0 + MINUTE), changes.resume)
    assert runs_of(store, schedule) == []
    assert len(hand.claim(T0 + HOUR)) == 1


def test_a_rule_whose_last_time_passed_while_paused_is_over(store: BaseStore) -> None:
    schedule = create_one(store, every(MINUTE, end=T0 + MINUTE))
    store.change(schedule, T0, changes.pause)
    store.change(schedule, Instant(T0 + HOUR), changes.resume)
    progress = the(store, schedule).progress
    assert (progress.state, progress.last_status) == (ScheduleState.ENDED, RunStatus.SKIPPED)
    assert progress.last_error == "the schedule was paused"
    assert progress.note == NOTHING_FOLLOWS.format("skipped", "the schedule was paused")
    assert code_of(lambda: store.change(schedule, Instant(T0 + HOUR), changes.pause)) == "not_possible"


def test_what_was_skipped_at_its_end_runs_on_request_and_then_has_no_note(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once(T0 + 5))
    store.change(schedule, T0, changes.pause)
    store.change(schedule, Instant(T0 + HOUR), changes.resume)
    store.change(schedule, Instant(T0 + HOUR), changes.fire)
    hand.record(hand.claim(T0 + HOUR), T0 + HOUR)
    progress = the(store, schedule).progress
    assert (progress.state, progress.last_status) == (ScheduleState.ENDED, RunStatus.COMPLETED)
    assert (progress.last_error, progress.note) == (None, None)


def test_resume_over_a_range_that_begins_with_a_known_occurrence(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    hand.record(hand.claim(T0 + MINUTE), T0 + MINUTE)
    store.change(schedule, Instant(T0 + MINUTE), changes.pause)
    go_back(store, schedule, T0 + MINUTE)
    store.change(schedule, Instant(T0 + 3 * MINUTE), changes.resume)
    _, skipped = runs_of(store, schedule)
    assert (skipped.due, skipped.last, skipped.number) == (T0 + 2 * MINUTE, T0 + 3 * MINUTE, 2)


def test_a_pause_lets_what_runs_end(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, overlap="queue"))
    claims = hand.claim(T0 + MINUTE)
    hand.claim(T0 + 2 * MINUTE)
    store.change(schedule, Instant(T0 + 2 * MINUTE), changes.pause)
    hand.record(claims, T0 + 2 * MINUTE)
    assert statuses(store, schedule) == ["completed", "queued"]
    store.change(schedule, Instant(T0 + 2 * MINUTE + 1), changes.resume)
    (claim,) = hand.claim(T0 + 2 * MINUTE + 1)
    assert claim.run.due == T0 + 2 * MINUTE


def test_cancel_ends_what_has_not_begun_and_asks_the_rest_to_stop(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, overlap="queue"))
    claims = hand.claim(T0 + MINUTE)
    hand.claim(T0 + 2 * MINUTE)
    store.change(schedule, Instant(T0 + 2 * MINUTE), changes.cancel)
    store.change(schedule, Instant(T0 + 2 * MINUTE), changes.cancel)
    assert statuses(store, schedule) == ["running", "cancelled"]
    assert store.beat(hand.id, T0, {}).stop == [claims[0].run.id]
    hand.record(claims, T0 + 2 * MINUTE)
    progress = the(store, schedule).progress
    assert (progress.state, progress.active, progress.next) == (ScheduleState.CANCELLED, 0, None)
    for decide in (changes.pause, changes.resume, changes.fire):
        assert refusal_of(store.change, schedule, T0, decide).code == "not_possible"
    assert hand.claim(T0 + HOUR) == []


def test_delete_leaves_a_tombstone(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, payload='{"secret":1}', key="k"))
    hand.claim(T0 + MINUTE)
    store.change(schedule, T0, changes.delete)
    assert code_of(lambda: store.change(schedule, T0, changes.delete)) == "not_found"
    assert the(store, schedule).definition.payload == "null"
    assert the(store, schedule).progress.state == ScheduleState.DELETED
    assert store.create([every(MINUTE, key="k")])[0].fresh, "its key is free again"
    (claim,) = store.held(hand.id)
    assert claim.run.stop == 1
    hand.record([claim], T0 + MINUTE)


def test_edit_replaces_what_is_given(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR))
    trigger = trigger_to_json(IntervalTrigger(timezone="UTC", period=MINUTE, anchor=T0))
    edited = edit(
        store, schedule, T0, name="new", payload="[1]", subject="s", trigger=trigger, policy='{"at_most_once":true}'
    )
    assert edited == the(store, schedule)
    assert edited.definition.version == 2
    assert (edited.definition.name, edited.definition.payload, edited.definition.subject) == ("new", "[1]", "s")
    assert edited.progress.next == T0 + MINUTE
    entry = store.earliest(["job", "job:exact"])
    assert entry is not None
    assert (entry.lane, entry.at) == ("job:exact", T0 + MINUTE)
    (claim,) = hand.claim(T0 + MINUTE)
    assert claim.definition.name == claim.run.name == "new"


def test_edit_moves_the_next_time_alone(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR))
    edit(store, schedule, T0, next=Instant(T0 + HOUR + 7))
    (claim,) = hand.claim(T0 + HOUR + 7)
    assert claim.run.due == T0 + HOUR + 7
    assert the(store, schedule).progress.next == T0 + 2 * HOUR


def test_edit_compares_the_version(store: BaseStore) -> None:
    schedule = create_one(store, every(HOUR))
    edit(store, schedule, T0, name="a", version=1)
    assert code_of(lambda: edit(store, schedule, T0, name="b", version=1)) == "conflict"
    assert the(store, schedule).definition.name == "a"


def test_what_is_over_cannot_be_edited(store: BaseStore) -> None:
    schedule = create_one(store, every(HOUR))
    store.change(schedule, T0, changes.cancel)
    assert code_of(lambda: edit(store, schedule, T0, name="y")) == "not_possible"


def test_an_edit_of_the_time_says_what_it_dropped(store: BaseStore) -> None:
    schedule = create_one(store, every(MINUTE))
    trigger = trigger_to_json(IntervalTrigger(timezone="UTC", period=HOUR, anchor=T0))
    edit(store, schedule, T0 + 3 * MINUTE + 1, trigger=trigger)
    (skipped,) = runs_of(store, schedule)
    assert (skipped.status, skipped.due, skipped.last, skipped.number) == (
        "skipped",
        T0 + MINUTE,
        T0 + 3 * MINUTE,
        3,
    )
    assert the(store, schedule).progress.next == T0 + HOUR


def test_an_edit_of_the_name_leaves_what_is_due(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    edit(store, schedule, T0 + MINUTE + 1, name="new")
    assert [claim.run.due for claim in hand.claim(T0 + MINUTE + 1)] == [T0 + MINUTE]


def test_a_paused_schedule_stays_paused_when_edited(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR))
    store.change(schedule, T0, changes.pause)
    edit(store, schedule, T0, name="new")
    assert the(store, schedule).progress.state == ScheduleState.PAUSED
    assert hand.claim(T0 + HOUR) == []


def test_an_edit_to_something_that_never_fires_ends_it(store: BaseStore) -> None:
    schedule = create_one(store, every(HOUR))
    edit(store, schedule, T0, trigger=trigger_to_json(OnceTrigger(timezone="UTC", at=Instant(T0 - 1))))
    assert the(store, schedule).progress.state == ScheduleState.ENDED


def test_a_broken_schedule_is_mended_by_an_edit(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, overlap="queue"))
    claims = hand.claim(T0 + MINUTE)
    assert hand.claim(T0 + 2 * MINUTE) == []
    good = the(store, schedule).definition.trigger
    break_trigger(store, schedule)
    hand.claim(T0 + 3 * MINUTE)
    hand.record(claims, T0 + 3 * MINUTE)
    assert the(store, schedule).progress.state == ScheduleState.BROKEN
    assert code_of(lambda: store.change(schedule, Instant(T0 + 4 * MINUTE), changes.resume)) == "broken"
    assert code_of(lambda: edit(store, schedule, T0 + 4 * MINUTE, name="still broken")) == "broken"
    edit(store, schedule, T0 + 4 * MINUTE, trigger=good)
    assert statuses(store, schedule) == ["completed", "pending", "skipped"]
    assert len(hand.claim(T0 + 4 * MINUTE)) == 1


def test_a_broken_schedule_can_be_deleted(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    write(store, "UPDATE schedules SET trigger = 'x', policy = 'y' WHERE id = ?", schedule)
    hand.claim(T0 + MINUTE)
    store.change(schedule, T0, changes.delete)
    assert the(store, schedule).progress.state == ScheduleState.DELETED


def test_fire_runs_now_beside_the_trigger(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR))
    run = store.change(schedule, Instant(T0 + 5), changes.fire)
    assert (run.cause, run.due, run.status) == (Cause.MANUAL, T0 + 5, RunStatus.PENDING)
    (claim,) = hand.claim(T0 + 5)
    assert claim.run.id == run.id
    assert code_of(lambda: store.change(schedule, Instant(T0 + 5), changes.fire)) == "busy"
    hand.record([claim], T0 + 5)
    assert the(store, schedule).progress.next == T0 + HOUR
    assert the(store, schedule).progress.run_count == 1


def test_fire_takes_the_next_free_microsecond(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR, overlap="allow"))
    dues = [store.change(schedule, Instant(T0 + 5), changes.fire).due for _ in range(3)]
    assert dues == [T0 + 5, T0 + 6, T0 + 7]
    assert len(hand.claim(T0 + 5)) == 3


def test_fire_stands_in_line_and_the_line_has_an_end(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR, overlap="queue", queue_limit=1))
    runs = [store.change(schedule, T0, changes.fire) for _ in range(2)]
    assert [run.status for run in runs] == [RunStatus.PENDING, RunStatus.QUEUED]
    assert code_of(lambda: store.change(schedule, T0, changes.fire)) == "busy"
    hand.record(hand.claim(T0), T0)
    assert [claim.run.id for claim in hand.claim(T0)] == [runs[1].id]


def test_what_is_over_can_be_run_once_more(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once())
    hand.record(hand.claim(T0), T0)
    store.change(schedule, Instant(T0 + 9), changes.fire)
    assert the(store, schedule).progress.state == ScheduleState.ACTIVE
    hand.record(hand.claim(T0 + 9), T0 + 9)
    assert the(store, schedule).progress.state == ScheduleState.ENDED


def test_a_paused_schedule_can_be_run_by_hand(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR))
    store.change(schedule, T0, changes.pause)
    store.change(schedule, T0, changes.fire)
    hand.record(hand.claim(T0), T0)
    assert statuses(store, schedule) == ["completed"]
    assert the(store, schedule).progress.state == ScheduleState.PAUSED


def test_retry_runs_the_same_run_again_and_keeps_its_attempts(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once(max_attempts=2, backoff=1))
    (claim,) = hand.claim(T0)
    assert code_of(lambda: store.change_run(claim.run.id, T0, changes.retry)) == "not_possible"
    hand.record([claim], T0, Failed("one"))
    hand.record(hand.claim(T0 + 5), T0 + 5, Failed("two"))
    assert the(store, schedule).progress.state == ScheduleState.ENDED
    store.change_run(claim.run.id, Instant(T0 + 9), changes.retry)
    (again,) = hand.claim(T0 + 9)
    assert (again.run.id, again.run.attempt) == (claim.run.id, 3)
    hand.record([again], T0 + 9, Failed("three"))
    hand.record(hand.claim(T0 + 20), T0 + 20)
    assert [(a.number, a.error) for a in store.attempts(claim.run.id)] == [(1, "one"), (2, "two"), (3, "three")]
    run = the_run(store, claim.run.id)
    assert (run.status, run.error) == (RunStatus.COMPLETED, None)
    assert the(store, schedule).progress.state == ScheduleState.ENDED


def test_retry_queues_behind_what_is_active(store: BaseStore, hand: Hand) -> None:
    """Whatever the overlap policy says, which is about occurrences; this one skips them."""
    schedule = create_one(store, every(MINUTE))
    (failed,) = hand.claim(T0 + MINUTE)
    hand.record([failed], T0 + MINUTE, Failed("no"))
    active = hand.claim(T0 + 2 * MINUTE)
    now = Instant(T0 + 2 * MINUTE)
    assert store.change_run(failed.run.id, now, changes.retry).status == RunStatus.QUEUED
    assert hand.claim(now) == [] and the(store, schedule).progress.queued == 1
    hand.record(active, now)
    (again,) = hand.claim(now)
    assert (again.run.id, again.run.attempt) == (failed.run.id, 2)
    hand.record([again], now)
    assert (the(store, schedule).progress.active, the(store, schedule).progress.queued) == (0, 0)


def test_hold_gives_a_waiting_run_to_one_holder(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once())
    run = waiting_run(store, hand, schedule, T0, T0 + HOUR)

    def take(holder: str) -> Run:
        expires = Instant(T0 + MINUTE)
        return store.change_run(run, T0, lambda change, seen: checkout.hold(change, seen, holder, expires))

    taken = take("ann")
    assert (taken.holder, taken.attempt, taken.expires) == ("ann", 1, T0 + MINUTE)
    assert code_of(lambda: take("ben")) == "not_possible"
    assert hand.claim(T0 + MINUTE) == []
    given_back = the_run(store, run)
    assert (given_back.status, given_back.holder) == (RunStatus.WAITING, None)
    assert given_back.fence > taken.fence
    assert take("ben").holder == "ben"


def finish(store: BaseStore, run: Run, holder: str, now: int, outcome: Any) -> Run:
    hold = checkout.hold_of(run)
    return store.change_run(run.id, Instant(now), lambda c, seen: checkout.finish(c, seen, holder, outcome, hold))


def hold(store: BaseStore, run: RunId, holder: str, now: int, expires: int) -> Run:
    taken: Run = store.change_run(run, Instant(now), lambda c, seen: checkout.hold(c, seen, holder, Instant(expires)))
    return taken


def test_only_the_holder_finishes(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once())
    run = hold(store, waiting_run(store, hand, schedule, T0, T0 + HOUR), "ann", T0, T0 + MINUTE)
    assert code_of(lambda: finish(store, run, "ben", T0 + 1, Completed())) == "not_yours"
    assert code_of(lambda: finish(store, run._replace(fence=run.fence - 1), "ann", T0 + 1, Completed())) == "not_yours"
    finish(store, run, "ann", T0 + 1, Completed('"ok"'))
    assert code_of(lambda: finish(store, run, "ann", T0 + 1, Completed())) == "not_yours"
    assert (the_run(store, run.id).status, the_run(store, run.id).result) == (RunStatus.COMPLETED, '"ok"')
    assert store.earliest(["job"]) is None


def test_a_held_run_that_fails_is_tried_again(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once(max_attempts=2, backoff=1))
    run = hold(store, waiting_run(store, hand, schedule, T0), "ann", T0, T0 + MINUTE)
    finish(store, run, "ann", T0 + 1, Failed("no"))
    (claim,) = hand.claim(T0 + 5)
    assert (claim.run.id, claim.run.attempt) == (run.id, 2)
    hand.record([claim], T0 + 5, Waiting(Instant(T0 + HOUR)))
    kept = the_run(store, run.id)
    assert (kept.holder, kept.until, kept.expires) == (None, T0 + HOUR, None)


def test_how_long_it_was_handed_over_for_is_no_patience_with_what_follows(store: BaseStore, hand: Hand) -> None:
    """Whoever took it gave it back; should its host be left alone after that, the wait for the host begins then."""
    schedule = create_one(store, once())
    run = hold(store, waiting_run(store, hand, schedule, T0, T0 + HOUR), "ann", T0, T0 + HOUR)
    finish(store, run, "ann", T0 + 1, Returned("not me"))
    (claim,) = hand.claim(T0 + HOUR)
    hand.record([claim], T0 + HOUR, Returned("the host is left alone", MINUTE, patience=HOUR))
    kept = the_run(store, run.id)
    assert (kept.status, kept.attempt, kept.until) == (RunStatus.PENDING, 0, T0 + 2 * HOUR)


def test_a_holder_beyond_the_patience_fails_the_run(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once())
    run = hold(store, waiting_run(store, hand, schedule, T0, T0 + MINUTE), "ann", T0, T0 + HOUR)
    assert hand.claim(T0 + HOUR) == []
    assert the_run(store, run.id).error == NOT_FINISHED


def test_waiting_runs_keep_their_time_over_a_pause(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR))
    run = waiting_run(store, hand, schedule, T0 + HOUR, T0 + HOUR + MINUTE)
    store.change(schedule, Instant(T0 + HOUR), changes.pause)
    assert hand.claim(T0 + HOUR + 2 * MINUTE) == []
    store.change(schedule, Instant(T0 + HOUR + 2 * MINUTE), changes.resume)
    assert hand.claim(T0 + HOUR + 2 * MINUTE) == []
    assert the_run(store, run).status == RunStatus.FAILED


def test_cancel_one_run_in_each_status(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, overlap="queue"))
    (running,) = hand.claim(T0 + MINUTE)
    hand.claim(T0 + 3 * MINUTE)
    _, missed_or_queued, *_ = runs_of(store, schedule)
    queued = next(run for run in runs_of(store, schedule) if run.status == RunStatus.QUEUED)
    assert missed_or_queued.status in (RunStatus.MISSED, RunStatus.QUEUED)
    store.change_run(queued.id, T0, changes.cancel_run)
    assert the_run(store, queued.id).status == RunStatus.CANCELLED
    store.change_run(running.run.id, T0, changes.cancel_run)
    assert (the_run(store, running.run.id).status, the_run(store, running.run.id).stop) == (RunStatus.RUNNING, 1)
    hand.record([running], T0 + 3 * MINUTE)
    assert code_of(lambda: store.change_run(running.run.id, T0, changes.cancel_run)) == "not_possible"
    fired = store.change(schedule, Instant(T0 + 3 * MINUTE), changes.fire)
    store.change_run(fired.id, Instant(T0 + 3 * MINUTE), changes.cancel_run)
    assert hand.claim(T0 + 3 * MINUTE) == []
    assert the(store, schedule).progress.active == the(store, schedule).progress.queued == 0


def test_a_cancelled_run_in_front_releases_the_line(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR, overlap="queue"))
    first, second = [store.change(schedule, T0, changes.fire) for _ in range(2)]
    store.change_run(first.id, T0, changes.cancel_run)
    assert [claim.run.id for claim in hand.claim(T0)] == [second.id]


def test_changes_call_the_listeners(store: BaseStore) -> None:
    schedule = create_one(store, every(HOUR))
    heard: list[int] = []
    store.on_change(lambda: heard.append(1))
    fired = store.change(schedule, T0, changes.fire)
    assert heard == [1]
    store.change_run(fired.id, T0, changes.cancel_run)
    assert heard == [1, 1]


def test_a_refusal_wakes_nobody(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR))
    (claim,) = hand.claim(T0 + HOUR)
    heard: list[int] = []
    store.on_change(lambda: heard.append(1))
    assert code_of(lambda: store.change(schedule, T0, changes.fire)) == "busy"
    assert code_of(lambda: store.change_run(claim.run.id, T0, changes.retry)) == "not_possible"
    assert heard == []


def test_nothing_of_a_schedule_that_breaks_stays_in_the_queue(store: BaseStore, hand: Hand) -> None:
    """Not even the patience of a waiting run that was put back a moment before in the same batch."""
    schedule = create_one(store, every(HOUR, overlap="allow"))
    hold(store, waiting_run(store, hand, schedule, T0 + HOUR, T0 + 9 * HOUR), "ann", T0 + HOUR, T0 + HOUR + 1)
    break_trigger(store, schedule)
    assert hand.claim(T0 + 2 * HOUR) == []
    assert the(store, schedule).progress.state == ScheduleState.BROKEN
    assert store.earliest(["job"]) is None


def test_what_a_run_sets_off_is_as_deep_as_if_it_had_made_it(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once(T0 + HOUR, overlap="allow"))

    def depth_after(asked: int, decide: Callable[[Change], Decision[Any]]) -> int:
        store.change(schedule, T0, lambda change: decide(change._replace(depth=asked)))
        hand.record(hand.claim(T0), T0)
        return the(store, schedule).definition.depth

    assert depth_after(1, changes.fire) == 1
    assert depth_after(0, lambda change: changes.edit(change, Edit(name="other"))) == 1
    assert depth_after(0, changes.fire) == 1
    assert depth_after(3, lambda change: changes.edit(change, Edit(name="third"))) == 3


def test_a_listener_that_fails_does_not_undo_what_is_committed(store: BaseStore) -> None:
    heard: list[int] = []
    store.on_change(lambda: heard.remove(0))
    store.on_change(lambda: heard.append(1))
    made = create_one(store, every(HOUR))
    store.change(made, T0, changes.fire)
    assert len(heard) == 2 and store.runs(RunQuery(schedule=made)).total == 1


def test_what_is_due_later_wakes_no_worker(store: BaseStore) -> None:
    heard: list[str] = []
    store.on_change(lambda: heard.append("any"))
    store.on_change(lambda: heard.append("soon"), only_soon=True)
    later = create_one(store, once(T0 + HOUR))
    store.change(later, T0, changes.pause)
    store.change(later, T0, changes.resume)
    store.change(later, T0, changes.cancel)
    assert heard == ["any"] * 4
    heard.clear()
    soon = create_one(store, once(T0 + 1))
    assert heard == ["any", "soon"]
    store.change(soon, T0, changes.fire)
    assert heard == ["any", "soon"] * 2


def test_changes_that_wait_for_the_same_lock_are_all_made(store: BaseStore) -> None:
    """Refused ones among them, and two of one schedule, too."""
    made = [create_one(store, every(HOUR, key=f"key {number}")) for number in range(8)]
    wanted = [
        *[(each, changes.cancel) for each in made],
        (ScheduleId(10**6), changes.cancel),
        (made[0], changes.cancel),
    ]
    together = threading.Barrier(len(wanted) + 2)

    def broken(_change: Change) -> Decision[Any]:
        raise ValueError("as meant")

    def ask(schedule: ScheduleId, decide: Callable[[Change], Decision[Any]]) -> str | None:
        together.wait(30)
        result = attempt(store.change, schedule, T0, decide)
        return result.code if isinstance(result, DuetimeError) else None

    with ThreadPoolExecutor(len(wanted) + 2) as pool:
        futures = [pool.submit(ask, schedule, decide) for schedule, decide in wanted]
        failing = [pool.submit(ask, made[1], broken) for _ in range(2)]
        codes = [future.result() for future in futures]
        assert [type(each.exception()) for each in failing] == [ValueError, ValueError]
    assert codes == [None] * 8 + ["not_found", None]
    assert {the(store, each).progress.state for each in made} == {ScheduleState.CANCELLED}


def test_a_change_returns_the_schedule_as_it_is_stored(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR))
    for decide in (changes.pause, changes.pause, changes.resume, changes.resume, changes.cancel, changes.cancel):
        assert store.change(schedule, Instant(T0 + MINUTE), decide) == the(store, schedule)
    running = create_one(store, once(T0 + 1, key="running"))
    assert hand.claim(T0 + 1)
    assert store.change(running, Instant(T0 + MINUTE), changes.cancel) == the(store, running)


# -- asking runs to stop --------------------------------------------------------------------------------------------


def test_who_asked_a_run_to_stop_stays_known_after_its_end(store: BaseStore, hand: Hand) -> None:
    create_one(store, once())
    (claim,) = hand.claim(T0)
    assert store.stop_requests([claim.run.id]).get(claim.run.id) is None
    store.change_run(
        claim.run.id,
        Instant(T0 + SECOND),
        lambda change, run: changes.cancel_run(change._replace(actor="person/mcp/ada"), run),
    )
    hand.record([claim], T0 + MINUTE)  # it did not listen
    assert the_run(store, claim.run.id).status == RunStatus.COMPLETED
    assert store.stop_requests([claim.run.id]).get(claim.run.id) == (T0 + SECOND, "person/mcp/ada", None)


def test_a_run_whose_time_was_shortened_is_asked_to_stop_at_its_deadline(store: BaseStore, hand: Hand) -> None:
    create_one(store, once())
    (claim,) = hand.claim(T0)
    deadline = Instant(T0 + MINUTE)
    store.change_run(claim.run.id, T0, lambda change, run: changes.shorten_run(change, run, deadline))
    assert store.beat(hand.id, Instant(deadline - 1), {}).stop == []
    assert store.beat(hand.id, deadline, {}).stop == [claim.run.id]
    hand.record([claim], deadline)
    with pytest.raises(Conflict, match="cannot be shortened"):
        store.change_run(claim.run.id, deadline, lambda change, run: changes.shorten_run(change, run, deadline))


def test_a_waiting_run_follows_the_label_of_its_edited_schedule(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR, needs="gpu"))
    store.change(schedule, T0, changes.fire)
    edit(store, schedule, T0, policy="{}")
    assert [claim.run.cause for claim in hand.claim(T0 + SECOND)] == ["manual"]  # it takes what needs no label
