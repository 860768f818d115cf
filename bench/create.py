"""Creating: one durable create after another by one caller and by sixteen, whether its cost grows, and in bulk."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from bench.burst import durability
from bench.lines import Goal, Line
from bench.peers.program import rate_of_callers
from bench.scene import CHUNK, bench_settings, drafts, later, noop_registry, open_app
from bench.scene import create as create_rows
from bench.sides import Bench
from duetime.api import Duetime
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.validation import NewSchedule

PEER = {"sqlite": ("huey",), "postgres": ("pgqueuer",)}
CALLERS = {1: Goal(0.3, 0.6), 16: Goal(1, 2)}
PRESENT = 10_000
FLAT = Goal(1.2, higher=False)
BULK = {"sqlite": Goal(60_000, 90_000), "postgres": Goal(40_000, 75_000)}
FAR = datetime(2100, 1, 1, tzinfo=UTC)


# -- in the process that measures ------------------------------------------------------------------------------------


def measure_create(url: str, calls: int, callers: int, others: int) -> dict[str, Any]:
    """Measure creates of the Python API, one after the other by each caller in a thread of its own."""
    warnings.simplefilter("ignore")  # that no worker runs
    duetime = Duetime(settings=bench_settings(url), registry=noop_registry())
    try:
        create_rows(duetime.app, others, later(duetime.app))
        duetime.schedule("noop", at=FAR)
        ids: list[str] = []
        rate = rate_of_callers(lambda: ids.append(fact(duetime.schedule("noop", at=FAR), "id")), calls, callers)
        assert len(set(ids)) == calls // callers * callers
        assert all(fact(duetime.get(id), "status") == "pending" for id in ids[::10])
        return {"rate": rate, "cost": 1e6 / rate, "durability": durability(url)}
    finally:
        duetime.close()


def fact(answer: Any, name: str) -> Any:
    """Return a field of an answer, which is a dictionary in version 0.2: `bench.compare` measures older checkouts."""
    return answer[name] if isinstance(answer, dict) else getattr(answer, name)


def measure_bulk(url: str, count: int) -> dict[str, Any]:
    """Measure `create_many` of the scheduler, and writing rows of jobs that are checked already."""
    app = open_app(url)
    try:
        payload = {"task": "noop", "args": [], "kwargs": {}}
        new = NewSchedule("job", "noop", "once", {"run_at": FAR.isoformat()}, payload)
        began = time.perf_counter()
        for begin in range(0, count, CHUNK):
            app.scheduler.create_many(Caller(LOCAL), [new] * min(CHUNK, count - begin))
        checked = time.perf_counter() - began
        took = 0.0
        for begin in range(0, count, CHUNK):
            part = drafts(app, min(CHUNK, count - begin), later(app))
            began = time.perf_counter()
            app.store.create(part)
            took += time.perf_counter() - began
        return {"rate": count / checked, "rows": count / took, "durability": durability(url)}
    finally:
        app.close()


# -- the workloads ---------------------------------------------------------------------------------------------------


def create(bench: Bench, store: str) -> Iterator[Line]:
    """Durable creates beside what the peer calls enqueue, by one caller and by sixteen."""
    others = min(PRESENT, max(bench.sizes.present))
    for callers, goal in CALLERS.items():
        request: dict[str, Any] = {"calls": bench.sizes.creates, "callers": callers, "others": others}
        small = {"calls": max(callers, bench.sizes.creates // 4)}
        sides = [bench.duetime("create", store, **request)]
        sides += bench.peers(PEER[store], "create", store, small, **request)
        title = "create, one caller" if callers == 1 else f"create, {callers} callers"
        bench.measure(f"{title}, on {store}", sides)
        for side in sides[1:]:
            yield Line(title, store, "creates/s", sides[0].figure(), side.figure(), goal)
        if len(sides) == 1:
            yield Line(title, store, "creates/s", sides[0].figure())


def flat(bench: Bench, store: str) -> Iterator[Line]:
    """The cost of a create beside ever more schedules of the same owner."""
    sides = [
        bench.duetime(
            "create", store, name=f"{number:,} schedules", calls=bench.sizes.creates, callers=1, others=number
        )
        for number in bench.sizes.present
    ]
    bench.measure(f"create beside others on {store}", sides)
    for side in sides[1:]:
        yield Line("create, growth", store, "µs/create", side.figure("cost"), sides[0].figure("cost"), FLAT)


def bulk(bench: Bench, store: str) -> Iterator[Line]:
    """Creates of many schedules at once."""
    side = bench.duetime("bulk", store, count=bench.sizes.bulk)
    bench.measure(f"bulk create on {store}", [side])
    yield Line("bulk create, create_many", store, "creates/s", side.figure(), None, BULK[store])
    yield Line("bulk create, checked rows", store, "creates/s", side.figure("rows"), None, BULK[store])
