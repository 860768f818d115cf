"""Interleavings of a worker's steps that no signal can time: played step by step, on the real store."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from duetime.engine.clock import SECOND, Instant, SystemClock, instant_of
from duetime.engine.errors import StoreUnavailable, StoreUnusable, WorkerGone
from duetime.engine.kind import StopReason
from duetime.engine.model import WorkerId, WorkerRow
from duetime.engine.store import RecordedAndClaimed, RunQuery
from duetime.engine.worker.claim_requests import LEAST_AHEAD, LONGEST_SLEEP
from duetime.engine.worker.lease import REVIVAL, FailureDetector, Lease
from duetime.engine.worker.runner import ClaimedRun
from duetime.engine.worker.shares import ThreadShares
from duetime.engine.worker.worker import Worker, WorkerOptions
from duetime.testing import SettableClock
from tests.faults.conftest import RealStore
from tests.support.drafts import once
from tests.support.hand import create, the
from tests.support.invariants import invariants
from tests.support.unreliable import Line, Play, Unreliable

CLOCK = SystemClock()
KINDS = {"job": Play("job"), "other": Play("other")}


def due(number: int, *, ago: float = 1.0, **given: Any) -> list[Any]:
    now = CLOCK.now() - int(ago * SECOND)
    return [once(now, created=now, **given) for _ in range(number)]


def worker_on(store: Any, size: int, **options: Any) -> tuple[Worker, Line]:
    worker = Worker(store, KINDS, CLOCK, WorkerOptions(**options))
    worker.executor = line = Line(size)
    worker.register()
    return worker, line


def dies(store: RealStore, worker: Worker) -> None:
    """Somebody finds this worker dead."""
    (row,) = [row for row in store.workers() if row.id == worker.id]
    assert store.rescue(row.id, row.beat, CLOCK.now()) is not None


def make_fast(worker: Worker) -> None:
    """Work that takes microseconds: the worker claims ahead of its threads."""
    worker.pace.seconds = 0.0001


def finish(worker: Worker, line: Line, number: int) -> None:
    for _ in range(number):
        worker.execute(line.items.pop(0))


# -- a lease that was over ------------------------------------------------------------------------------------------


def test_what_is_in_hand_when_the_lease_is_over_is_let_go_also_if_the_next_beat_is_in_time(store: RealStore) -> None:
    """As after a stop in which nobody missed it: the beat renews the lease before anybody minds it."""
    worker, line = worker_on(store, 4)
    create(store, *due(1))
    worker.record_and_claim()
    (held,) = line.items
    worker.beat()
    assert not held.stop.is_set()
    worker.lease._deadline = CLOCK.boottime() - 1
    worker.beat()
    assert not worker.lease.expired()
    assert held.stop.reason is StopReason.LEASE


# -- one death, heard of twice --------------------------------------------------------------------------------------


def test_a_death_that_beat_and_exchange_both_hear_of_ends_one_life(store: RealStore) -> None:
    """The beat's answer is on its way while the exchange has started anew already."""
    worker, _ = worker_on(store, 4)
    create(store, *due(2))
    first = worker.id
    dies(store, worker)

    class Slow(Unreliable):
        def beat(self, *given: Any) -> Any:
            worker.store = store
            worker.record_and_claim()  # the other thread is faster: it starts anew
            worker.notice()
            worker.record_and_claim()  # … and claims
            return store.beat(*given)

    worker.store = cast(Any, Slow(store))
    with pytest.raises(WorkerGone):
        worker.beat()
    second = worker.id
    assert second != first
    held = dict(worker.claimed)
    assert len(held) == 2
    worker.record_and_claim()
    assert worker.id == second, "the new life goes on"
    assert worker.claimed == held
    assert [row.id for row in store.workers()] == [second]


def test_the_outcomes_of_an_earlier_life_are_dropped_and_its_runs_can_be_ours_again(store: RealStore) -> None:
    """A run of which an old outcome is still around is claimed anew, in a commit of which nobody hears."""
    unsure = Unreliable(store, {})
    worker, line = worker_on(unsure, 4)
    create(store, *due(1))
    worker.record_and_claim()
    (old,) = line.items
    dies(store, worker)
    with pytest.raises(WorkerGone):
        worker.beat()
    worker.record_and_claim()  # starts anew; the run is a suspect by now, and in hand again
    worker.notice()
    worker.record_and_claim()
    worker.execute(old)  # its thread comes back late
    assert old.stop.reason is StopReason.LEASE
    new = next(iter(worker.claimed.values()))
    assert new is not old
    worker.record_and_claim()
    assert worker.claimed == {new.id: new}, "the old outcome took nothing away"
    worker._doubt = True
    worker.record_and_claim()
    assert len([item for item in line.items if item is not old]) == 1, "it is started once"
    worker.execute(new)
    worker.record_and_claim()
    (run,) = store.runs(RunQuery()).items
    assert (run.status, run.deaths, run.attempt) == ("completed", 1, 2)
    invariants(store)


