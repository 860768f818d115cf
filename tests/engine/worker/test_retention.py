"""Workers delete history that is too old, by themselves."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from duetime.api import Duetime
from duetime.engine.clock import DAY, Instant, SystemClock
from duetime.engine.store import RunQuery
from duetime.engine.worker import threads
from duetime.kinds.jobs.registry import Registry
from duetime.settings import Settings


class Past:
    """A clock of forty days ago, for making history."""

    def __init__(self) -> None:
        self._real = SystemClock()

    def now(self) -> Instant:
        return Instant(self._real.now() - 40 * DAY)

    def monotonic(self) -> float:
        return self._real.monotonic()

    def boottime(self) -> float:
        return self._real.boottime()


def make_history(settings: Settings) -> None:
    ran, registry = threading.Event(), Registry()
    registry.task(name="ring")(ran.set)
    with Duetime(settings=settings, registry=registry, clock=Past()) as duetime:
        duetime.schedule("ring", every=0.05, max_runs=1)
        assert ran.wait(20)


@pytest.mark.parametrize(("days", "left"), [(30.0, 0), (0.0, 1)], ids=["a month", "for ever"])
def test_history_is_kept_as_long_as_the_settings_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: float, left: int
) -> None:
    db = str(tmp_path / "duetime.db")
    settings = Settings(db=db, timezone="UTC", threads=1, smallest_interval=0.01, retention_days=days)
    make_history(settings)
    monkeypatch.setattr(threads, "TIDY_FIRST", 0.0)
    tidied = threading.Event()
    with Duetime(settings=settings, registry=Registry()) as duetime:
        store = duetime.app.store
        prune = store.prune
        monkeypatch.setattr(store, "prune", lambda before, limit: _told(prune(before, limit), tidied))
        if left == 0:
            assert tidied.wait(20)
        assert duetime.stop() == 0
        assert store.runs(RunQuery()).total == left


@pytest.mark.parametrize(("most", "asked"), [(1_000_000, [1_000_000]), (0, [])], ids=["a limit", "no limit"])
def test_history_is_trimmed_to_what_the_settings_allow_an_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, asked: list[int]
) -> None:
    monkeypatch.setattr(threads, "TIDY_FIRST", 0.0)
    db = str(tmp_path / "duetime.db")
    settings = Settings(db=db, timezone="UTC", threads=1, retention_days=0, max_stored_bytes=most)
    limits: list[int] = []

    def trim(limit: int, now: Instant, batch: int) -> int:
        limits.append(limit)
        return 0

    duetime = Duetime(settings=settings, registry=Registry())
    monkeypatch.setattr(duetime.app.store, "trim", trim)
    engine = duetime.app.engine()
    engine._tidy()
    engine._tidy()
    duetime.app.close()
    assert limits == asked


def _told(deleted: int, tidied: threading.Event) -> int:
    if deleted == 0:
        tidied.set()
    return deleted
