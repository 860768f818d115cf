"""Huey on SQLite with `fsync=True` and stored results."""

from __future__ import annotations

import time
from typing import Any

from huey import CySqliteHuey, SqliteHuey

from bench.peers.program import main, rate_of_callers, wait_for

STORAGES = {"sqlite3": SqliteHuey, "cysqlite": CySqliteHuey}


def _open(url: str, storage: str) -> Any:
    return STORAGES[storage]("bench", filename=url, fsync=True, results=True, store_none=True)


def _durability(huey: Any) -> str:
    journal, synchronous = (
        huey.storage.sql(f"pragma {name}", results=True)[0][0] for name in ("journal_mode", "synchronous")
    )
    return f"journal_mode={journal}, synchronous={synchronous}; a result is stored, the task is deleted"


def burst(url: str, jobs: int, storage: str, workers: int, worker_type: str) -> dict[str, Any]:
    """Measure tasks that are enqueued already. Without workers, one loop dequeues and executes, and never polls."""
    huey = _open(url, storage)
    noop = huey.task()(_noop)
    for _ in range(jobs):
        noop()
    if workers:
        consumer = huey.create_consumer(
            workers=workers, worker_type=worker_type, periodic=False, initial_delay=0.001, max_delay=0.01
        )
        began = time.perf_counter()
        consumer.start()
        took = wait_for(huey.storage.result_store_size, jobs) - began
        consumer.stop(graceful=True)
    else:
        began = time.perf_counter()
        for _ in range(jobs):
            huey.execute(huey.dequeue())
        took = time.perf_counter() - began
    assert huey.storage.result_store_size() == jobs
    return {"rate": jobs / took, "durability": _durability(huey)}


def create(url: str, calls: int, callers: int, others: int, storage: str) -> dict[str, Any]:
    """Measure enqueuing, one call after the other by each caller."""
    huey = _open(url, storage)
    noop = huey.task()(_noop)
    with huey.storage.db(commit=True) as cursor:
        data = huey.serialize_task(noop.s())
        cursor.executemany(
            "insert into task (queue, data, priority) values (?, ?, 0)", [(huey.storage.name, data)] * others
        )
    rate = rate_of_callers(noop, calls, callers)
    assert huey.pending_count() >= others + calls // callers * callers
    return {"rate": rate, "durability": _durability(huey)}


def _noop() -> None:
    """Do nothing."""


if __name__ == "__main__":
    main({"burst": burst, "create": create})
