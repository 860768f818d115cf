"""Recording outcomes: fences, lost acknowledgements, retries, waiting, giving back."""

from __future__ import annotations

from typing import Any

import pytest

from duetime.engine.clock import HOUR, MINUTE, SECOND, Instant
from duetime.engine.model import READ, Run, RunId, RunStatus, ScheduleId, ScheduleState
from duetime.engine.outcome import Cancelled, Completed, Failed, Outcome, Retry, Returned, Waiting
from duetime.engine.policy import changes
from duetime.engine.policy.changes import Edit
from duetime.engine.policy.options import make_policy, policy_to_json
from duetime.engine.policy.record import Finished, Receipt
from duetime.engine.store import ClaimRequest, RunQuery
from duetime.stores.base import BaseStore
from duetime.stores.transaction import Transaction
from tests.support.drafts import T0, every, once
from tests.support.hand import DONE, Hand, create, create_one, runs_of, the, the_run
from tests.support.shell import break_policy
from tests.support.wordings import NOT_FINISHED


def test_an_outcome_is_recorded_once(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once())
    (claim,) = hand.claim(T0)
    done = Finished(claim.run.id, claim.run.fence, Completed('{"a":1}'), Instant(T0 + 3), Instant(T0 + 5))
    assert store.record_and_claim(hand.id, T0, [done, done], []).answers == [
        Receipt.RECORDED,
        Receipt.ALREADY,
    ]
    run = the_run(store, claim.run.id)
    assert (run.status, run.result, run.started, run.finished) == ("completed", '{"a":1}', T0 + 3, T0 + 5)
    progress = the(store, schedule).progress
    assert (progress.state, progress.last_status, progress.last_run) == ("ended", "completed", T0 + 3)
    assert (progress.active, progress.failures, progress.last_error) == (0, 0, None)


@pytest.mark.parametrize("policy", [{}, {"overlap": "queue"}], ids=["plain", "decided"])
def test_one_that_completes_although_it_was_asked_to_stop_is_unread(
    store: BaseStore, hand: Hand, policy: dict[str, Any]
) -> None:
    create(store, once(**policy))
    (claim,) = hand.claim(T0)
    store.change_run(claim.run.id, T0, changes.cancel_run)
    assert hand.record([claim], T0) == [Receipt.RECORDED]
    unread = store.runs(RunQuery(status="completed", mark_below=READ)).items
    assert [run.id for run in unread] == [claim.run.id]