def test_a_dropped_run_keeps_its_thread_until_it_returns(store: RealStore) -> None:
    """Otherwise a worker that starts anew claims for threads that are not there."""
    worker, line = worker_on(store, 2)
    create(store, *due(2))
    worker.record_and_claim()
    strays = [line.items.pop(), line.items.pop()]
    for item in strays:
        item.begun = True
    line.free = 0
    dies(store, worker)
    with pytest.raises(WorkerGone):
        worker.beat()
    worker.record_and_claim()
    create(store, *due(5, kind="other"))
    worker.notice()
    worker.record_and_claim()
    assert line.items == [], "both threads are still busy with what was dropped"
    assert worker.seconds_to_look() == LONGEST_SLEEP, "and nobody spins meanwhile"
    strays[0].over = True
    line.free = 1
    worker.notice()
    worker.record_and_claim()
    assert len(line.items) == 1
    invariants(store)


# -- work that needs a thread of its own -----------------------------------------------------------------------------


def test_at_most_once_work_is_claimed_for_idle_threads_and_stands_first(store: RealStore) -> None:
    """Of two kinds together no more than there are idle threads, in front of what was claimed with it."""
    worker, line = worker_on(store, 6)
    make_fast(worker)
    line.free = 3
    create(store, *due(5, at_most_once=True), *due(5, at_most_once=True, kind="other"), *due(40))
    worker.record_and_claim()
    exact = [item for item in line.items if "at_most_once" in item.claim.definition.policy]
    assert len(exact) == 3
    assert line.items[:3] == exact
    assert len(line.items) == 43
    invariants(store)


def test_at_most_once_work_is_not_claimed_for_threads_that_are_spoken_for(store: RealStore) -> None:
    """What was claimed ahead of its instant waits with the timer: the threads that it needs are not idle."""
    worker, line = worker_on(store, 4, lead=10 * SECOND)
    make_fast(worker)
    waiting: list[ClaimedRun] = []
    worker.start_later = lambda seconds, item: waiting.append(item)  # type: ignore[method-assign]
    create(store, *[once(CLOCK.now() + 5 * SECOND, created=CLOCK.now()) for _ in range(4)])
    worker.record_and_claim()
    assert len(waiting) == 4
    create(store, *due(2, at_most_once=True))
    worker.notice()
    worker.record_and_claim()
    assert line.items == []


def test_at_most_once_work_gets_its_turn_beside_a_line_that_is_always_full(store: RealStore) -> None:
    worker, line = worker_on(store, 2, batch=50)
    make_fast(worker)
    create(store, *due(300))
    worker.record_and_claim()
    create(store, *due(1, at_most_once=True))
    line.free = 0
    for _ in range(100):
        make_fast(worker)
        worker.requests._looked_aside = 0.0
        worker.notice()
        worker.record_and_claim()
        if any("at_most_once" in item.claim.definition.policy for item in worker.claimed.values()):
            break
        finish(worker, line, min(20, len(line.items)))
        line.free = max(0, 2 - len(line.items))
    else:
        raise AssertionError("it starved")
    assert store.health(CLOCK.now()).due > 100, "it did not have to wait for all the others"


def test_a_slot_that_a_record_frees_is_filled_by_the_same_transaction(store: RealStore) -> None:
    worker, line = worker_on(store, 1)
    create(store, *due(3))
    worker.record_and_claim()
    for _ in range(2):
        finish(worker, line, 1)
        worker.notice()
        worker.record_and_claim()
        assert len(line.items) == 1
    assert store.runs(RunQuery(status="completed")).total == 2


