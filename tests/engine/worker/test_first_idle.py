"""A worker that starts beside a backlog: what can wait, waits until the work is done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from duetime.api import Duetime
from duetime.engine.clock import SECOND, Instant, datetime_of
from duetime.engine.times import zones
from duetime.engine.validation import NewSchedule
from duetime.engine.worker import claim_requests
from duetime.kinds.jobs.registry import Registry
from duetime.service.services import OPERATOR
from duetime.settings import Settings
from tests.support.workers import eventually

JOBS = 30


class Backlog:
    """Jobs that are due and wait for the test to open a gate; whenever the worker does what can wait, it is noted
    whether all of them have been executed."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate, self.done = threading.Event(), threading.Event()
        self.preloads: list[bool] = []
        self.waits: list[bool] = []
        self.calls: list[int] = []
        registry = Registry()

        @registry.task
        def work() -> None:
            assert self.gate.wait(60)
            self.calls.append(1)
            if len(self.calls) == JOBS:
                self.done.set()

        self.duetime = Duetime(settings=Settings(db=url, timezone="UTC", threads=2), registry=registry)
        clock = self.duetime.app.clock
        due = Instant(clock.now() + SECOND // 4)
        job = NewSchedule("job", "work", "once", {"run_at": datetime_of(due).isoformat()}, {"task": "work"})
        self.duetime.scheduler.create_many(OPERATOR, [job] * JOBS)
        eventually(lambda: clock.now() > due, 10, "all are due")
        monkeypatch.setattr(zones, "preload", lambda: self.preloads.append(self.done.is_set()))
        monkeypatch.setattr(self.duetime.app.store, "wait", self._noted(self.duetime.app.store.wait))

    def _noted(self, wait: Callable[[float], bool]) -> Callable[[float], bool]:
        def noted(timeout: float) -> bool:
            self.waits.append(self.done.is_set())
            return wait(timeout)

        return noted


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "my.db") if request.param == "sqlite" else request.getfixturevalue("clean_postgres_url")


@pytest.fixture
def backlog(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Backlog]:
    made = Backlog(url, monkeypatch)
    yield made
    made.gate.set()
    made.duetime.close()


def let_sleep(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Set how long a worker sleeps at most before it looks at the queue."""
    monkeypatch.setattr(claim_requests, "LONGEST_SLEEP", seconds)


def test_zones_and_the_watch_wait_until_the_backlog_is_done(backlog: Backlog, monkeypatch: pytest.MonkeyPatch) -> None:
    let_sleep(monkeypatch, 3)  # however slow the machine is, the worker does not take that for idleness
    backlog.gate.set()
    backlog.duetime.start()
    eventually(lambda: backlog.preloads and backlog.waits, 30, "the worker is idle")
    assert set(backlog.preloads) == set(backlog.waits) == {True}
    assert len(backlog.preloads) == 1


def test_a_worker_that_only_waits_for_long_work_is_idle(backlog: Backlog, monkeypatch: pytest.MonkeyPatch) -> None:
    let_sleep(monkeypatch, 0.05)
    backlog.duetime.start()
    eventually(lambda: backlog.preloads and backlog.waits, 30, "nothing ended for as long as the worker sleeps")
    assert not backlog.calls


def test_a_worker_without_a_backlog_watches_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process commits is noticed, although the worker itself looks at the queue once a minute."""
    let_sleep(monkeypatch, 60)
    told, registry = threading.Event(), Registry()

    @registry.task
    def tell() -> None:
        told.set()

    settings = Settings(db=url, timezone="UTC")
    with Duetime(settings=settings, registry=registry), closing(Duetime(settings=settings, registry=registry)) as other:
        other.schedule("tell", delay=0.01)
        assert told.wait(20)
