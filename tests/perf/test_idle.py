"""A worker that has nothing to do does next to nothing: what it reads is counted, because a busy machine only reads
less."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from duetime.engine.clock import SystemClock
from duetime.engine.worker.threads import Engine
from duetime.engine.worker.worker import WorkerOptions
from duetime.stores.sqlite.store import SqliteStore
from duetime.stores.sqlite.watch import CommitWatch
from tests.support.workers import eventually

CLOCK = SystemClock()
SECONDS = 3.0
READS_A_SECOND = 4
"""Reads of the queue and of the list of workers, on average: one and two thirds, and more at the start."""
LOOKS_A_SECOND = 8
"""Looks for commits of other processes: 20 where the system does not report writes."""


def test_an_idle_worker_reads_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path / "my.db")
    store.migrate()
    reads, looks = [0], [0]
    read, look = SqliteStore._rows, CommitWatch._is_changed

    def counted_read(self: SqliteStore, *arguments: object) -> list[tuple[object, ...]]:
        reads[0] += 1
        return read(self, *arguments)  # type: ignore[arg-type]

    def counted_look(self: CommitWatch) -> bool:
        looks[0] += 1
        return look(self)

    engine = Engine(store, {}, CLOCK, WorkerOptions(threads=1))
    engine.start()
    try:
        eventually(lambda: engine.worker.id is not None, 30, "it has started")
        threading.Event().wait(1.0)  # what a start reads is not counted
        monkeypatch.setattr(SqliteStore, "_rows", counted_read)
        monkeypatch.setattr(CommitWatch, "_is_changed", counted_look)
        began = CLOCK.monotonic()
        threading.Event().wait(SECONDS)
        took = CLOCK.monotonic() - began
    finally:
        engine.stop()
        store.close()
    assert 1 <= reads[0] <= took * READS_A_SECOND
    assert looks[0] <= took * LOOKS_A_SECOND
