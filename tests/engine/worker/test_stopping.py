"""A worker stops at once, although its store does not answer or runs that it claimed are not due yet."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from duetime.api import Duetime
from duetime.engine.clock import SECOND, Instant
from duetime.engine.model import RunStatus
from duetime.engine.store import RunQuery
from duetime.engine.worker import threads
from duetime.engine.worker.runner import ClaimedRun
from duetime.engine.worker.worker import WorkerOptions
from duetime.kinds.jobs.context import TaskContext
from duetime.kinds.jobs.registry import Registry
from duetime.settings import Settings
from duetime.stores.sqlite.store import SqliteStore
from tests.support.drafts import once
from tests.support.hand import create_one
from tests.support.unreliable import Play
from tests.support.workers import CLOCK


def test_a_worker_whose_store_hangs_tells_its_runs_to_stop_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "MIN_EXCHANGE_PATIENCE", 0.2)
    began, told, answers, registry = threading.Event(), threading.Event(), threading.Event(), Registry()

    @registry.task(name="watch")
    def watch(context: TaskContext) -> None:
        began.set()
        if context.cancelled.wait(60):
            told.set()

    settings = Settings(db=str(tmp_path / "duetime.db"), timezone="UTC", threads=1)
    with Duetime(settings=settings, registry=registry) as duetime:
        duetime.schedule("watch", delay=0.01)
        assert began.wait(20)
        stuck = threading.Thread(target=answers.wait, args=(60,), daemon=True)
        stuck.start()
        engine, duetime._engine = duetime._engine, None
        assert engine is not None
        engine._threads.append(stuck)
        try:
            assert engine.stop(patience=0.1) <= 1 and stuck.is_alive()
            assert told.wait(20)
        finally:
            answers.set()
            stuck.join()


def test_a_run_that_was_claimed_ahead_is_given_back_at_once(tmp_path: Path) -> None:
    store, claimed, played = SqliteStore(tmp_path / "due.db"), threading.Event(), Play()
    store.migrate()
    create_one(store, once(at=Instant(CLOCK.now() + 3600 * SECOND)))
    engine = threads.Engine(store, {"job": played}, CLOCK, WorkerOptions(threads=1, lead=7200 * SECOND))

    def start_later(seconds: float, item: ClaimedRun) -> None:
        engine._start_later(seconds, item)
        claimed.set()

    engine.worker.start_later = start_later  # type: ignore[method-assign]
    engine.start()
    assert claimed.wait(20)
    assert engine.stop(patience=0.1) == 0
    [run] = store.runs(RunQuery(limit=1)).items
    assert (run.status, run.attempt, played.begun) == (RunStatus.PENDING, 0, [])
    store.close()
