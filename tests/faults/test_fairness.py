"""One owner's backlog or long work keeps nobody else waiting: neither a job nor a reminder, whoever comes first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from duetime.engine.clock import SECOND
from duetime.engine.kind import LOCAL, Work
from duetime.engine.outcome import Completed, Outcome
from duetime.engine.store import RunQuery
from duetime.engine.worker.threads import Engine
from duetime.engine.worker.worker import WorkerOptions
from tests.faults.conftest import LEASE, RealStore
from tests.support.drafts import every, once
from tests.support.hand import create
from tests.support.unreliable import Play
from tests.support.workers import CLOCK, eventually

LATEST = 1.0


class Scene:
    """A worker whose jobs of the owner `ada` hold their thread until the test lets go."""

    def __init__(self, store: RealStore, threads: int = 8) -> None:
        self.store = store
        self.gate = threading.Event()
        kinds = {name: Play(name, self._act) for name in ("job", "notification")}
        self.engine = Engine(store, kinds, CLOCK, WorkerOptions(threads=threads, lease=LEASE))

    def _act(self, work: Work) -> Outcome:
        if work.claim.definition.name == "long":
            assert self.gate.wait(30)
        return Completed()

    @contextmanager
    def running(self) -> Iterator[Scene]:
        self.engine.start()
        try:
            yield self
        finally:
            self.gate.set()
            assert (self.engine.stop(), self.engine.failure) == (0, None)

    def add(self, number: int, owner: str, name: str, kind: str = "job") -> None:
        now = CLOCK.now()
        create(self.store, *(once(now, created=now, owner=owner, name=name, kind=kind) for _ in range(number)))

    def each_second(self, owner: str) -> None:
        now = CLOCK.now() - SECOND // 2
        kinds = ("job", "notification")
        create(self.store, *(every(SECOND, now, owner=owner, created=now, kind=kind) for kind in kinds))

    def under_way(self) -> int:
        return self.engine.pool.shares.in_flight

    def lateness(self, owner: str) -> list[float]:
        runs = self.store.runs(RunQuery(owner=owner, limit=1000)).items
        assert {run.status for run in runs} <= {"completed", "running"}, runs
        return [(run.started - run.due) / SECOND for run in runs if run.started is not None]

    def served(self, owner: str, number: int) -> None:
        eventually(lambda: len(self.lateness(owner)) >= number, 30, f"{owner} has {number} runs")
        assert max(self.lateness(owner)) < LATEST


def test_beside_long_jobs_that_came_first(store: RealStore) -> None:
    scene = Scene(store)
    with scene.running():
        scene.add(32, "ada", "long")
        eventually(lambda: scene.under_way() == 4, 30, "ada has half of the threads")
        scene.each_second("bob")
        scene.served("bob", 4)
        assert scene.under_way() >= 4


def test_beside_long_jobs_that_came_later(store: RealStore) -> None:
    scene = Scene(store)
    with scene.running():
        scene.each_second("bob")
        scene.add(32, "ada", "long")
        scene.served("bob", 4)


@pytest.mark.parametrize("short", [300])
def test_beside_long_jobs_amid_short_ones_of_the_same_owner(store: RealStore, short: int) -> None:
    """Those that run fast invite many ahead; the long ones among them must not stand before anybody else's."""
    scene = Scene(store)
    with scene.running():
        scene.each_second("bob")
        scene.add(short, "ada", "short")
        scene.add(32, "ada", "long")
        scene.add(short, "ada", "short")
        scene.served("bob", 4)


def test_beside_a_backlog(store: RealStore) -> None:
    scene = Scene(store)
    scene.add(3000, "ada", "short")
    scene.each_second("bob")
    with scene.running():
        scene.served("bob", 2)


def test_long_jobs_of_several_owners_leave_the_next_one_a_thread(store: RealStore) -> None:
    scene = Scene(store, threads=16)
    with scene.running():
        for owner, in_all in (("ada", 8), ("cleo", 10), ("dora", 11)):  # one after the other: the order decides
            scene.add(16, owner, "long")
            eventually(lambda number=in_all: scene.under_way() == number, 30, f"{owner} has begun")  # type: ignore[misc]
        scene.each_second("bob")
        scene.served("bob", 2)
        assert scene.under_way() >= 11


def test_long_jobs_of_owners_that_come_at_once_leave_the_next_one_a_thread(store: RealStore) -> None:
    """More is claimed than may start then; what only waits for its owner's share takes no room from the next owner."""
    scene = Scene(store, threads=16)
    for owner in ("ada", "cleo", "dora"):
        scene.add(16, owner, "long")
    with scene.running():
        eventually(lambda: scene.under_way() == 10, 30, "each of the three has its share")
        scene.add(1, "bob", "short")
        scene.served("bob", 1)
        assert scene.under_way() >= 10


def test_reminders_pass_the_long_jobs_of_an_only_owner(store: RealStore) -> None:
    scene = Scene(store)
    with scene.running():
        scene.add(32, LOCAL, "long")
        eventually(lambda: scene.under_way() == 6, 30, "all threads but those for notifications are busy")
        now = CLOCK.now() - SECOND // 2
        create(store, every(SECOND, now, owner=LOCAL, created=now, kind="notification", name="reminder"))
        runs = RunQuery(owner=LOCAL, kind="notification")
        eventually(lambda: len(store.runs(runs).items) >= 2, 30, "the reminder came twice")


def test_a_worker_whose_owners_have_their_share_asks_no_more_than_it_must(store: RealStore) -> None:
    """What an owner may not start now is neither claimed nor looked at again and again."""
    scene = Scene(store)
    asked = 0
    exchange = store.record_and_claim

    def counted(*given: object, **named: object) -> object:
        nonlocal asked
        asked += 1
        return exchange(*given, **named)  # type: ignore[arg-type]

    with scene.running():
        scene.add(32, "ada", "long")
        eventually(lambda: scene.under_way() == 4, 30, "ada has half of the threads")
        store.record_and_claim = counted  # type: ignore[assignment]
        began = CLOCK.monotonic()
        threading.Event().wait(1.5)
        assert asked <= 4 * (CLOCK.monotonic() - began)
        assert len(scene.engine.worker.claimed) <= 5
        del store.record_and_claim
