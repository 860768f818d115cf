"""Pauses that end by themselves, and edits while a run is in progress, on every store."""

from __future__ import annotations

from typing import Any

import pytest

from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND, Instant
from duetime.engine.model import RunStatus, Schedule, ScheduleId, ScheduleState, status_of
from duetime.engine.outcome import Completed, Failed, Outcome, Retry
from duetime.engine.policy import changes
from duetime.engine.policy.changes import Edit
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.pauses import NOTHING_FOLLOWS
from duetime.engine.policy.record import Finished
from duetime.engine.triggers import CronTrigger, IntervalTrigger, OnceTrigger, trigger_to_json
from duetime.stores.base import BaseStore
from tests.stores.conftest import Opener
from tests.support.drafts import T0, draft, every, once
from tests.support.hand import Hand, create_one, runs_of, statuses, the
from tests.support.refusals import refusal_of


def pause(store: BaseStore, schedule: ScheduleId, now: int, until: int | None = None, note: str | None = None) -> Any:
    end = None if until is None else Instant(until)
    return store.change(schedule, Instant(now), lambda change: changes.pause(change, end, note))


def edit(store: BaseStore, schedule: ScheduleId, now: int, **patch: Any) -> Schedule:
    return store.change(schedule, Instant(now), lambda change: changes.edit(change, Edit(**patch)))


def test_a_pause_ends_by_itself(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    paused = pause(store, schedule, T0, T0 + 5 * MINUTE, "lunch")
    assert (paused.progress.state, paused.progress.note) == (ScheduleState.PAUSED, "lunch")
    assert paused.definition.resume_at == T0 + 5 * MINUTE
    assert hand.claim(T0 + 4 * MINUTE) == []
    assert hand.claim(T0 + 5 * MINUTE) == []
    resumed = the(store, schedule)
    assert (resumed.progress.state, resumed.progress.note) == (ScheduleState.ACTIVE, None)
    assert (resumed.definition.resume_at, resumed.progress.next) == (None, T0 + 5 * MINUTE)
    (claim,) = hand.claim(T0 + 5 * MINUTE)  # what is due at that instant runs
    assert claim.run.due == T0 + 5 * MINUTE
    assert statuses(store, schedule) == ["skipped", "running"]
    (skipped, _) = runs_of(store, schedule)
    assert (skipped.number, skipped.error) == (4, "the schedule was paused")


def test_what_fell_due_after_the_end_of_a_pause_is_caught_up(opener: Opener, store: BaseStore) -> None:
    """Nothing ran when the pause ended; the store is opened again later."""
    schedule = create_one(store, every(MINUTE))
    pause(store, schedule, T0, T0 + 5 * MINUTE)
    again = opener()
    later = Hand(again, "later", T0 + HOUR)
    assert later.claim(T0 + HOUR) == []
    (claim,) = later.claim(T0 + HOUR)
    assert claim.run.due == T0 + HOUR
    skipped, missed, running = runs_of(again, schedule)
    assert (skipped.status, skipped.number) == ("skipped", 4)
    assert (missed.status, missed.due, running.status) == ("missed", T0 + 5 * MINUTE, "running")


def test_the_latest_request_decides_how_long_it_rests(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR))
    pause(store, schedule, T0, T0 + 2 * HOUR, "lunch")
    assert pause(store, schedule, T0, T0 + 5 * HOUR).progress.note == "lunch"
    hand.claim(T0 + 2 * HOUR)
    assert the(store, schedule).progress.state == ScheduleState.PAUSED
    assert pause(store, schedule, T0 + 3 * HOUR).definition.resume_at is None
    hand.claim(T0 + DAY)
    assert the(store, schedule).progress.state == ScheduleState.PAUSED
    version = the(store, schedule).definition
    pause(store, schedule, T0 + DAY)
    assert the(store, schedule).definition == version  # nothing was written


@pytest.mark.parametrize("how", ["resume", "cancel", "delete"])
def test_other_changes_drop_the_end_of_a_pause(store: BaseStore, hand: Hand, how: str) -> None:
    schedule = create_one(store, every(HOUR))
    pause(store, schedule, T0, T0 + 10 * MINUTE)
    store.change(schedule, T0, getattr(changes, how))
    assert the(store, schedule).definition.resume_at is None
    assert hand.claim(T0 + 10 * MINUTE) == []
    expected = {"resume": "active", "cancel": "cancelled", "delete": "deleted"}
    assert the(store, schedule).progress.state == expected[how]


