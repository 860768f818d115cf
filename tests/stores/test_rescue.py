"""Workers: beats, leaving, dying, and what becomes of the runs they held."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from duetime.engine.clock import HOUR, MINUTE, Instant
from duetime.engine.errors import WorkerGone
from duetime.engine.model import RunStatus, ScheduleState
from duetime.engine.outcome import Failed
from duetime.engine.policy import changes
from duetime.engine.policy.finish import was_paused_by_engine
from duetime.engine.store import RunQuery
from duetime.stores.base import BaseStore
from tests.stores.conftest import Opener
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand, create, create_one, runs_of, the, the_run
from tests.support.shell import break_policy


def test_a_beat_counts_and_brings_stop_requests_and_the_floor(store: BaseStore, hand: Hand) -> None:
    create(store, once(), once())
    one, other = hand.claim(T0)
    first = hand.beat_of()
    beat = store.beat(hand.id, Instant(T0 + 5), {})
    assert (beat.stop, beat.floor) == ([], 27)
    assert hand.beat_of() == first + 1
    store.change_run(other.run.id, T0, changes.cancel_run)
    assert store.beat(hand.id, Instant(T0 + 6), {one.run.id: '"half"'}).stop == [other.run.id]
    assert the_run(store, one.run.id).report == '"half"'
    assert next(row.seen for row in store.workers() if row.id == hand.id) == T0 + 6


def test_a_run_that_was_asked_to_stop_and_lost_its_worker_is_a_dead_letter(store: BaseStore, hand: Hand) -> None:
    create(store, once(at_most_once=True))
    (claim,) = hand.claim(T0)
    store.change_run(claim.run.id, T0, changes.cancel_run)
    hand.die(T0 + MINUTE)
    assert [(run.id, run.status) for run in store.runs(RunQuery(status="dead")).items] == [(claim.run.id, "lost")]


def test_a_report_about_somebody_elses_run_is_ignored(store: BaseStore, hand: Hand) -> None:
    create(store, once())
    (claim,) = hand.claim(T0)
    store.beat(Hand(store, "other").id, T0, {claim.run.id: '"mine"'})
    assert the_run(store, claim.run.id).report is None


def test_a_worker_that_is_gone_hears_so(store: BaseStore, hand: Hand) -> None:
    assert hand.die(T0) == 0
    with pytest.raises(WorkerGone):
        store.beat(hand.id, T0, {})
    with pytest.raises(WorkerGone):
        hand.claim(T0)


def test_ids_of_workers_are_never_used_again(store: BaseStore) -> None:
    first = Hand(store).id
    store.retire(first)
    assert Hand(store).id > first


def test_retiring_leaves_held_runs_to_rescue(store: BaseStore, hand: Hand) -> None:
    create(store, once())
    claims = hand.claim(T0)
    store.retire(hand.id)
    assert [row.id for row in store.workers()] == [hand.id]
    hand.record(claims, T0)
    store.retire(hand.id)
    assert store.workers() == []


def test_rescue_gives_runs_back(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once())
    (claim,) = hand.claim(T0)
    assert hand.die(T0 + 9) == 1
    run = the_run(store, claim.run.id)
    assert (run.status, run.deaths, run.worker) == (RunStatus.PENDING, 1, None)
    assert run.fence == claim.run.fence + 1
    assert [(a.status, a.error) for a in store.attempts(run.id)] == [("lost", "its worker died")]
    assert the(store, schedule).progress.active == 1


def test_rescue_is_compare_and_set_on_the_beat(store: BaseStore, hand: Hand) -> None:
    create(store, once())
    hand.claim(T0)
    seen = hand.beat_of()
    store.beat(hand.id, T0, {})
    assert store.rescue(hand.id, seen, T0) is None
    assert len(store.held(hand.id)) == 1
    assert store.rescue(hand.id, seen + 1, T0) == 1
    assert store.rescue(hand.id, seen + 1, T0) is None


def test_only_one_of_many_rescues(opener: Opener, store: BaseStore, hand: Hand) -> None:
    create(store, *[once() for _ in range(20)])
    hand.claim(T0)
    beat = hand.beat_of()
    stores = [opener() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda s: s.rescue(hand.id, beat, T0), stores))
    assert sorted(result is None for result in results) == [False, True, True, True]
    assert len(Hand(store, "heir").claim(T0, limit=50)) == 20


def test_a_run_with_a_death_behind_it_has_a_lane_of_its_own(store: BaseStore, hand: Hand) -> None:
    create(store, once())
    hand.claim(T0)
    hand.die(T0)
    heir = Hand(store, "heir")
    assert heir.claim(T0, lanes=["job", "job:exact"]) == []
    (claim,) = heir.claim(T0, lanes=["job:solo"])
    assert (claim.run.attempt, claim.run.deaths) == (2, 1)


def test_deaths_do_not_use_up_attempts(store: BaseStore, hand: Hand) -> None:
    create(store, once(max_attempts=2, backoff=1))
    hand.claim(T0)
    hand.die(T0)
    heir = Hand(store, "heir")
    (claim,) = heir.claim(T0)
    heir.record([claim], T0, Failed("no"))
    assert the_run(store, claim.run.id).status == RunStatus.PENDING
    heir.record(heir.claim(T0 + 5), T0 + 5, Failed("no"))
    assert the_run(store, claim.run.id).status == RunStatus.FAILED


def test_at_most_once_is_lost_and_not_started_again(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, at_most_once=True))
    (claim,) = hand.claim(T0 + MINUTE)
    hand.die(T0 + MINUTE)
    run = the_run(store, claim.run.id)
    assert run.status == RunStatus.LOST
    assert run.error is not None
    assert "at most once" in run.error
    progress = the(store, schedule).progress
    assert (progress.active, progress.last_status, progress.failures) == (0, RunStatus.LOST, 1)
    assert len(Hand(store, "heir").claim(T0 + 2 * MINUTE)) == 1


def test_a_run_that_kills_three_is_quarantined_and_its_schedule_paused(store: BaseStore) -> None:
    schedule = create_one(store, every(MINUTE))
    for _ in range(3):
        hand = Hand(store)
        assert len(hand.claim(T0 + MINUTE)) == 1
        hand.die(T0 + MINUTE)
    (run,) = runs_of(store, schedule)
    assert (run.status, run.deaths) == (RunStatus.FAILED, 3)
    assert run.error is not None
    assert run.error.startswith("quarantined")
    progress = the(store, schedule).progress
    assert progress.state == ScheduleState.PAUSED
    assert progress.note is not None
    assert f"run {run.id}" in progress.note
    assert was_paused_by_engine(progress)
    assert Hand(store).claim(T0 + HOUR) == []


def test_quarantine_parks_the_line_behind_it(store: BaseStore) -> None:
    schedule = create_one(store, every(MINUTE, overlap="queue"))
    for _ in range(3):
        hand = Hand(store)
        hand.claim(T0 + 2 * MINUTE)
        hand.claim(T0 + 3 * MINUTE)
        hand.die(T0 + 3 * MINUTE)
    assert the(store, schedule).progress.state == ScheduleState.PAUSED
    assert Hand(store).claim(T0 + HOUR) == []
    store.change(schedule, Instant(T0 + 3 * MINUTE + 1), changes.resume)
    assert len(Hand(store).claim(T0 + 3 * MINUTE + 1)) == 1


def test_a_run_of_a_cancelled_schedule_is_not_started_again(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once())
    (claim,) = hand.claim(T0)
    store.change(schedule, T0, changes.cancel)
    hand.die(T0)
    assert the_run(store, claim.run.id).status == RunStatus.CANCELLED
    assert the(store, schedule).progress.active == 0


def test_rescue_releases_the_line(store: BaseStore, hand: Hand) -> None:
    create(store, every(MINUTE, overlap="queue", at_most_once=True))
    hand.claim(T0 + MINUTE)
    assert hand.claim(T0 + 2 * MINUTE) == []
    hand.die(T0 + 2 * MINUTE)
    (claim,) = Hand(store, "heir").claim(T0 + 2 * MINUTE)
    assert claim.run.due == T0 + 2 * MINUTE


def test_one_unreadable_policy_does_not_keep_the_others_from_rescue(store: BaseStore, hand: Hand) -> None:
    odd, fine = [s.definition.id for s in create(store, once(), once())]
    claims = hand.claim(T0)
    break_policy(store, odd)
    assert hand.die(T0) == 2
    by_schedule = {claim.definition.id: the_run(store, claim.run.id).status for claim in claims}
    assert by_schedule == {odd: RunStatus.LOST, fine: RunStatus.PENDING}
