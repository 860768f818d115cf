"""How late runs start: at a steady rate beside many other schedules, and when another process creates what is due."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

from bench.burst import completed, durability
from bench.lines import Goal, Line
from bench.peers.program import percentiles, wait_for
from bench.scene import Tasks, bench_settings, create, later, open_app
from bench.sides import Bench
from bench.worker import workers
from duetime.api import Duetime
from duetime.engine.clock import SECOND, Instant

BELOW = Goal(1, higher=False)
AIMS = {"p50": Goal(None, 0.3, higher=False), "p99": Goal(None, 1.0, higher=False)}
WAKE_UP = {"sqlite": Goal(60, higher=False), "postgres": Goal(15, higher=False)}


# -- in the process that measures ------------------------------------------------------------------------------------


def measure_lateness(url: str, rate: int, seconds: int, others: int) -> dict[str, Any]:
    """Measure from the instant at which a job is due to the first line of its function."""
    tasks = Tasks()
    app = open_app(url, tasks.registry())
    try:
        create(app, others, later(app))
        count = rate * seconds
        begin = app.clock.now() + 2 * SECOND
        create(app, count, lambda number: Instant(begin + number * SECOND // rate), task="note")
        engine = app.engine()
        engine.start()
        wait_for(lambda: len(tasks.late), count, 0.1)
        assert engine.stop() == 0
        return {**percentiles(tasks.late), "durability": durability(url)}
    finally:
        app.close()


def measure_wake_up(url: str, count: int) -> dict[str, Any]:
    """Measure from the instant of a create to the first line of its function in a worker of another process."""
    duetime = Duetime(settings=bench_settings(url), registry=Tasks().registry())
    try:
        with workers(url, 1, 8) as (worker,):
            worker.go()
            worker.read()
            time.sleep(1.0)
            for _ in range(count):
                duetime.schedule("note", at="now")
                time.sleep(random.uniform(0.02, 0.1))
            wait_for(lambda: completed(duetime.app), count, 0.05)
            late = worker.end()["late"]
        assert len(late) == count, f"{len(late)} of {count} ran"
        return {**percentiles(late), "durability": durability(url)}
    finally:
        duetime.close()


# -- the workloads ---------------------------------------------------------------------------------------------------


def lateness(bench: Bench, store: str) -> Iterator[Line]:
    """Start minus due at a steady rate, beside many others that are not due."""
    sizes = bench.sizes
    request: dict[str, Any] = {"rate": sizes.rate, "seconds": sizes.seconds, "others": sizes.others}
    small = {"seconds": 3, "others": min(1_000, sizes.others)}
    sides = [bench.duetime("lateness", store, **request)]
    sides += bench.peers(("apscheduler",), "lateness", store, small, **request)
    bench.measure(f"lateness on {store}", sides)
    for key, aim in AIMS.items():
        ours = sides[0].figure(key)
        for side in sides[1:]:
            yield Line(f"lateness {key}", store, "ms", ours, side.figure(key), BELOW)
        yield Line(f"lateness {key}", store, "ms", ours, None, aim)


def wake_up(bench: Bench, store: str) -> Iterator[Line]:
    """Start minus due for what another process creates, due at once."""
    side = bench.duetime("wake_up", store, count=bench.sizes.wake_ups)
    bench.measure(f"wake-up on {store}", [side])
    yield Line("wake-up p50", store, "ms", side.figure("p50"))
    yield Line("wake-up p99", store, "ms", side.figure("p99"), None, WAKE_UP[store])
