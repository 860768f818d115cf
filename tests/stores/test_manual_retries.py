"""A manual retry keeps what happened before it: the numbers of attempts, the lateness, and the failures."""

from __future__ import annotations

from duetime.engine.clock import HOUR, MINUTE, SECOND, Instant
from duetime.engine.model import Run, RunId, RunStatus
from duetime.engine.outcome import Failed
from duetime.engine.policy import changes
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand, create_one, the, the_run

ADA = "person/dashboard/ada"


def retry(store: BaseStore, run: RunId, now: int) -> Run:
    again: Run = store.change_run(run, Instant(now), lambda c, seen: changes.retry(c._replace(actor=ADA), seen))
    return again


def fail(hand: Hand, now: int) -> Run:
    (claim,) = hand.claim(now)
    hand.record([claim], now + 1, Failed("no"))
    return claim.run


def test_attempts_are_numbered_through_and_max_attempts_counts_from_the_retry(store: BaseStore, hand: Hand) -> None:
    create_one(store, once(max_attempts=2, backoff=SECOND))
    run = fail(hand, T0).id
    fail(hand, T0 + MINUTE)
    assert (the_run(store, run).status, the_run(store, run).attempt) == ("failed", 2)

    again = retry(store, run, T0 + HOUR)
    assert (again.status, again.attempt, again.started, again.error) == ("pending", 2, None, None)
    assert fail(hand, T0 + HOUR).attempt == 3
    assert the_run(store, run).status == "pending", "it has two attempts again"
    assert fail(hand, T0 + HOUR + MINUTE).attempt == 4
    assert the_run(store, run).status == "failed"

    retry(store, run, T0 + 2 * HOUR)
    hand.record(hand.claim(T0 + 2 * HOUR), T0 + 2 * HOUR + 1)
    assert (the_run(store, run).status, the_run(store, run).attempt) == ("completed", 5)
    assert [each.number for each in store.attempts(run)] == [1, 2, 3, 4]
    assert [each.number for each in store.attempts(run) if each.retried] == [2, 4]


def test_what_was_cancelled_before_it_began_has_a_number_too(store: BaseStore, hand: Hand) -> None:
    create_one(store, once(max_attempts=2, backoff=HOUR))
    run = fail(hand, T0).id
    store.change_run(run, Instant(T0 + 2), changes.cancel_run)
    retry(store, run, T0 + MINUTE)
    (claim,) = hand.claim(T0 + MINUTE)
    assert claim.run.attempt == 3
    assert [(each.number, each.status, each.started is None) for each in store.attempts(run)] == [
        (1, "failed", False),
        (2, "cancelled", True),
    ]


def test_lateness_is_that_of_the_first_start(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once(max_attempts=1, grace=24 * HOUR))
    run = fail(hand, T0 + 7).id

    def late() -> tuple[list[int | None], list[int | None]]:
        of_all = [each.late for each in store.endings(None, 10)]
        return [each.late for each in store.timings(schedule, 10)], of_all

    assert late() == ([7], [7])
    retry(store, run, T0 + HOUR)
    assert late() == ([7], [7]), "while it waits"
    hand.record(hand.claim(T0 + HOUR), T0 + HOUR + 1)
    assert late() == ([7], [7]), "and when it has ended again"
    (tally,) = store.tally(RunId(0), store.newest_run())
    assert (tally.status, tally.late, tally.late_for) == ("completed", 0, 7)


def test_a_retry_loses_no_failure_and_counts_none_twice(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    runs = [fail(hand, T0 + step * MINUTE).id for step in (1, 2, 3)]
    bounds = [T0, Instant(T0 + 10 * MINUTE)]

    def figures() -> tuple[int, list[tuple[str, int]], list[str], list[str], list[str]]:
        counts = [(each.status, each.rows) for each in store.period_counts(schedule, bounds, 100)]
        traced = [each.status for each in store.traces([schedule], 10)]
        timed = [each.status for each in store.timings(schedule, 10)]
        ended = [each.status for each in store.endings(None, 10)]
        return the(store, schedule).progress.failures, counts, traced, timed, ended

    before = figures()
    assert before == (3, [("failed", 3)], *([["failed"] * 3] * 3))
    now = T0 + 3 * MINUTE + SECOND
    for run in runs:
        retry(store, run, now)
    assert figures() == before, "while they wait"
    for step in range(3):
        fail(hand, now + 10 * step)
    assert figures() == before, "3 runs, 3 failures in a row"

    retry(store, runs[0], now + 100)
    hand.record(hand.claim(now + 100), now + 100)
    failures, counts, *_ = figures()
    assert (failures, sorted(counts)) == (0, [("completed", 1), ("failed", 2)])


def test_an_old_failure_that_fails_once_more_is_a_failure(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    run = fail(hand, T0 + MINUTE).id
    hand.record(hand.claim(T0 + 2 * MINUTE), T0 + 2 * MINUTE)
    assert the(store, schedule).progress.failures == 0
    retry(store, run, T0 + 2 * MINUTE)
    fail(hand, T0 + 2 * MINUTE)
    progress = the(store, schedule).progress
    assert (progress.failures, progress.last_status) == (1, RunStatus.FAILED)
