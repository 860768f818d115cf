"""Threads of a worker claim and record at the same time: what one of them learns in the middle of another's exchange.

The steps of both threads are called here in the order that is dangerous, at the moment of a store call.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from duetime.engine.clock import SECOND, Instant, SystemClock
from duetime.engine.errors import StoreUnavailable, WorkerGone
from duetime.engine.model import LOCAL, ScheduleId
from duetime.engine.store import QueuePosition, RunQuery
from duetime.engine.worker import claim_overlap, claim_requests
from duetime.engine.worker.threads import Engine
from duetime.engine.worker.worker import Worker, WorkerOptions
from duetime.testing import SettableClock
from tests.faults.conftest import RealStore
from tests.support.drafts import every, once
from tests.support.hand import create, the
from tests.support.invariants import invariants
from tests.support.unreliable import Line, Play
from tests.support.workers import eventually

CLOCK = SystemClock()


class Interrupted:
    """Passes everything on, and calls `meanwhile` once after a call of the method, before its answer arrives."""

    def __init__(self, store: Any, method: str) -> None:
        self._store, self._method = store, method
        self.meanwhile: Callable[[], object] | None = None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._interrupted(found) if name == self._method else found

    def _interrupted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            answer = method(*args, **kwargs)
            meanwhile, self.meanwhile = self.meanwhile, None
            if meanwhile is not None:
                meanwhile()
            return answer

        return call


class Bench:
    """A worker whose two exchanging threads and whose pool are moved by the test."""

    def __init__(self, store: RealStore, method: str = "record_and_claim", clock: Any = CLOCK) -> None:
        self.store, self.clock = store, clock
        self.kind, self.between = Play(), Interrupted(store, method)
        self.worker = Worker(self.between, {"job": self.kind}, clock, WorkerOptions())
        self.line = self.worker.executor = Line(4)
        self.worker.register()

    def claim(self) -> int:
        """Claim, and return how many runs wait for a thread."""
        self.worker.notice()
        self.worker.claim()
        return len(self.line.items)

    def execute(self) -> None:
        while self.line.items:
            self.worker.execute(self.line.items.pop())

    def die(self) -> None:
        """Others declare the worker dead and take its runs back."""
        [row] = [row for row in self.store.workers() if row.id == self.worker.id]
        assert self.store.rescue(row.id, row.beat, self.clock.now()) is not None

    def begun(self) -> Counter[int]:
        return Counter(self.kind.begun)


AGO = Instant(CLOCK.now() - SECOND)


def due(number: int, **fields: Any) -> list[Any]:
    return [once(AGO, created=AGO, **fields) for _ in range(number)]


def test_a_run_that_is_recorded_while_the_worker_asks_what_it_holds_is_not_started_again(store: RealStore) -> None:
    create(store, *due(3))
    bench = Bench(store, "held")
    assert bench.claim() == 3
    bench.execute()
    bench.worker._doubt = True  # as after a claim of which nobody knows whether it was written
    bench.between.meanwhile = bench.worker.record
    bench.worker.claim()
    assert bench.line.items == []
    assert bench.worker.claimed == {}
    assert set(bench.begun().values()) == {1}
    invariants(store)


def test_a_claim_belongs_to_the_worker_that_made_it_though_the_other_thread_hears_that_it_is_gone(
    store: RealStore,
) -> None:
    create(store, *due(2))
    bench = Bench(store)
    assert bench.claim() == 2
    first = bench.worker.id
    bench.execute()
    create(store, *due(1))

    def hear() -> None:
        bench.die()
        with pytest.raises(WorkerGone):
            bench.worker.record()

    bench.between.meanwhile = hear
    bench.claim()
    assert {item.worker for item in bench.worker.claimed.values()} == {first}
    bench.line.items.clear()
    while bench.claim():  # all of it came back to the queue, and is claimed by the new registration
        assert {item.worker for item in bench.worker.claimed.values()} == {bench.worker.id} != {first}
        bench.execute()
        bench.worker.record()
    assert [run.status for run in store.runs(RunQuery()).items] == ["completed"] * 3
    assert bench.worker.claimed == {}
    invariants(store)


def test_a_worker_that_registers_anew_while_it_records_forgets_nothing_twice(store: RealStore) -> None:
    create(store, *due(2))
    bench = Bench(store)
    assert bench.claim() == 2
    bench.execute()
    bench.between.meanwhile = bench.worker.re_register
    bench.worker.record()
    assert bench.worker.claimed == {}
    create(store, *due(1))
    assert bench.claim() == 1
    assert [item.worker for item in bench.worker.claimed.values()] == [bench.worker.id]
    bench.execute()
    bench.worker.record()
    assert [run.status for run in store.runs(RunQuery()).items] == ["completed"] * 3
    invariants(store)


def test_only_the_thread_that_claims_registers_anew(store: RealStore) -> None:
    create(store, *due(1))
    bench = Bench(store)
    bench.claim()
    bench.execute()
    first = bench.worker.id
    bench.die()
    with pytest.raises(WorkerGone):
        bench.worker.record()
    assert bench.worker.id == first
    assert bench.claim() == 1
    assert bench.worker.id != first
    bench.execute()
    bench.worker.record()
    assert [(run.status, run.attempt) for run in store.runs(RunQuery()).items] == [("completed", 2)]


def test_what_is_due_waits_for_the_record_of_the_run_before_it(store: RealStore) -> None:
    """The run ended in time: its next occurrence is not skipped only because nobody has recorded that yet."""
    clock = SettableClock(CLOCK.now())
    [schedule] = create(store, every(2 * SECOND, clock.now(), created=clock.now()))
    bench = Bench(store, clock=clock)
    clock.move_to(Instant(clock.now() + 2 * SECOND))
    assert bench.claim() == 1
    bench.execute()
    clock.move_to(Instant(clock.now() + 2 * SECOND))
    assert bench.claim() == 0
    assert bench.worker.record()
    assert bench.claim() == 1
    bench.execute()
    bench.worker.record()
    assert the(store, schedule.definition.id).progress.run_count == 2
    assert [run.status for run in store.runs(RunQuery()).items] == ["completed"] * 2


def test_a_run_that_is_still_active_is_decided_about_as_ever(store: RealStore) -> None:
    clock = SettableClock(CLOCK.now())
    create(store, every(2 * SECOND, clock.now(), created=clock.now()))
    bench = Bench(store, clock=clock)
    clock.move_to(Instant(clock.now() + 2 * SECOND))
    assert bench.claim() == 1
    clock.move_to(Instant(clock.now() + 2 * SECOND))
    bench.claim()
    assert sorted(run.status for run in store.runs(RunQuery()).items) == ["running", "skipped"]


def test_threads_of_one_worker_run_everything_once(store: RealStore) -> None:
    create(store, *due(400), *[every(SECOND, CLOCK.now(), created=CLOCK.now()) for _ in range(5)])
    kind = Play()
    engine = Engine(store, {"job": kind}, CLOCK, WorkerOptions(threads=4, batch=20))
    engine.start()
    eventually(lambda: store.runs(RunQuery(status="completed", limit=1)).total >= 410, 60, "all runs end")
    assert engine.stop() == 0
    assert engine.failure is None
    assert set(Counter(kind.begun).values()) == {1}
    statuses = Counter(run.status for run in store.runs(RunQuery(limit=5000)).items)
    assert set(statuses) <= {"completed", "skipped", "missed"}, statuses
    invariants(store)


# Two threads take turns to claim: while one of them commits a large claim, the other one plans the next.


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pass on the turn after every claim that leaves something due."""
    monkeypatch.setattr(claim_overlap, "MIN_OVERLAPPED_CLAIMS", 1)


