"""The wall clock is set while work goes on: no occurrence runs twice, none vanishes, and no worker is declared dead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duetime.engine.clock import HOUR, MINUTE, SECOND, Instant, instant_of
from duetime.engine.kind import Work
from duetime.engine.model import Run
from duetime.engine.outcome import Completed, Outcome
from duetime.engine.worker.threads import Engine
from duetime.engine.worker.worker import Worker, WorkerOptions
from duetime.kinds.jobs.context import TaskContext
from duetime.kinds.jobs.registry import Registry
from duetime.stores.sqlite.store import SqliteStore
from duetime.testing import Simulation
from tests.faults.conftest import RealStore
from tests.support.drafts import every, once
from tests.support.hand import create, create_one, the
from tests.support.invariants import invariants
from tests.support.unreliable import Play
from tests.support.workers import ShiftedClock, eventually

START = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
AN_HOUR = timedelta(hours=1)

pytestmark = pytest.mark.filterwarnings("ignore::duetime.api.NotStartedWarning")


class Stage:
    def __init__(self) -> None:
        registry = Registry()
        self.ran: list[tuple[str, datetime]] = []

        @registry.task
        def note(context: TaskContext) -> None:
            self.ran.append((context.name, context.due))

        self.simulation = Simulation(START, registry=registry)

    def add(self, name: str, minutes: int, **policy: Any) -> None:
        self.simulation.duetime.schedule("note", name=name, every=timedelta(minutes=minutes), **policy)

    def times(self, name: str) -> list[datetime]:
        return [due for who, due in self.ran if who == name]


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.simulation.close()


def covered(runs: list[Run], due: Instant) -> bool:
    """Whether a row says what became of this instant."""
    return any(run.due <= due <= (run.last or run.due) for run in runs)


@pytest.mark.parametrize("catch_up", ["once", "all", "skip"])
def test_an_hour_ahead_and_back(stage: Stage, catch_up: str) -> None:
    simulation = stage.simulation
    stage.add("tea", 10, catch_up=catch_up, overlap="queue")
    simulation.advance(timedelta(minutes=15))  # tea at :10
    simulation.clock.jump(AN_HOUR)
    simulation.settle()  # it is 13:15: what lies between is caught up with
    simulation.advance(timedelta(minutes=10))  # 13:25
    simulation.clock.jump(-AN_HOUR)
    simulation.settle()  # it is 12:25 again
    simulation.advance(timedelta(hours=2))  # 14:25

    assert max(Counter(stage.ran).values()) == 1, "no occurrence ran twice"
    runs = simulation.runs()
    everything = [START + timedelta(minutes=10 * number) for number in range(1, 15)]
    assert [due for due in everything if not covered(runs, instant_of(due))] == [], "none is lost in silence"
    late = [due for due in everything if due >= START + timedelta(minutes=90)]
    assert [due for due in stage.times("tea") if due >= late[0]] == late, "it is punctual again"


def test_back_alone_repeats_nothing(stage: Stage) -> None:
    simulation = stage.simulation
    stage.add("tea", 10)
    simulation.advance(AN_HOUR)
    assert len(stage.ran) == 6
    simulation.clock.jump(-timedelta(minutes=30))
    simulation.settle()
    simulation.advance(AN_HOUR)  # 13:30 by its clock
    assert max(Counter(stage.ran).values()) == 1
    assert stage.times("tea") == [START + timedelta(minutes=10 * number) for number in range(1, 10)]


def test_a_trigger_that_cannot_be_read_does_not_stop_the_worker_when_the_clock_goes_back() -> None:
    store = SqliteStore(":memory:")
    store.migrate()
    clock = ShiftedClock()
    now = clock.now()
    bad = create_one(store, every(MINUTE, now - SECOND, created=now))
    good = create_one(store, every(MINUTE, now - SECOND, created=now))
    clock.shift = HOUR
    worker = Worker(store, {"job": Play()}, clock, WorkerOptions())
    worker.record_and_claim()
    store._writer.execute('UPDATE schedules SET trigger = \'{"type":"moon"}\' WHERE id = ?', (bad,))
    clock.shift = 0
    worker.record_and_claim()
    assert the(store, bad).progress.state == "broken"
    assert the(store, good).progress.state == "active"
    assert (the(store, good).progress.next or 0) < now + 2 * MINUTE
    store.close()


def test_a_jump_neither_ends_a_lease_nor_a_run(store: RealStore) -> None:
    """Two engines, one of which believes that it is an hour later: both live on their own monotonic clocks."""
    told: list[object] = []

    def act(work: Work) -> Outcome:
        if work.claim.definition.name == "long":
            told.append(work.stop.wait(2.5))
        return Completed()

    clocks = [ShiftedClock(), ShiftedClock()]
    kind = Play(act=act)
    engines = [Engine(store, {"job": kind}, clock, WorkerOptions(threads=2, lease=2.0)) for clock in clocks]
    now = clocks[0].now()
    create(store, once(now, created=now, name="long"), once(now + 30 * MINUTE, created=now, name="later"))
    for engine in engines:
        engine.start()
    eventually(lambda: len(kind.begun) == 1, 30, "the long one is under way")
    before = {row.id for row in store.workers()}
    clocks[1].shift = HOUR
    if store.now() is None:  # on PostgreSQL the server's clock is followed, which has not moved
        eventually(lambda: len(kind.begun) == 2, 30, "its time has come for one of them")
    clocks[1].shift = -HOUR
    eventually(lambda: len(told) == 1, 30, "the long one ends by itself")
    assert told == [False], "it was not told to stop"
    assert {row.id for row in store.workers()} == before, "no worker was declared dead"
    for engine in engines:
        assert engine.stop() == 0
        assert engine.failure is None
    assert max(Counter(kind.begun).values()) == 1
    invariants(store)
