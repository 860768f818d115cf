"""Bursts of due jobs, claimed, run in the pool and recorded: by one process, by two, and beside a million others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bench.lines import Figure, Goal, Line
from bench.scene import create, open_app
from bench.sides import Bench, Side
from bench.worker import workers
from duetime.app import App
from duetime.engine.store import RunQuery
from duetime.settings import Settings

PEERS = {"sqlite": ("huey", "apscheduler"), "postgres": ("pgqueuer", "procrastinate", "dbos")}
ON_REDIS = ("celery", "dramatiq")
BEST = {"sqlite": ("huey", Goal(4.5, 8)), "postgres": ("pgqueuer", Goal(1, 2))}
GROWTH = {"sqlite": Goal(1.2, 1.1, higher=False), "postgres": Goal(1.5, 1.1, higher=False)}
THREADS = 8


# -- in the process that measures ------------------------------------------------------------------------------------


def measure_burst(
    url: str, jobs: int, processes: int = 1, threads: int = THREADS, task: str = "noop"
) -> dict[str, Any]:
    """Create jobs that are due, then measure from the start of the workers until all are recorded."""
    app = open_app(url)
    try:
        before = completed(app)
        due = app.clock.now()
        create(app, jobs, lambda _: due, task=task)
        with workers(url, processes, threads, due) as started:
            for each in started:
                each.go()
            measured = [each.end() for each in started]
        done = completed(app) - before
        assert before >= COUNTED or done == min(jobs, COUNTED - before), f"{done} of {jobs} ran"
        took = max(each["ended"] for each in measured) - min(each["began"] for each in measured)
        return {"rate": jobs / took, "cost": took / jobs * 1e6, "durability": durability(url)}
    finally:
        app.close()


COUNTED = 10_000
"""Beyond this, the total of a list says only that there are more."""


def completed(app: App) -> int:
    return min(app.store.runs(RunQuery(status="completed", limit=1)).total, COUNTED)


def fill(url: str, count: int) -> dict[str, Any]:
    """Create schedules that are due and run each of them once."""
    measured = measure_burst(url, count)
    return {"rate": measured["rate"]}


def durability(url: str) -> str:
    if url.startswith("postgresql:"):
        import psycopg

        with psycopg.connect(url) as connection:
            shown = [connection.execute(f"show {name}".encode()).fetchone() for name in ("fsync", "synchronous_commit")]
        return "fsync={}, synchronous_commit={}; every run is kept".format(*(row[0] for row in shown if row))
    return "journal_mode=wal, synchronous=full; every run is kept"


# -- the workloads ---------------------------------------------------------------------------------------------------


def burst(bench: Bench, store: str) -> Iterator[Line]:
    """A burst of due no-op jobs."""
    jobs = bench.sizes.jobs
    small = {"jobs": max(200, jobs // 5)}
    sides = [bench.duetime("burst", store, jobs=jobs)]
    sides += bench.peers(PEERS[store], "burst", store, small, jobs=jobs)
    if store == "sqlite":
        sides += bench.peers(ON_REDIS, "burst", None, small, jobs=jobs)
    python_api = (
        bench.duetime("python_api", store, jobs=min(jobs, Settings().max_schedules)) if store == "sqlite" else None
    )
    bench.measure(f"burst on {store}", [*sides, *([python_api] if python_api else [])])
    name, goal = BEST[store]
    if python_api:
        peer = sides[1].figure() if sides[1:] else None
        yield Line("burst, Python API", store, "jobs/s", python_api.figure(), peer, goal if peer else None)
    for side in sides[1:]:
        place = f"{store} / redis" if side.name.startswith(ON_REDIS) else store
        yield Line("burst", place, "jobs/s", sides[0].figure(), side.figure(), _goal_of(side, name, goal))
    if len(sides) == 1:
        yield Line("burst", store, "jobs/s", sides[0].figure())


def _goal_of(side: Side, name: str, goal: Goal) -> Goal | None:
    return goal if side.name.startswith(name) else None


def two_processes(bench: Bench, store: str) -> Iterator[Line]:
    """Two worker processes on one PostgreSQL: no-op jobs, and jobs that wait 20 ms with 16 threads each."""
    if store != "postgres":
        return
    for what, task, jobs, threads, goal in (
        ("no-op", "noop", bench.sizes.jobs, THREADS, Goal(0.95)),
        ("20 ms waits", "wait", bench.sizes.waits, 16, Goal(1.8)),
    ):
        sides = [_processes(bench, store, number, jobs, threads, task) for number in (2, 1)]
        bench.measure(f"two processes, {what}", sides)
        yield Line(f"two processes, {what}", store, "jobs/s", *_figures(sides), goal)


def _processes(bench: Bench, store: str, number: int, jobs: int, threads: int, task: str) -> Side:
    name = "two processes" if number == 2 else "one process"
    return bench.duetime("burst", store, name=name, jobs=jobs, processes=number, threads=threads, task=task)


def growth(bench: Bench, store: str) -> Iterator[Line]:
    """The cost of a run beside many schedules and past runs, against none."""
    many = bench.stores.filled(store)
    title = f"{bench.sizes.filled:,} schedules and runs"
    with bench.stores.fresh(store) as none:
        sides = [
            bench.duetime("burst", store, name=name, url=url, jobs=bench.sizes.jobs)
            for name, url in ((title, many), ("none", none))
        ]
        bench.measure(f"growth on {store}", sides)
    yield Line("growth", store, "µs/run", *_figures(sides, "cost"), GROWTH[store])


def _figures(sides: Sequence[Side], key: str = "rate") -> tuple[Figure, Figure]:
    return sides[0].figure(key), sides[1].figure(key)
