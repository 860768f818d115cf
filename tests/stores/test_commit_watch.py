"""Waiting for commits of other processes on SQLite: quietly while nothing is written, and without missing any."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from duetime.engine.clock import SystemClock
from duetime.stores.sqlite.watch import CommitWatch


class Store:
    """A log that is written and versions that change, as SQLite does it, and how often they were read."""

    def __init__(self, log: Path) -> None:
        log.write_bytes(b"")
        self.version, self.foreign, self.looks = 1, 1, 0
        self._log = log
        self.watch = CommitWatch(self._look, lambda: self.foreign, str(log), SystemClock())

    def _look(self) -> int:
        self.looks += 1
        return self.version

    def write(self) -> None:
        with self._log.open("ab") as log:
            log.write(b"frame")

    def commit(self, *, own: bool = False) -> None:
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
