"""PgQueuer on PostgreSQL with its durable tables, its recommended autovacuum settings and uvloop."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

import asyncpg
import psycopg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver, PsycopgDriver
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from bench.peers.program import main

DRAIN = QueueExecutionMode.drain


async def _connect(url: str, driver: str) -> Any:
    if driver == "asyncpg":
        return AsyncpgDriver(await asyncpg.connect(url))
    if driver == "asyncpg pool":
        return AsyncpgPoolDriver(await asyncpg.create_pool(url, min_size=4, max_size=16))
    return PsycopgDriver(await psycopg.AsyncConnection.connect(url, autocommit=True))


async def _prepare(url: str, jobs: int) -> str:
    """Install PgQueuer, enqueue jobs in bulk, and return the durability settings."""
    queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
    await queries.install()
    await queries.optimize_autovacuum()
    if jobs:
        await queries.enqueue(["noop"] * jobs, [None] * jobs, [0] * jobs)
    shown = [(await queries.driver.fetch(f"show {name}"))[0][name] for name in ("fsync", "synchronous_commit")]
    return f"fsync={shown[0]}, synchronous_commit={shown[1]}; a log row for each change of status, durable tables"


def burst(url: str, jobs: int, consumers: int, batch_size: int, driver: str) -> dict[str, Any]:
    """Measure jobs that are enqueued already, in the drain mode of its own benchmark, until the last is recorded."""
    return uvloop.run(_burst(url, jobs, consumers, batch_size, driver))


async def _burst(url: str, jobs: int, consumers: int, batch_size: int, driver: str) -> dict[str, Any]:
    durability = await _prepare(url, jobs)
    queues = [PgQueuer(await _connect(url, driver)) for _ in range(consumers)]
    counter = itertools.count(1)
    executed = asyncio.Event()

    async def noop(job: object) -> None:
        if next(counter) == jobs:
            executed.set()

    for queue in queues:
        queue.entrypoint("noop")(noop)
    watcher = await asyncpg.connect(url)
    began = time.perf_counter()
    running = [asyncio.create_task(each.run(batch_size=batch_size, mode=DRAIN)) for each in queues]
    await executed.wait()
    while await watcher.fetchval("select exists (select from pgqueuer)"):
        await asyncio.sleep(0.005)
    took = time.perf_counter() - began
    await asyncio.gather(*running)
    done = await watcher.fetchval("select count(*) from pgqueuer_log where status = 'successful'")
    assert done == jobs, f"{done} of {jobs} were recorded"
    return {"rate": jobs / took, "durability": durability}


def create(url: str, calls: int, callers: int, others: int, driver: str) -> dict[str, Any]:
    """Measure enqueuing, one call after the other by each caller with a connection of its own, or from a pool."""
    return uvloop.run(_create(url, calls, callers, others, driver))


async def _create(url: str, calls: int, callers: int, others: int, driver: str) -> dict[str, Any]:
    durability = await _prepare(url, others)
    if driver == "asyncpg pool":
        queues = [Queries(await _connect(url, driver))] * callers
    else:
        queues = [Queries(await _connect(url, driver)) for _ in range(callers)]
    for each in queues:
        await each.enqueue("noop", None)
    share = calls // callers

    async def caller(queries: Any) -> None:
        for _ in range(share):
            await queries.enqueue("noop", None)

    began = time.perf_counter()
    await asyncio.gather(*(caller(each) for each in queues))
    return {"rate": share * callers / (time.perf_counter() - began), "durability": durability}


if __name__ == "__main__":
    main({"burst": burst, "create": create})
