"""Celery on a Redis server that writes every change to the disk. Results are kept."""

from __future__ import annotations

import logging
import time
from typing import Any

from celery import Celery
from celery.contrib.testing.worker import start_worker
from redis import Redis

from bench.peers.program import main, wait_for
from bench.peers.redis_server import DURABILITY, running_redis


def burst(redis: str, jobs: int, concurrency: int, prefetch: int) -> dict[str, Any]:
    """Measure tasks that are queued already, with the thread pool of Celery's worker, until all results are stored."""
    logging.disable(logging.WARNING)
    with running_redis(redis) as url:
        app = Celery("bench", broker=url, backend=url)
        app.conf.update(task_acks_late=True, worker_prefetch_multiplier=prefetch, worker_hijack_root_logger=False)
        app.task(name="noop")(_noop)
        with app.producer_pool.acquire(block=True) as producer:
            for _ in range(jobs):
                app.send_task("noop", producer=producer)
        client = Redis.from_url(url)
        began = time.perf_counter()
        with start_worker(app, concurrency=concurrency, pool="threads", perform_ping_check=False):
            took = wait_for(lambda: client.dbsize() - _without_results(client), jobs, 0.02) - began
    return {"rate": jobs / took, "durability": f"{DURABILITY}; results are kept, acknowledged late"}


def _without_results(client: Any) -> int:
    """Return how many keys are no results: Celery and its transport keep at most these."""
    return int(client.exists("celery", "unacked", "unacked_index", "unacked_mutex")) + sum(
        1 for _ in client.scan_iter("_kombu*", count=100_000)
    )


def _noop() -> None:
    """Do nothing."""


if __name__ == "__main__":
    main({"burst": burst})