def test_a_batch_that_releases_many_runs_reads_their_queue_once(
    store: BaseStore, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued = every(SECOND, overlap="queue", queue_limit=100, catch_up="all", catch_up_limit=20, grace=0)
    schedule = create_one(store, queued)
    hand.claim(T0 + SECOND)
    hand.claim(T0 + 21 * SECOND)
    now = Instant(T0 + 21 * SECOND)
    allowing = policy_to_json(make_policy({"overlap": "allow", "queue_limit": 100, "catch_up": "skip"}))
    store.change(schedule, now, lambda change: changes.edit(change, Edit(policy=allowing)))
    for _ in range(8):
        store.change(schedule, now, changes.fire)
    claims = hand.claim(now)
    assert len(claims) == 9  # the edit released one
    line = [run.id for run in runs_of(store, schedule) if run.status == RunStatus.QUEUED]
    read, asked = Transaction.live_runs, []

    def live_runs(tx: Transaction, of: ScheduleId) -> list[Run]:
        asked.append(of)
        return read(tx, of)

    monkeypatch.setattr(Transaction, "live_runs", live_runs)
    hand.record(claims, now)
    assert asked == [schedule]
    assert [run.id for run in runs_of(store, schedule) if run.status == RunStatus.QUEUED] == line[9:]


def test_a_record_whose_acknowledgement_was_lost_is_already_there(store: BaseStore, hand: Hand) -> None:
    create(store, once(), once(max_attempts=2, backoff=SECOND))
    first, second = hand.claim(T0)
    assert hand.record([first], T0) == [Receipt.RECORDED]
    assert hand.record([first], T0) == [Receipt.ALREADY]
    assert hand.record([second], T0, Failed("no")) == [Receipt.RECORDED]
    assert hand.record([second], T0, Failed("no")) == [Receipt.ALREADY]
    assert len(store.attempts(second.run.id)) == 1


def test_a_stale_fence_changes_nothing(store: BaseStore, hand: Hand) -> None:
    create(store, once())
    (claim,) = hand.claim(T0)
    other = Hand(store, "other")
    before = the_run(store, claim.run.id)
    old = claim._replace(run=claim.run._replace(fence=claim.run.fence - 1))
    assert hand.record([old], T0) == [Receipt.STALE]
    assert other.record([claim], T0) == [Receipt.STALE]
    unknown = claim._replace(run=claim.run._replace(id=RunId(claim.run.id + 1000)))
    assert hand.record([unknown], T0) == [Receipt.STALE]
    assert the_run(store, claim.run.id) == before
    assert hand.record([claim], T0) == [Receipt.RECORDED]


def test_a_rescued_run_is_not_the_old_workers_any_more(store: BaseStore, hand: Hand) -> None:
    create(store, once())
    (claim,) = hand.claim(T0)
    hand.die(T0)
    heir = Hand(store, "heir")
    (again,) = heir.claim(T0)
    assert again.run.id == claim.run.id
    assert again.run.fence > claim.run.fence
    back = Hand(store, "back")
    assert back.record([claim], T0) == [Receipt.STALE]
    assert heir.record([again], T0) == [Receipt.RECORDED]


def test_a_failure_is_tried_again_after_its_backoff(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once(max_attempts=3, backoff=10 * SECOND, backoff_limit=15 * SECOND))
    (claim,) = hand.claim(T0)
    hand.record([claim], T0, Failed("first"))
    entry = store.earliest(["job"])
    assert entry is not None
    assert T0 + 5 * SECOND <= entry.at <= T0 + 10 * SECOND
    assert entry.run == claim.run.id
    assert the(store, schedule).progress.active == 1
    assert hand.claim(entry.at - 1) == []
    (second,) = hand.claim(entry.at)
    assert (second.run.attempt, second.run.fence) == (2, claim.run.fence + 1)
    hand.record([second], entry.at, Retry("second", after=HOUR))
    assert hand.claim(entry.at + HOUR - 1) == []
    (third,) = hand.claim(entry.at + HOUR)
    hand.record([third], T0 + 2 * HOUR, Failed("third"))
    run = the_run(store, claim.run.id)
    assert (run.status, run.error, run.attempt) == ("failed", "third", 3)
    assert [(a.number, a.error, a.status) for a in store.attempts(run.id)] == [
        (1, "first", "failed"),
        (2, "second", "failed"),
    ]
    progress = the(store, schedule).progress
    assert (progress.state, progress.failures, progress.last_error) == ("ended", 1, "third")


def test_a_permanent_failure_is_not_tried_again(store: BaseStore, hand: Hand) -> None:
    create(store, once(max_attempts=5))
    (claim,) = hand.claim(T0)
    hand.record([claim], T0, Failed("never", permanent=True))
    assert the_run(store, claim.run.id).status == RunStatus.FAILED


def test_failures_in_a_row_are_counted_until_one_succeeds(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    outcomes: list[tuple[Outcome, int]] = [(Failed("a"), 1), (Failed("b"), 2), (DONE, 0), (Failed("c"), 1)]
    for step, (outcome, failures) in enumerate(outcomes, 1):
        hand.record(hand.claim(T0 + step * MINUTE), T0 + step * MINUTE, outcome)
        assert the(store, schedule).progress.failures == failures


def test_what_was_never_started_goes_back_without_an_attempt(store: BaseStore, hand: Hand) -> None:
    create(store, once())
    (claim,) = hand.claim(T0)
    hand.record([claim], T0, Returned())
    run = the_run(store, claim.run.id)
    assert (run.status, run.attempt, run.started) == (RunStatus.PENDING, 0, None)
    (again,) = hand.claim(T0)
    assert (again.run.attempt, again.run.fence) == (1, claim.run.fence + 1)


def test_what_is_given_back_for_longer_than_it_may_be_counts_as_an_attempt(store: BaseStore, hand: Hand) -> None:
    """Whichever worker has it: a dead host must end some day what waits for it."""
    create(store, once(max_attempts=2, backoff=1))
    given_back = Returned("the host is left alone", after=MINUTE, patience=HOUR)
    (claim,) = hand.claim(T0)
    hand.record([claim], T0, given_back)
    other = Hand(store, "other")
    (claim,) = other.claim(T0 + HOUR - 1)
    other.record([claim], T0 + HOUR - 1, given_back)
    run = the_run(store, claim.run.id)
    assert (run.status, run.attempt, run.error) == (RunStatus.PENDING, 0, "the host is left alone")
    for attempt in (1, 2):
        (claim,) = other.claim(T0 + attempt * 2 * HOUR)
        other.record([claim], T0 + attempt * 2 * HOUR, given_back)
        assert the_run(store, claim.run.id).attempt == attempt
    run = the_run(store, claim.run.id)
    assert (run.status, run.error) == (RunStatus.FAILED, "the host is left alone")


@pytest.mark.parametrize("attempted", [Failed("refused"), Retry("not now")], ids=["failed", "retry"])
def test_a_real_attempt_ends_the_patience_of_those_before(store: BaseStore, hand: Hand, attempted: Outcome) -> None:
    """The host answered: should it be left alone once more, that is another silence than the one before."""
    create(store, once(max_attempts=3, backoff=1))
    given_back = Returned("the host is left alone", after=MINUTE, patience=HOUR)
    hand.record(hand.claim(T0), T0, given_back)
    hand.record(hand.claim(T0 + MINUTE), T0 + MINUTE, attempted)
    for at in (T0 + 2 * HOUR, T0 + 3 * HOUR - 1):
        (claim,) = hand.claim(at)
        hand.record([claim], at, given_back)
        assert the_run(store, claim.run.id).attempt == 1, "given back, and no attempt"
    (claim,) = hand.claim(T0 + 4 * HOUR)
    hand.record([claim], T0 + 4 * HOUR, given_back)
    assert the_run(store, claim.run.id).attempt == 2, "its patience ends too"


def test_who_asks_for_it_again_is_given_the_same_patience(store: BaseStore, hand: Hand) -> None:
    create(store, once())
    given_back = Returned("the host is left alone", patience=HOUR)
    hand.record(hand.claim(T0), T0, given_back)
    (claim,) = hand.claim(T0 + HOUR)
    hand.record([claim], T0 + HOUR, given_back)
    assert the_run(store, claim.run.id).status == RunStatus.FAILED
    store.change_run(claim.run.id, Instant(T0 + HOUR), changes.retry)
    (claim,) = hand.claim(T0 + HOUR)
    hand.record([claim], T0 + HOUR, given_back)
    assert the_run(store, claim.run.id).status == RunStatus.PENDING


def test_what_is_given_back_for_a_while_says_why_until_it_is_taken_up(store: BaseStore, hand: Hand) -> None:
    schedule, other = create_one(store, once()), create_one(store, once())
    claims = hand.claim(T0)
    store.change(other, T0, changes.cancel)
    for claim in claims:
        hand.record([claim], T0, Returned("nobody can do it here", MINUTE))
    assert the(store, schedule).progress.note == "nobody can do it here"
    assert the(store, other).progress.note is None, "it is over"
    (again,) = hand.claim(T0 + MINUTE)
    assert the(store, schedule).progress.note is None
    hand.record([again], T0 + MINUTE, Returned("the worker stops"))
    assert the(store, schedule).progress.note is None, "the next one takes it at once"


def test_a_cancelled_outcome_ends_the_run(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once())
    (claim,) = hand.claim(T0)
    hand.record([claim], T0, Cancelled("asked to"))
    assert the_run(store, claim.run.id).error == "asked to"
    assert the(store, schedule).progress.last_status == RunStatus.CANCELLED


def test_waiting_needs_no_worker_and_no_attempt(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once())
    (claim,) = hand.claim(T0)
    hand.record([claim], T0, Waiting(Instant(T0 + HOUR)))
    run = the_run(store, claim.run.id)
    assert (run.status, run.attempt, run.until) == (RunStatus.WAITING, 0, T0 + HOUR)
    assert store.held(hand.id) == []
    assert hand.claim(T0 + HOUR) == []
    run = the_run(store, claim.run.id)
    assert (run.status, run.error) == (RunStatus.FAILED, "no agent took it in time")
    assert the(store, schedule).progress.state == ScheduleState.ENDED


def test_what_was_handed_over_is_not_done_in_time(store: BaseStore, hand: Hand) -> None:
    """Entries are claimed a little ahead: it is not given back to others for its last moment."""
    create_one(store, once())
    (claim,) = hand.claim(T0)
    until = Instant(T0 + MINUTE)
    hand.record([claim], T0, Waiting(until, "somebody"))
    store.record_and_claim(hand.id, Instant(until - 1), [], [ClaimRequest("job", 100, until)])
    run = the_run(store, claim.run.id)
    assert (run.status, run.error) == (RunStatus.FAILED, NOT_FINISHED)


def test_what_was_handed_over_in_vain_is_handed_over_again(store: BaseStore, hand: Hand) -> None:
    """A webhook that took it and died: that was an attempt, and more are allowed."""
    create_one(store, once(max_attempts=2, backoff=SECOND))
    (claim,) = hand.claim(T0)
    hand.record([claim], T0, Waiting(Instant(T0 + MINUTE), "somebody"))
    assert hand.claim(T0 + MINUTE) == []
    run = the_run(store, claim.run.id)
    assert (run.status, run.attempt, run.holder, run.until) == (RunStatus.PENDING, 1, None, None)
    (again,) = hand.claim(T0 + HOUR)
    assert (again.run.id, again.run.attempt) == (claim.run.id, 2)
    hand.record([again], T0 + HOUR, Waiting(Instant(T0 + 2 * HOUR), "somebody"))
    hand.claim(T0 + 2 * HOUR)
    assert the_run(store, claim.run.id).status == RunStatus.FAILED
    assert len(store.attempts(claim.run.id)) == 1


def test_waiting_without_end_stays(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once())
    (claim,) = hand.claim(T0)
    hand.record([claim], T0, Waiting())
    assert store.earliest(["job"]) is None
    assert the(store, schedule).progress.active == 1


@pytest.mark.parametrize("outcome", [Waiting(Instant(T0 + HOUR)), Waiting(), Failed("x"), Returned(), Retry("x", 5)])
def test_whatever_a_run_of_a_cancelled_schedule_wants_it_is_over(
    store: BaseStore, hand: Hand, outcome: Outcome
) -> None:
    schedule = create_one(store, once(max_attempts=5))
    claims = hand.claim(T0)
    store.change(schedule, T0, changes.cancel)
    hand.record(claims, T0, outcome)
    assert the_run(store, claims[0].run.id).status == RunStatus.CANCELLED
    assert store.earliest(["job"]) is None
    assert the(store, schedule).progress.active == 0


def test_a_retry_is_parked_while_the_schedule_is_paused(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, max_attempts=2, backoff=1))
    claims = hand.claim(T0 + MINUTE)
    store.change(schedule, Instant(T0 + MINUTE), changes.pause)
    hand.record(claims, T0 + MINUTE, Failed("no"))
    assert hand.claim(T0 + HOUR) == []
    assert the_run(store, claims[0].run.id).status == RunStatus.PENDING
    store.change(schedule, Instant(T0 + HOUR + 1), changes.resume)
    (again,) = hand.claim(T0 + HOUR + 1)
    assert (again.run.id, again.run.attempt) == (claims[0].run.id, 2)


@pytest.mark.parametrize("outcome", [DONE, Failed("no"), Returned(), Waiting(Instant(T0 + HOUR))])
def test_an_outcome_is_recorded_whatever_became_of_the_policy(store: BaseStore, hand: Hand, outcome: Outcome) -> None:
    schedule = create_one(store, every(MINUTE, max_attempts=3))
    claims = hand.claim(T0 + MINUTE)
    break_policy(store, schedule)
    assert hand.record(claims, T0 + MINUTE, outcome) == [Receipt.RECORDED]


def test_records_and_claims_share_one_transaction(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    (claim,) = hand.claim(T0 + MINUTE)
    now = Instant(T0 + 2 * MINUTE)
    done = Finished(claim.run.id, claim.run.fence, DONE, None, now)
    exchange = store.record_and_claim(hand.id, now, [done], [ClaimRequest("job", 5, now)])
    assert exchange.answers == [Receipt.RECORDED]
    assert [taken.run.due for taken in exchange.claims] == [now]
    assert [run.status for run in runs_of(store, schedule)] == ["completed", "running"]


def test_a_large_batch(store: BaseStore, hand: Hand) -> None:
    create(store, *[once(T0 + number) for number in range(400)])
    claims = hand.claim(T0 + SECOND, limit=400)
    assert len(claims) == 400
    assert set(hand.record(claims, T0 + SECOND, Completed('"ünï \\" \\\\ , {} NULL"'))) == {Receipt.RECORDED}
    assert the_run(store, claims[7].run.id).result == '"ünï \\" \\\\ , {} NULL"'


def test_what_a_worker_holds_can_be_asked_for(store: BaseStore, hand: Hand) -> None:
    create(store, once(), once())
    claims = hand.claim(T0)
    assert store.held(hand.id) == claims
    hand.record(claims[:1], T0)
    assert store.held(hand.id) == claims[1:]


def test_megabytes_in_one_batch(store: BaseStore, hand: Hand) -> None:
    """More than any buffer between two processes holds."""
    text = '"' + "ä" * 20_000 + '"'
    create(store, *[once(T0 + number, payload=text) for number in range(200)])
    claims = hand.claim(T0 + SECOND, limit=200)
    assert {len(claim.definition.payload) for claim in claims} == {len(text)}
    assert set(hand.record(claims, T0 + SECOND, Completed(text))) == {Receipt.RECORDED}
    assert the_run(store, claims[-1].run.id).result == text
