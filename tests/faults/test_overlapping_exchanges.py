"""One thread claims while another records: what one of them learns in the middle of the other's exchange.

The steps of both threads are called here in the order that is dangerous, at the moment of a store call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from duetime.engine.clock import SECOND, Instant, SystemClock
from duetime.engine.errors import WorkerGone
from duetime.engine.store import RunQuery
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


def due(number: int) -> list[Any]:
    now = Instant(CLOCK.now() - SECOND)
    return [once(now, created=now) for _ in range(number)]


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
    gone = bench.worker.id
    assert gone is not None
    bench.between.meanwhile = lambda: bench.worker.re_register(gone)
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