class Turns(Bench):
    """A worker that claims at most two runs at once."""

    def __init__(self, store: RealStore) -> None:
        super().__init__(store)
        self.worker.batch = 2
        self.other: threading.Thread | None = None

    def claim_in_another_thread(self) -> None:
        self.other = threading.Thread(target=self.worker.claim, daemon=True)
        self.other.start()

    def finish(self, number: int = 6) -> None:
        assert self.other is not None
        self.other.join(30)
        assert not self.other.is_alive()
        while self.claim():
            self.execute()
            self.worker.record()
        assert [run.status for run in self.store.runs(RunQuery()).items] == ["completed"] * number
        assert self.worker.claimed == {}
        invariants(self.store)


@pytest.mark.usefixtures("large")
def test_what_is_being_committed_counts_as_held_by_the_next_claim(store: RealStore) -> None:
    create(store, *due(6))
    bench = Turns(store)
    bench.worker.pace.seconds = 60.0  # nothing is claimed ahead of the four threads
    held = []

    def claim_too() -> None:
        held.append(bench.worker.overlap.committing().total())
        assert bench.worker.claim()
        assert not bench.worker.claim()

    bench.between.meanwhile = claim_too
    assert bench.claim() == 4
    assert held == [2]
    assert bench.worker.overlap.committing().total() == 0
    invariants(store)


