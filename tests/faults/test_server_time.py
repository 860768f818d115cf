"""A real server that stalls, and a local clock that is set: neither makes a worker start anything early."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from duetime.engine.clock import DAY, HOUR, SECOND, StoreClock, SystemClock
from duetime.engine.worker.threads import Engine
from duetime.engine.worker.worker import WorkerOptions
from duetime.stores.postgres.store import PostgresStore
from tests.support.drafts import once
from tests.support.hand import create
from tests.support.invariants import checked_store
from tests.support.postgres import PostgresServer
from tests.support.unreliable import Play
from tests.support.workers import ShiftedClock, eventually

CLOCK = SystemClock()
STALL = 0.6


@pytest.fixture
def store(clean_postgres_url: str) -> Iterator[PostgresStore]:
    with checked_store(clean_postgres_url) as opened:
        yield opened


def stalled(store: PostgresStore, clock: StoreClock) -> None:
    """Follow the server's clock while the process that answers is stopped for a while."""
    with store._readers.lend() as connection:
        backend = connection.info.backend_pid
    continued: list[float] = []

    def go_on() -> None:
        continued.append(CLOCK.monotonic())
        os.kill(backend, signal.SIGCONT)

    os.kill(backend, signal.SIGSTOP)
    going_on = threading.Timer(STALL, go_on)
    going_on.start()
    asked = CLOCK.monotonic()
    clock.follow(store.now)
    answered = CLOCK.monotonic()
    going_on.join()
    assert asked < continued[0] < answered, "the question was under way"


def test_a_server_that_stalls_before_it_answers_makes_no_worker_fast(private_postgres: PostgresServer) -> None:
    """A server of the test's own, for one of its processes is stopped."""
    store = PostgresStore(private_postgres.url)
    clock = StoreClock(SystemClock())
    for moment in ("at the start", "in mid-life"):
        stalled(store, clock)
        shown = clock.now()
        assert shown <= CLOCK.now(), f"{moment}: the server's clock is this machine's, and by it nothing starts early"
        assert CLOCK.now() - shown < SECOND / 2, f"{moment}: nor is the worker slow by what the answer took"
    store.close()


@pytest.mark.parametrize("step", [DAY, -DAY])
def test_a_step_of_the_local_clock_is_not_taken_over(store: PostgresStore, step: int) -> None:
    clock = ShiftedClock()
    kind = Play()
    engine = Engine(store, {"job": kind}, clock, WorkerOptions(threads=2, lease=30.0))
    engine.start()
    clock.shift = step
    now = CLOCK.now()
    create(store, once(now + HOUR, created=now), once(now + SECOND // 5, created=now))
    eventually(lambda: len(kind.begun) == 1, 30, "what is due runs")
    create(store, once(CLOCK.now() + SECOND // 10, created=now))
    eventually(lambda: len(kind.begun) > 1, 30, "and so does what comes after it")
    assert engine.stop() == 0
    assert len(kind.begun) == 2, "what is due in an hour waits"
