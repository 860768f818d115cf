"""A worker stops although its store does not answer."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from duetime.api import Duetime
from duetime.engine.worker import threads
from duetime.kinds.jobs.context import TaskContext
from duetime.kinds.jobs.registry import Registry
from duetime.settings import Settings


def test_a_worker_whose_store_hangs_tells_its_runs_to_stop_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "STUCK", 0.2)
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
