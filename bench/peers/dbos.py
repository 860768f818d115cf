"""DBOS on PostgreSQL: workflows of a durable queue. Their inputs, outputs and states are kept."""

from __future__ import annotations

import time
from typing import Any

import psycopg
from dbos import DBOS, DBOSClient

from bench.peers.program import main, wait_for

DONE = "select count(*) from dbos.workflow_status where status = 'SUCCESS'"


def burst(url: str, jobs: int, worker_concurrency: int, polling: float, pool: int) -> dict[str, Any]:
    """Measure workflows that are enqueued when the worker starts to read the queue."""
    config: Any = {
        "name": "bench", "system_database_url": url, "sys_db_pool_size": pool, "log_level": "ERROR",
        "application_version": "1", "enable_otlp": False,
    }  # fmt: skip
    DBOS(config=config)
    DBOS.workflow(name="noop")(_noop)
    DBOS.listen_queues([])
    DBOS.launch()
    DBOS.register_queue("bench", worker_concurrency=worker_concurrency or None, polling_interval_sec=polling)
    DBOS.destroy()
    _enqueue(url, jobs)
    DBOS(config=config)
    DBOS.workflow(name="noop")(_noop)
    with psycopg.connect(url, autocommit=True) as connection:
        ask: Any = connection.execute
        began = time.perf_counter()
        DBOS.launch()
        took = wait_for(lambda: ask(DONE).fetchone()[0], jobs, 0.02) - began
        shown = [ask(f"show {name}").fetchone()[0] for name in ("fsync", "synchronous_commit")]
    DBOS.destroy()
    return {"rate": jobs / took, "durability": f"fsync={shown[0]}, synchronous_commit={shown[1]}; workflows are kept"}


def _enqueue(url: str, jobs: int) -> None:
    """Enqueue workflows in one transaction."""
    client = DBOSClient(system_database_url=url)
    options: Any = {"queue_name": "bench", "workflow_name": "noop", "app_version": "1"}
    with client._sys_db.engine.begin() as connection:
        for _ in range(jobs):
            client.enqueue_in_transaction(connection, options)
    client.destroy()


def _noop() -> None:
    """Do nothing."""


if __name__ == "__main__":
    main({"burst": burst})
