"""Waiting for commits of other processes on SQLite: quietly while nothing is written, and without missing any."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from duetime.engine.clock import Clock, SystemClock
from duetime.stores.sqlite.store import SqliteStore
from duetime.stores.sqlite.watch import FIRST_LOOK_SECONDS, CommitWatch


class Store:
    """A log that is written and versions that change, as SQLite does it, and how often they were read."""

    def __init__(self, log: Path) -> None:
        log.write_bytes(b"")
        self.version, self.foreign, self.looks = 1, 1, 0
        self.is_written = False
        self.at_look: Callable[[], None] = lambda: None
        self._log = log
        self.watch = self.watch_by(SystemClock())

    def watch_by(self, clock: Clock) -> CommitWatch:
        return CommitWatch(self._look, lambda: self.foreign, str(self._log), clock, lambda: self.is_written)

    def _look(self) -> int:
        self.looks += 1
        seen = self.version
        self.at_look()
        return seen

    def write(self) -> None:
        self.is_written = True
        with self._log.open("ab") as log:
            log.write(b"frame")

    def commit(self, *, own: bool = False) -> None:
        self.is_written = False
        self.version += 1
        self.foreign += not own

    def rest(self) -> None:
        """Wait until nothing is looked at any more, and skip the test where writes are not reported."""
        self.watch.wait(0.3)
        if not self.watch._writes.reports:
            pytest.skip("this system does not report writes to files")
        self.looks = 0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "log")
    yield made
    made.watch.close()


def test_a_store_that_rests_is_looked_at_once_in_a_second(store: Store) -> None:
    store.rest()
    assert store.watch.wait(0.8) is False
    assert store.looks <= 1


def test_own_commits_are_looked_at_a_few_times(store: Store) -> None:
    store.rest()
    store.write()
    store.commit(own=True)
    assert store.watch.wait(0.8) is False
    assert 1 <= store.looks <= 6


@pytest.mark.parametrize("seconds", [0, 0.2], ids=["at once", "slowly"])
def test_a_commit_that_follows_its_writes_is_found(store: Store, seconds: float) -> None:
    store.rest()
    later = threading.Timer(seconds, store.commit)
    store.write()
    later.start()
    assert store.watch.wait(30) is True
    later.join()


def test_without_reports_it_is_looked_at_often(store: Store) -> None:
    store.rest()
    store.commit(own=True)  # as if the file system reported no writes
    store.watch.wait(1.2)
    assert not store.watch._writes.reports
    store.write()
    later = threading.Timer(0.1, store.commit)
    later.start()
    assert store.watch.wait(30) is True
    later.join()


def test_a_wait_is_interrupted(store: Store) -> None:
    for end in (store.watch.interrupt, store.watch.close):
        later = threading.Timer(0.1, end)
        later.start()
        assert store.watch.wait(60) is False
        later.join()
    assert store.watch.wait(60) is False


def test_without_poll_as_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(select, "poll", raising=False)
    store = Store(tmp_path / "log")
    watch, store.looks = store.watch, 0
    watch.interrupt()
    assert watch.wait(60) is False
    assert store.looks == 0
    store.at_look = watch.interrupt
    assert watch.wait(60) is False
    assert store.looks == 1
    store.at_look = lambda: store.commit() if store.looks == 2 else None
    assert watch.wait(60) is True
    assert store.looks == 3
    later = threading.Timer(0.1, watch.close)
    later.start()
    assert watch.wait(60) is False
    later.join()
    watch.interrupt()
    assert watch.wait(60) is False


class Simulated(SystemClock):
    """Reports of writes, and a clock that only waiting moves. What is planned for the end of a wait comes after it."""

    reports = True

    def __init__(self, store: Store) -> None:
        self.time, self.plan = 0.0, list[tuple[float, Callable[[], None]]]()
        self._written = self._rung = False
        store.watch.close()
        self._store = store
        self.watch = store.watch = store.watch_by(self)
        self.watch.close()
        self.watch._writes = self  # type: ignore[assignment]
        store.looks = 0

    def monotonic(self) -> float:
        return self.time

    def write(self) -> None:
        self._written = self._store.is_written = True

    def interrupt(self) -> None:
        self._rung = True

    def distrust(self) -> None:
        raise AssertionError("a write was reported, and still the reports are given up")

    def close(self) -> None:
        pass

    def wait(self, timeout: float, *, for_writes: bool = True) -> bool | None:
        end = self.time + timeout
        while True:
            while self.plan and self.plan[0][0] <= self.time:
                self.plan.pop(0)[1]()
            if self._rung:
                self._rung = False
                return None
            if for_writes and self._written:
                self._written = False
                return True
            if self.time >= end:
                return False
            if not self.plan or self.plan[0][0] >= end:
                self.time = end
                return False
            self.time = self.plan[0][0]


@pytest.fixture
def simulated(store: Store) -> Simulated:
    return Simulated(store)


@pytest.mark.parametrize("own_first", [False, True], ids=["alone", "after an own commit"])
def test_a_slow_commit_is_found_when_a_look_came_upon_its_writes(
    store: Store, simulated: Simulated, own_first: bool
) -> None:
    if own_first:
        simulated.plan.append((0.01, lambda: store.commit(own=True)))
    simulated.plan += [(0.02, simulated.write), (0.5, store.commit)]
    assert store.watch.wait(30) is True
    assert simulated.time < 0.6


def test_a_slow_commit_is_found_when_its_writes_were_reported_with_those_of_the_one_before(
    store: Store, simulated: Simulated
) -> None:
    def next_begins() -> None:
        store.commit(own=True)
        simulated.write()

    simulated.plan = [(0.5, simulated.write), (0.5004, next_begins), (0.9, store.commit)]
    assert store.watch.wait(30) is True
    assert simulated.time < 1


def test_a_commit_is_found_at_once_although_this_process_commits_too(store: Store, simulated: Simulated) -> None:
    """As when a worker claims and records what another process creates again and again."""
    begins = [0.5 + 0.03 * number for number in range(20)]
    for begin in begins:
        simulated.plan += [(begin, simulated.write), (begin + 0.0009, store.commit)]
        for own in (begin + 0.004, begin + 0.008):
            simulated.plan += [(own, simulated.write), (own + 0.0009, lambda: store.commit(own=True))]
    for begin in begins:
        assert store.watch.wait(30) is True
        assert simulated.time < begin + 0.01


def test_commits_of_a_busy_process_are_looked_at_at_intervals(store: Store, simulated: Simulated) -> None:
    for number in range(1000):
        simulated.plan += [
            (0.5 + number / 500, simulated.write),
            (0.501 + number / 500, lambda: store.commit(own=True)),
        ]
    assert store.watch.wait(2.5) is False
    assert store.looks < 60


def test_reports_stay_trusted_when_a_look_came_upon_writes_whose_commit_took_long(
    store: Store, simulated: Simulated
) -> None:
    simulated.plan = [(0.02, simulated.write), (1.5, store.commit)]
    assert store.watch.wait(30) is True


def test_the_further_writes_of_an_own_commit_are_not_taken_for_another(store: Store, simulated: Simulated) -> None:
    simulated.plan = [
        (0.5, simulated.write),
        (0.5002, simulated.write),
        (0.5004, lambda: store.commit(own=True)),
    ]
    assert store.watch.wait(0.9) is False
    assert store.looks <= 5


def test_an_interrupt_just_before_a_look_is_not_lost(store: Store, simulated: Simulated) -> None:
    simulated.plan = [(FIRST_LOOK_SECONDS, simulated.interrupt)]
    assert store.watch.wait(60) is False
    assert simulated.time == FIRST_LOOK_SECONDS
    assert store.looks == 0


def test_an_open_transaction_is_noticed_without_waiting_for_it(tmp_path: Path) -> None:
    store, other = SqliteStore(tmp_path / "a.db"), SqliteStore(tmp_path / "a.db")
    store.migrate()
    assert store.wait(0) is False
    found: list[bool] = []
    for writer in (store, other):
        with writer._write():
            asked = threading.Thread(target=lambda: found.append(store._is_written()))
            asked.start()
            asked.join(30)
        found.append(store._is_written())
    assert found == [True, False] * 2
    assert store.wait(0) is False
    for each in (store, other):
        each.close()
