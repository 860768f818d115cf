"""However many schedules listen to an event, nobody waits long for the transactions that start their runs."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from duetime.stores.base import BaseStore
from duetime.stores.postgres.transaction import PostgresTransaction
from tests.support.dying import open_quietly
from tests.support.hand import create
from tests.support.happenings import expand, send, waits
from tests.support.workers import quickest

LISTENERS = 10_000
BOUND = 0.1
"""Seconds of one transaction."""
TRIES = 4


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseStore]:
    is_file = request.param == "sqlite"
    opened = open_quietly(str(tmp_path / "due.db") if is_file else request.getfixturevalue("clean_postgres_url"))
    opened.migrate()
    yield opened
    opened.close()


def in_line(process: int | str) -> float:
    """Return for how many seconds a process (its main thread), or this thread, has stood in line for a processor."""
    file = Path(f"/proc/{process}/schedstat")
    return int(file.read_text(encoding="ascii").split()[1]) / 1e9 if file.exists() else 0.0


@contextmanager
def timed(store: BaseStore) -> Iterator[list[float]]:
    """Measure each transaction by the clock on the wall, from its begin to the end of its commit, without the time in
    which it, and the server's process that serves it, only stood in line behind other work of the machine."""
    write, took = store._write, list[float]()

    @contextmanager
    def timed_write() -> Iterator[Any]:
        begun = time.perf_counter()
        stood = sum(map(in_line, processes))
        with write() as tx:
            yield tx
        took.append(time.perf_counter() - begun - sum(map(in_line, processes)) + stood)

    processes: list[int | str] = ["thread-self", *servers_of(store)]
    store._write = timed_write  # type: ignore[method-assign]
    gc.collect()
    gc.freeze()  # the objects of all other tests of this process are not looked through meanwhile
    yield took
    gc.unfreeze()
    store._write = write  # type: ignore[method-assign]


def servers_of(store: BaseStore) -> list[int]:
    """Return the process of PostgreSQL that serves the transactions of this thread, if it is on this machine."""
    with store._write() as tx:
        return [tx._db.info.backend_pid] if isinstance(tx, PostgresTransaction) else []


def test_no_transaction_for_ten_thousand_listeners_takes_long(store: BaseStore) -> None:
    """Each at its quickest: other work of the machine makes a transaction longer, never shorter, and hardly ever the
    same one in every try."""
    for _ in range(10):
        create(store, *(waits(overlap="allow") for _ in range(LISTENERS // 10)))
    best: list[float] = []

    def measure() -> float:
        with timed(store) as took:
            send(store)
            number = expand(store)
        assert number == len(took) - 2 >= 10, "one stores the event, and the last one finds nothing left to do"
        best[:] = list(map(min, best or took, took))
        return max(best)

    longest = quickest(measure, BOUND, TRIES)
    print(f"\nthe longest of {len(best)} transactions: {longest * 1000:.0f} ms")  # noqa: T201  the figure is to be seen
    assert longest < BOUND
    runs = [number for _, number in store._rows("SELECT schedule, count(*) FROM runs GROUP BY schedule", ())]
    assert len(runs) == LISTENERS and len(set(runs)) == 1