def test_an_edit_keeps_the_end_of_a_pause(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR))
    pause(store, schedule, T0, T0 + 10 * MINUTE)
    edit(store, schedule, T0, name="other")
    rule = trigger_to_json(IntervalTrigger(timezone="UTC", period=MINUTE, anchor=T0))
    edit(store, schedule, T0, trigger=rule)
    hand.claim(T0 + 10 * MINUTE)
    assert the(store, schedule).progress.state == ScheduleState.ACTIVE
    assert [claim.run.due for claim in hand.claim(T0 + 10 * MINUTE)] == [T0 + 10 * MINUTE]


def test_a_run_by_hand_during_a_pause_does_not_disturb_its_end(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR))
    pause(store, schedule, T0, T0 + 10 * MINUTE)
    store.change(schedule, Instant(T0 + 9 * MINUTE), changes.fire)
    (claim,) = hand.claim(T0 + 10 * MINUTE)  # both entries are in one batch: the run comes first
    assert claim.run.cause == "manual"
    hand.claim(T0 + 10 * MINUTE)
    assert the(store, schedule).progress.state == ScheduleState.ACTIVE
    hand.record([claim], T0 + 11 * MINUTE)


def resume(store: BaseStore, schedule: ScheduleId, now: int) -> Any:
    return store.change(schedule, Instant(now), changes.resume)


def test_a_one_off_whose_time_falls_into_a_pause_runs_when_it_ends(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once(T0 + MINUTE))
    pause(store, schedule, T0, T0 + DAY)
    assert hand.claim(T0 + HOUR) == []
    assert hand.claim(T0 + DAY) == []
    assert the(store, schedule).progress.state == ScheduleState.ACTIVE
    (claim,) = hand.claim(T0 + DAY)
    assert (claim.run.due, claim.run.started) == (T0 + MINUTE, T0 + DAY)
    hand.record([claim], T0 + DAY)
    assert (the(store, schedule).progress.state, statuses(store, schedule)) == (ScheduleState.ENDED, ["completed"])


def test_a_one_off_that_a_resume_by_hand_releases_runs_then(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once(T0 + MINUTE, catch_up="all"))
    pause(store, schedule, T0)
    assert resume(store, schedule, T0 + DAY).progress.next == T0 + MINUTE
    earliest = store.earliest(["job"])
    assert earliest is not None and earliest.at == T0 + DAY  # it is late only from then on
    assert [claim.run.due for claim in hand.claim(T0 + DAY)] == [T0 + MINUTE]
    assert statuses(store, schedule) == ["running"]


def test_a_one_off_that_is_paused_when_it_is_overdue_is_held_too(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once(T0))
    pause(store, schedule, T0 + HOUR)
    resume(store, schedule, T0 + 2 * HOUR)
    assert [claim.run.due for claim in hand.claim(T0 + 2 * HOUR)] == [T0]


def test_a_held_one_off_survives_further_pauses_and_runs_once(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once(T0 + MINUTE))
    pause(store, schedule, T0, T0 + HOUR)
    pause(store, schedule, T0 + 30 * MINUTE, T0 + 3 * HOUR)
    resume(store, schedule, T0 + 2 * HOUR)
    pause(store, schedule, T0 + 2 * HOUR)
    assert hand.claim(T0 + 4 * HOUR) == []
    resume(store, schedule, T0 + DAY)
    hand.record(hand.claim(T0 + DAY), T0 + DAY)
    assert statuses(store, schedule) == ["completed"]
    assert the(store, schedule).progress.run_count == 1


@pytest.mark.parametrize("until", [None, T0 + HOUR], ids=["by hand", "by itself"])
def test_a_held_one_off_is_missed_if_its_policy_is_not_to_catch_up(
    store: BaseStore, hand: Hand, until: int | None
) -> None:
    schedule = create_one(store, once(T0 + MINUTE, catch_up="skip"))
    pause(store, schedule, T0, until)
    if until is None:
        resume(store, schedule, T0 + HOUR)
    assert hand.claim(T0 + HOUR) == []
    (missed,) = runs_of(store, schedule)
    assert (missed.status, missed.due, missed.error) == ("missed", T0 + MINUTE, "the schedule was paused")
    over = the(store, schedule).progress
    assert (over.state, over.last_status) == (ScheduleState.ENDED, RunStatus.MISSED)
    assert over.note == NOTHING_FOLLOWS.format("missed", "the schedule was paused")


