"""Dramatiq on a Redis server that writes every change to the disk. Results are kept."""

from __future__ import annotations

import time
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from bench.peers.program import main, wait_for
from bench.peers.redis_server import DURABILITY, running_redis


def burst(redis: str, jobs: int, threads: int) -> dict[str, Any]:
    """Measure messages that are queued already, with one worker process, until all results are stored."""
    with running_redis(redis) as url:
        broker = RedisBroker(url=url)
        broker.add_middleware(Results(backend=RedisBackend(url=url), store_results=True))
        dramatiq.set_broker(broker)
        actor: Any = dramatiq.actor(_noop, actor_name="noop", store_results=True)
        for _ in range(jobs):
            actor.send()
        worker = dramatiq.Worker(broker, worker_threads=threads)
        began = time.perf_counter()
        worker.start()
        took = wait_for(lambda: jobs - _left(broker), jobs, 0.02) - began
        worker.stop()
    return {"rate": jobs / took, "durability": f"{DURABILITY}; results are kept"}


def _left(broker: Any) -> int:
    """Return how many messages are not acknowledged: each stays in a hash of the queue until then."""
    return int(broker.client.hlen("dramatiq:default.msgs"))


def _noop() -> int:
    return 1


if __name__ == "__main__":
    main({"burst": burst})