def test_at_most_once_work_is_looked_for_again_when_a_thread_turns_out_to_be_idle(store: RealStore) -> None:
    """Its outcome is recorded a moment before the thread says that it is free: no further record comes to remind us."""
    worker, line = worker_on(store, 1)
    create(store, *due(2, at_most_once=True))
    worker.record_and_claim()
    finish(worker, line, 1)
    line.free = 0
    worker.record_and_claim()
    assert line.items == []
    line.free = 1
    worker.record_and_claim()  # the thread woke the engine
    assert len(line.items) == 1


# -- standing in line ------------------------------------------------------------------------------------------------


def test_an_old_backlog_is_not_given_back_because_it_is_old(store: RealStore) -> None:
    worker, line = worker_on(store, 2)
    make_fast(worker)
    create(store, *due(50, ago=30))
    worker.record_and_claim()
    line.free = 0
    worker.leave_to_others(2.0)
    assert len(line.items) == 50


def test_what_stalls_is_left_to_others_and_not_claimed_back(store: RealStore) -> None:
    worker, line = worker_on(store, 2)
    make_fast(worker)
    create(store, *due(50))
    worker.record_and_claim()
    running = [line.items.pop(0), line.items.pop(0)]
    line.free = 0
    worker.leave_to_others(0.0)
    worker.record_and_claim()
    worker.notice()
    worker.record_and_claim()
    assert line.items == []
    assert set(worker.claimed) == {item.id for item in running}
    pending = store.runs(RunQuery(status="pending", limit=100)).items
    assert {(run.attempt, run.deaths) for run in pending} == {(0, 0)}
    assert len(pending) == 48
    other, elsewhere = worker_on(store, 60)
    other.record_and_claim()
    assert len(elsewhere.items) == 48
    invariants(store)


# -- when to look again ----------------------------------------------------------------------------------------------


def test_what_another_worker_is_just_claiming_is_no_reason_to_spin(store: RealStore) -> None:
    class Contended(Unreliable):
        def record_and_claim(self, *given: Any) -> RecordedAndClaimed:
            return RecordedAndClaimed([], [])  # as with SKIP LOCKED: due, but in somebody else's transaction

    worker, _ = worker_on(Contended(store), 4)
    create(store, *due(3))
    worker.notice()
    assert worker.record_and_claim() is False
    assert 0 < worker.seconds_to_look() <= 0.011


def test_a_write_during_the_look_ahead_is_looked_at_again(store: RealStore) -> None:
    class Busy(Unreliable):
        def earliest(self, *given: Any) -> Any:
            found = store.earliest(*given)
            create(store, *due(1))
            worker.notice()  # as the store's listener does
            return found

    worker, line = worker_on(Busy(store), 4)
    worker.record_and_claim()
    worker.store = store
    assert worker.seconds_to_look() == 0
    worker.record_and_claim()
    assert len(line.items) == 1


# -- a store that cannot be used ---------------------------------------------------------------------------------------


def test_a_store_that_cannot_be_used_breaks_no_schedule_and_loses_no_outcome(store: RealStore) -> None:
    class Unusable(Unreliable):
        def record_and_claim(self, *given: Any) -> RecordedAndClaimed:
            raise StoreUnusable("read-only")

    worker, line = worker_on(store, 4)
    create(store, *due(1))
    worker.record_and_claim()
    waiting = create(store, *due(1, at_most_once=True))[0].definition.id
    worker.store = cast(Any, Unusable(store))
    for _ in range(2):  # with nothing to record, and with something
        worker.notice()
        with pytest.raises(StoreUnusable):
            worker.record_and_claim()
        if line.items:
            finish(worker, line, 1)
    assert the(store, waiting).progress.state == "active"
    worker.store = store
    worker.record_and_claim()
    finish(worker, line, 1)
    worker.record_and_claim()
    assert {run.status for run in store.runs(RunQuery()).items} == {"completed"}
    assert worker.claimed == {}


# -- leases ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(instant_of(datetime(2026, 1, 1, tzinfo=UTC)))


def pass_time(clock: SettableClock, seconds: float) -> None:
    clock.move_to(Instant(clock.now() + int(seconds * SECOND)))


def test_answers_heard_out_of_order_shorten_no_lease(clock: SettableClock) -> None:
    lease = Lease(clock, 10)
    pass_time(clock, 5)
    lease.renew(clock.boottime())
    lease.renew(clock.boottime() - 4)
    pass_time(clock, 9)
    assert not lease.expired()