def test_a_pause_shorter_than_the_grace_period_misses_nothing(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once(T0 + SECOND, catch_up="skip"))
    pause(store, schedule, T0)
    resume(store, schedule, T0 + 30 * SECOND)
    assert [claim.run.due for claim in hand.claim(T0 + 30 * SECOND)] == [T0 + SECOND]


@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_a_held_one_off_that_is_ended_leaves_a_row(store: BaseStore, how: str) -> None:
    schedule = create_one(store, once(T0 + MINUTE))
    pause(store, schedule, T0)
    store.change(schedule, Instant(T0 + HOUR), getattr(changes, how))
    assert statuses(store, schedule) == ["skipped"]


def test_a_held_one_off_that_is_moved_runs_at_its_new_time(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once(T0 + MINUTE))
    pause(store, schedule, T0, T0 + HOUR)
    later = trigger_to_json(OnceTrigger(timezone="UTC", at=Instant(T0 + 2 * HOUR)))
    edit(store, schedule, T0 + 30 * MINUTE, trigger=later)
    hand.claim(T0 + HOUR)
    assert hand.claim(T0 + HOUR) == []
    assert [claim.run.due for claim in hand.claim(T0 + 2 * HOUR)] == [T0 + 2 * HOUR]


@pytest.mark.parametrize("until", [None, T0 + HOUR])
@pytest.mark.parametrize(
    ("outcome", "status"), [(Completed(), "completed"), (Failed("no"), "failed")], ids=["completed", "failed"]
)
def test_a_one_off_that_is_paused_during_its_only_run_is_over_with_it(
    store: BaseStore, hand: Hand, outcome: Outcome, status: str, until: int | None
) -> None:
    schedule = create_one(store, once(T0))
    claims = hand.claim(T0)
    pause(store, schedule, T0, until, note="holiday")
    hand.record(claims, T0 + 1, outcome)
    found = the(store, schedule)
    assert (status_of(found.progress), found.progress.note, found.definition.resume_at) == (status, None, None)
    assert store.earliest(["job"]) is None
    store.change(schedule, Instant(T0 + 2), changes.fire)
    assert len(hand.claim(T0 + 2)) == 1


def test_a_paused_schedule_is_over_when_the_last_run_that_waits_is_cancelled(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, max_runs=2, overlap="queue"))
    first = hand.claim(T0 + MINUTE)
    hand.claim(T0 + 2 * MINUTE)
    pause(store, schedule, T0 + 2 * MINUTE)
    hand.record(first, T0 + 2 * MINUTE, Completed())
    [queued] = (run for run in runs_of(store, schedule) if run.status == RunStatus.QUEUED)
    store.change_run(queued.id, Instant(T0 + 3 * MINUTE), changes.cancel_run)
    assert the(store, schedule).progress.state == ScheduleState.ENDED


def test_the_end_of_a_pause_with_a_rule_that_costs_much_is_found(store: BaseStore, hand: Hand) -> None:
    """Counting a day of minutes takes more steps than a transaction has: it is done between two exchanges."""
    from duetime.engine.policy.catch_up import evaluate
    from duetime.engine.store import ClaimRequest

    rule = CronTrigger(timezone="Europe/Berlin", expression="* * * * *")
    schedule = create_one(store, draft(rule, Instant(T0 + MINUTE)))
    pause(store, schedule, T0, T0 + DAY)
    wants = [ClaimRequest("job", 100, Instant(T0 + DAY))]
    for _ in range(5):
        done = store.record_and_claim(hand.id, Instant(T0 + DAY), [], wants)
        evaluate(done.postponed, Instant(T0 + DAY))
    assert the(store, schedule).progress.state == ScheduleState.ACTIVE
    assert runs_of(store, schedule)[0].status == "skipped"


