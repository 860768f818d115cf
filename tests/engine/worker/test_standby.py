"""Who works when a process only stands in: looked at step by step, on a settable clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import StoreUnusable
from duetime.engine.model import WorkerId
from duetime.engine.worker.standby import Standby
from duetime.stores.sqlite.store import SqliteStore
from duetime.testing import SettableClock

LEASE = 2.0
START = Instant(1_772_323_200_000_000)


class Hand:
    """As much of an engine as deciding needs: a row in the store while it works."""

    def __init__(self, store: SqliteStore, clock: SettableClock) -> None:
        self._store, self._clock = store, clock
        self.worker: Any = self
        self.id: WorkerId | None = None
        self.failure: BaseException | None = None
        self.claiming = True

    def start(self) -> None:
        self.id = self._store.register("stand-in", ["job"], True, self._clock.now(), int(LEASE * SECOND))

    def stop(self, patience: float) -> int:
        assert self.id is not None
        self._store.retire(self.id)
        return 0

    def stop_all(self, reason: object) -> None: ...


class Scene:
    def __init__(self, store: SqliteStore) -> None:
        self.store, self.clock = store, SettableClock(START)

    def stand_in(self) -> Standby:
        def make() -> Any:
            return Hand(self.store, self.clock)

        return Standby(self.store, self.clock, LEASE, make, patience=0)

    def worker(self, *, session: bool = False) -> WorkerId:
        return self.store.register("another", ["job"], session, self.clock.now(), int(LEASE * SECOND))

    def steps(self, stand_in: Standby, seconds: float, beating: WorkerId | None = None) -> None:
        """Looks as often as the thread would."""
        for _ in range(round(seconds / 0.1)):
            self.clock.move_to(Instant(self.clock.now() + SECOND // 10))
            if beating is not None:
                self.store.beat(beating, self.clock.now(), {})
            stand_in.step()


@pytest.fixture
def scene() -> Iterator[Scene]:
    store = SqliteStore(":memory:")
    store.migrate()
    yield Scene(store)
    store.close()


def test_it_works_when_nobody_else_does(scene: Scene) -> None:
    alone = scene.stand_in()
    alone.step()
    assert alone.working
    assert [row.session for row in scene.store.workers()] == [1]
    scene.steps(alone, 10)
    assert alone.working, "it does not take itself for somebody else"


@pytest.mark.parametrize("session", [False, True], ids=["a worker", "a stand-in"])
def test_it_waits_while_somebody_beats_and_works_once_they_left(scene: Scene, session: bool) -> None:
    other = scene.worker(session=session)
    waiting = scene.stand_in()
    scene.steps(waiting, 3 * LEASE, beating=other)
    assert not waiting.working
    scene.store.retire(other)
    waiting.step()
    assert waiting.working


def test_it_takes_over_within_one_lease_of_silence(scene: Scene) -> None:
    other = scene.worker()
    waiting = scene.stand_in()
    scene.steps(waiting, 1, beating=other)
    scene.steps(waiting, LEASE - 0.3)
    early = waiting.working
    scene.steps(waiting, 0.5)
    assert (early, waiting.working) == (False, True)
    assert other not in {row.id for row in scene.store.workers()}, "what the dead one held was given back"


def test_it_gives_way_to_a_worker(scene: Scene) -> None:
    first = scene.stand_in()
    first.step()
    scene.worker()
    first.step()
    assert not first.working
    assert [row.session for row in scene.store.workers()] == [0]


def test_of_two_that_began_together_the_first_one_works(scene: Scene) -> None:
    """Neither saw the other before it began."""
    first, second = scene.stand_in(), scene.stand_in()
    first._begin()
    second._begin()
    second.step()
    first.step()
    assert (first.working, second.working) == (True, False)


def test_a_worker_that_failed_is_not_started_again_and_again(scene: Scene) -> None:
    failing = scene.stand_in()
    failing.step()
    assert failing._engine is not None
    failing._engine.failure = StoreUnusable("the file was replaced")
    with pytest.raises(StoreUnusable):
        failing.step()


def test_it_survives_a_short_lack_of_resources(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    workers, failures = scene.store.workers, [OSError(24, "Too many open files"), MemoryError()]

    def sometimes() -> Any:
        if failures:
            raise failures.pop()
        return workers()

    monkeypatch.setattr(scene.store, "workers", sometimes)
    stand_in = scene.stand_in()
    stand_in.start()
    try:
        assert stand_in.decided.wait(20) and not failures and stand_in.working
    finally:
        stand_in.stop(0)


def test_stopping_leaves_no_row_behind(scene: Scene) -> None:
    alone = scene.stand_in()
    alone.start()
    assert alone.decided.wait(30)
    alone.stop(0)
    assert scene.store.workers() == []