def test_after_an_outage_others_get_time_to_find_the_store_again(clock: SettableClock) -> None:
    """Nobody knocks all the time: whoever is first to be back must not take the others for dead."""
    judge = FailureDetector(clock, lease=2, interval=0.1)
    row = WorkerRow(WorkerId(2), "w", "job", 0, Instant(0), 7, Instant(0), lease=2 * SECOND)
    judge.forget()
    judge.observe([row], WorkerId(1))
    waited = 0.0
    while not judge.observe([row], WorkerId(1)):
        pass_time(clock, 0.1)
        waited += 0.1
    assert waited == pytest.approx(2 + REVIVAL, abs=0.15)


def test_a_report_that_is_no_text_does_not_keep_the_worker_from_beating(store: RealStore) -> None:
    """Models and programs say anything; a beat that fails on it would make whoever holds the run look dead."""
    create(store, *due(1))
    worker, line = worker_on(store, 1)
    worker.record_and_claim()
    item = line.items[0]
    item.tell("called \ud800\0")
    worker.beat()
    run = store.run(item.id)
    assert run is not None and run.report == "called \ufffd\ufffd"
    finish(worker, line, 1)
    worker.record_and_claim()


def test_a_worker_whose_own_lease_is_over_judges_nobody(store: RealStore) -> None:
    """What kept it from beating may have kept the others from it as well."""
    worker, _ = worker_on(store, 4)
    other, _ = worker_on(store, 4)
    for seconds in (-1.0, 10.0):
        worker.failure_detector.observe(store.workers(), worker.id)
        for seen in worker.failure_detector._seen.values():
            seen.unchanged = 1000.0
        worker.failure_detector._outage = float("-inf")  # right after an outage, nobody is judged at all
        worker.lease._deadline = CLOCK.boottime() + seconds
        assert worker.rescue() == 0
        assert len(store.workers()) == (2 if seconds < 0 else 1), "with a lease of its own it would have judged"
        assert other.id is not None


def test_a_worker_that_cannot_beat_declares_nobody_dead(store: RealStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lease may still run while nothing can be committed any more, for itself and for the others."""
    worker, _ = worker_on(store, 4)
    worker_on(store, 4)
    worker.failure_detector.observe(store.workers(), worker.id)
    for seen in worker.failure_detector._seen.values():
        seen.unchanged = 1000.0

    def beat(*_: object) -> None:
        raise StoreUnavailable

    with monkeypatch.context() as patched:
        patched.setattr(store, "beat", beat)
        with pytest.raises(StoreUnavailable):
            worker.rescue()
    assert len(store.workers()) == 2
    worker.rescue()
    assert len(store.workers()) == 1


@pytest.mark.parametrize(("recorded", "most"), [(0, LEAST_AHEAD), (400, 200), (10**6, 4000)])
def test_no_more_is_claimed_ahead_than_is_recorded_in_time(store: RealStore, recorded: int, most: int) -> None:
    """Runs that end quickly may wait for long nevertheless, on a machine that has too much to do."""
    worker = Worker(store, {"job": Play("job")}, CLOCK, WorkerOptions(threads=4, batch=1000, lease=600.0))
    worker.executor, worker.pace.seconds = Line(4), 1e-6
    worker.register()
    create(store, *due(5_000))
    worker.record_and_claim()
    assert len(worker.claimed) == 1000, "at first, nothing is known"
    worker.pace._counted, worker.pace.recorded = (CLOCK.monotonic() - 1, 0), recorded
    held = len(worker.claimed)
    worker.notice()
    worker.record_and_claim()
    assert len(worker.claimed) - held == pytest.approx(max(0, min(1000, 4 + most - held)), abs=10)


# -- threads that are kept for notifications ------------------------------------------------------------------------


def test_jobs_that_were_not_asked_for_are_looked_for_as_soon_as_something_ends(store: RealStore) -> None:
    """With room for no more than what is kept for notifications, only those are asked for, and none is due: the worker
    must not sleep beside the jobs that are."""
    kinds = {"job": Play("job"), "notification": Play("notification")}
    worker = Worker(store, kinds, CLOCK, WorkerOptions(batch=20))
    worker.executor = line = Line(8)
    worker.shares.threads = ThreadShares(8, {name: kind.thread_use for name, kind in kinds.items()})
    worker.register()
    create(store, *due(10, owner="local"))
    worker.record_and_claim()
    assert len(line.items) == 6  # two threads are kept
    worker.record_and_claim()
    finish(worker, line, 6)
    worker.record_and_claim()
    assert len(line.items) == 4
