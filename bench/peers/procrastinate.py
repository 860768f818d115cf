"""Procrastinate on PostgreSQL. Finished jobs and their events are kept."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from procrastinate import App, PsycopgConnector

from bench.peers.program import main

CHUNK = 1000


def burst(url: str, jobs: int, concurrency: int, pool: int) -> dict[str, Any]:
    """Measure jobs that are deferred already, with a worker that ends when the queue is empty."""
    return asyncio.run(_burst(url, jobs, concurrency, pool))


async def _burst(url: str, jobs: int, concurrency: int, pool: int) -> dict[str, Any]:
    app = App(connector=PsycopgConnector(conninfo=url, min_size=pool, max_size=pool))

    @app.task(name="noop")
    async def noop() -> None:
        """Do nothing."""

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for begin in range(0, jobs, CHUNK):
            await noop.batch_defer_async(*[{}] * min(CHUNK, jobs - begin))
        began = time.perf_counter()
        await app.run_worker_async(
            concurrency=concurrency, wait=False, listen_notify=False, delete_jobs="never", install_signal_handlers=False
        )
        took = time.perf_counter() - began
        count = "select count(*) as done from procrastinate_jobs where status = 'succeeded'"
        assert (await app.connector.execute_query_one_async(count))["done"] == jobs
        shown = [
            await app.connector.execute_query_one_async(f"show {name}") for name in ("fsync", "synchronous_commit")
        ]
    durability = ", ".join(f"{name}={value}" for each in shown for name, value in each.items())
    return {"rate": jobs / took, "durability": f"{durability}; jobs and their events are kept"}


if __name__ == "__main__":
    main({"burst": burst})