@pytest.mark.usefixtures("large")
def test_a_claim_begins_behind_what_is_being_committed_but_not_for_long(
    store: RealStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another thread has locked is not looked at again and again; what came to lie before it is not forgotten."""
    first, second, *_ = create(store, *due(6))
    bench = Turns(store)
    earlier: list[ScheduleId] = []

    def ask() -> None:
        behind = bench.worker._wants(CLOCK.now())
        assert [want.after for want in behind if want.lane == "job"] == [QueuePosition(AGO, second.definition.id)]
        assert all(want.after is None for want in behind if want.lane != "job")
        [schedule] = create(store, once(Instant(AGO - SECOND), created=AGO))
        earlier.append(schedule.definition.id)
        monkeypatch.setattr(claim_requests, "RESTART_SECONDS", -1.0)
        assert all(want.after is None for want in bench.worker._wants(CLOCK.now()))
        bench.claim_in_another_thread()

    bench.between.meanwhile = ask
    bench.worker.claim()
    bench.finish(7)
    by_id = [run.schedule for run in sorted(store.runs(RunQuery()).items, key=lambda run: run.id)]
    assert by_id[:3] == [first.definition.id, second.definition.id, *earlier]


@pytest.mark.usefixtures("large")
def test_a_passed_turn_ends_although_its_commit_fails(store: RealStore) -> None:
    """The worker asks the store what became of it, once the other claim is accepted, and nothing is run twice."""
    create(store, *due(6))
    bench = Turns(store)

    def fail() -> None:
        bench.claim_in_another_thread()
        raise StoreUnavailable("nobody knows whether it was committed")

    bench.between.meanwhile = fail
    with pytest.raises(StoreUnavailable):
        bench.worker.claim()
    bench.finish()
    assert set(bench.begun().values()) == {1}


@pytest.mark.usefixtures("large")
def test_a_worker_in_doubt_asks_what_it_holds_only_after_the_other_claim_was_accepted(store: RealStore) -> None:
    create(store, *due(6))
    bench = Turns(store)

    def doubt() -> None:
        assert bench.worker.overlap.passed
        bench.worker._doubt = True
        bench.claim_in_another_thread()

    bench.between.meanwhile = doubt
    bench.claim()
    bench.finish()
    assert set(bench.begun().values()) == {1}


@pytest.mark.usefixtures("large")
def test_a_worker_registers_anew_only_after_the_other_claim_was_accepted(store: RealStore) -> None:
    create(store, *due(6))
    bench = Turns(store)
    first = bench.worker.id

    def die() -> None:
        bench.die()
        bench.claim_in_another_thread()

    bench.between.meanwhile = die
    bench.worker.claim()
    assert bench.other is not None
    bench.other.join(30)
    assert bench.worker.id != first
    assert {item.worker for item in bench.worker.claimed.values()} <= {bench.worker.id}
    bench.line.items.clear()
    bench.finish()


@pytest.mark.usefixtures("large")
def test_a_claim_that_fails_is_repeated_alone(store: RealStore) -> None:
    create(store, *due(6))
    bench = Turns(store)
    planned: list[bool] = []
    record_and_claim = store.record_and_claim

    class Failing:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def record_and_claim(self, *args: Any) -> Any:
            planned.append(len(args) > 8)
            if len(planned) == 1:
                raise RuntimeError("it cannot be claimed")
            return record_and_claim(*args)

    bench.worker.store = Failing()
    assert bench.worker.claim()
    assert planned == [True]
    bench.worker.claim()
    bench.worker.claim()
    assert planned == [True, False, True]
    bench.execute()
    bench.worker.record()
    bench.claim_in_another_thread()
    bench.finish()


@pytest.mark.usefixtures("large")
def test_threads_that_take_turns_run_everything_once(store: RealStore) -> None:
    create(store, *due(600, owner=LOCAL))  # of any other owner, few would be claimed at once
    kind = Play()
    engine = Engine(store, {"job": kind}, CLOCK, WorkerOptions(threads=4, batch=20))
    passed: list[bool] = []
    on_pass = engine.worker.overlap.on_pass

    def note() -> None:
        passed.append(True)
        on_pass()

    engine.worker.overlap.on_pass = note
    engine.start()
    eventually(lambda: store.runs(RunQuery(status="completed", limit=1)).total >= 600, 60, "all runs end")
    assert engine.stop() == 0
    assert engine.failure is None
    assert bool(passed) == store.writes_overlap
    assert set(Counter(kind.begun).values()) == {1}
    invariants(store)