def test_a_recurring_schedule_is_edited_from_its_next_occurrence_on(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, payload='{"a": 1}', max_attempts=2))
    (claim,) = hand.claim(T0 + MINUTE)
    edit(store, schedule, T0 + MINUTE, payload='{"a": 2}', name="other")
    assert claim.definition.payload == '{"a": 1}'
    hand.record([claim], T0 + MINUTE)
    assert statuses(store, schedule) == ["completed"]
    (following,) = hand.claim(T0 + 2 * MINUTE)
    assert (following.definition.payload, following.definition.public_id) == ('{"a": 2}', claim.definition.public_id)


def test_a_new_rule_applies_while_a_run_of_the_old_one_is_in_progress(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    (claim,) = hand.claim(T0 + MINUTE)
    rule = trigger_to_json(IntervalTrigger(timezone="UTC", period=HOUR, anchor=T0))
    edit(store, schedule, T0 + MINUTE, trigger=rule)
    assert hand.claim(T0 + 2 * MINUTE) == []
    hand.record([claim], T0 + 2 * MINUTE)
    assert [each.run.due for each in hand.claim(T0 + HOUR)] == [T0 + HOUR]


def test_a_one_off_cannot_be_edited_after_its_claim(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once(T0))
    edit(store, schedule, T0, name="before")
    hand.claim(T0)
    refused = refusal_of(lambda: edit(store, schedule, T0, name="after"))
    assert refused.code == "not_possible"


def test_an_edit_may_insist_on_what_is_pending(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    hand.claim(T0 + MINUTE)
    refused = refusal_of(lambda: edit(store, schedule, T0 + MINUTE, name="other", pending_only=True))
    assert refused.code == "not_possible"


def test_a_pause_does_not_shorten_the_wait_before_a_retry(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(DAY, max_attempts=3))
    store.change(schedule, T0, changes.fire)
    hand.record(hand.claim(T0), T0, Retry("503", after=10 * HOUR))
    pause(store, schedule, T0, T0 + MINUTE)
    hand.claim(T0 + MINUTE)  # ends the pause
    assert hand.claim(T0 + 2 * MINUTE) == []
    [claim] = hand.claim(T0 + 10 * HOUR)
    assert (claim.run.attempt, claim.run.expires) == (2, None)


def test_a_retry_waits_that_begins_with_the_pause(store: BaseStore, hand: Hand) -> None:
    """Another run of the batch pauses the schedule, after which the first run has no entry any more."""
    schedule = create_one(store, every(overlap="allow", max_attempts=2, pause_after=1))
    first, second = [hand.claim(T0 + minutes * MINUTE)[0] for minutes in (1, 2)]
    now = Instant(T0 + 2 * MINUTE)
    outcomes: list[tuple[Claim, Outcome]] = [(first, Retry("503", HOUR)), (second, Failed("no", permanent=True))]
    ended = [Finished(each.run.id, each.run.fence, outcome, now, now) for each, outcome in outcomes]
    store.record_and_claim(hand.id, now, ended, [], {each.run.id: each for each in (first, second)})
    store.change(schedule, Instant(now + MINUTE), changes.resume)
    assert [claim.run.id for claim in hand.claim(now + HOUR - 1)].count(first.run.id) == 0
    assert [claim.run.id for claim in hand.claim(now + HOUR)].count(first.run.id) == 1


def test_a_run_that_fails_during_a_pause_waits_before_its_retry_too(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(DAY, max_attempts=3))
    [claim] = hand.claim(T0 + DAY)
    pause(store, schedule, T0 + DAY)
    hand.record([claim], T0 + DAY, Retry("503", after=10 * HOUR))
    store.change(schedule, Instant(T0 + DAY), changes.resume)
    assert hand.claim(T0 + DAY + HOUR) == []
    assert len(hand.claim(T0 + DAY + 10 * HOUR)) == 1


def test_a_retry_that_is_due_before_the_resume_starts_with_it(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(DAY, max_attempts=3))
    hand.record(hand.claim(T0 + DAY), T0 + DAY, Retry("503", after=MINUTE))
    pause(store, schedule, T0 + DAY)
    store.change(schedule, Instant(T0 + DAY + HOUR), changes.resume)
    assert len(hand.claim(T0 + DAY + HOUR)) == 1
