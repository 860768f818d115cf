"""APScheduler 3 with its SQLAlchemy job store, which keeps no history."""

from __future__ import annotations

import itertools
import pickle
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.job import Job
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.util import datetime_to_utc_timestamp
from sqlalchemy import event, text

from bench.peers.cron import BEGIN, measure_steps
from bench.peers.program import main, percentiles, wait_for

_done = itertools.count()
_late: list[float] = []


def noop() -> None:
    """Count this run. Jobs are stored with a reference to this function, so it is public."""
    next(_done)


def note(due: float) -> None:
    """Record how late this run starts."""
    _late.append(time.time() - due)


def burst(url: str, jobs: int, threads: int) -> dict[str, Any]:
    """Measure one-off jobs that are due when the scheduler starts."""
    scheduler, store = _open(url, threads)
    past = datetime.now(UTC) - timedelta(seconds=1)
    _fill(scheduler, store, [(past, noop, ())] * jobs)
    began = time.perf_counter()
    scheduler.start()
    wait_for(lambda: _reached(_done), jobs)
    took = wait_for(lambda: jobs - _left(store), jobs) - began
    durability = _durability(store)
    scheduler.shutdown()
    return {"rate": jobs / took, "durability": durability}


def lateness(url: str, rate: int, seconds: int, others: int, threads: int) -> dict[str, Any]:
    """Measure from the instant at which a job is due to the first line of its function."""
    scheduler, store = _open(url, threads)
    count = rate * seconds
    later = datetime.now(UTC) + timedelta(hours=2)
    _fill(scheduler, store, [(later + timedelta(seconds=number), noop, ()) for number in range(others)])
    begin = datetime.now(UTC) + timedelta(seconds=2)
    dues = [begin + timedelta(seconds=number / rate) for number in range(count)]
    _fill(scheduler, store, [(due, note, (due.timestamp(),)) for due in dues])
    scheduler.start()
    wait_for(lambda: len(_late), count, 0.1)
    durability = _durability(store)
    scheduler.shutdown()
    return {**percentiles(_late), "durability": durability}


def cron(steps: int) -> dict[str, Any]:
    return measure_steps(_stepper, steps)


def _stepper(expression: str) -> Iterator[float]:
    trigger = CronTrigger.from_crontab(expression, BEGIN.tzinfo)
    instant = BEGIN
    while True:
        instant = trigger.get_next_fire_time(instant, instant)
        yield instant.timestamp()


def _open(url: str, threads: int) -> tuple[Any, Any]:
    is_postgres = url.startswith("postgresql:")
    store = SQLAlchemyJobStore(
        url.replace("postgresql:", "postgresql+psycopg:", 1) if is_postgres else f"sqlite:///{url}"
    )
    if not is_postgres:
        event.listen(store.engine, "connect", _set_pragmas)
    executors = {"default": ThreadPoolExecutor(threads)}
    defaults = {"misfire_grace_time": None, "coalesce": False, "max_instances": 1_000_000}
    scheduler = BackgroundScheduler(
        jobstores={"default": store}, executors=executors, job_defaults=defaults, timezone=UTC
    )
    return scheduler, store


def _set_pragmas(connection: Any, _record: object) -> None:
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma synchronous=full")


def _fill(scheduler: Any, store: Any, jobs: list[tuple[datetime, Any, tuple[Any, ...]]]) -> None:
    """Write jobs as `add_job` of the store does, but in one transaction."""
    store.jobs_t.create(store.engine, True)
    rows = [_row(scheduler, due, function, args) for due, function, args in jobs]
    if rows:
        with store.engine.begin() as connection:
            connection.execute(store.jobs_t.insert(), rows)


def _row(scheduler: Any, due: datetime, function: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    job = Job(
        scheduler, trigger=DateTrigger(due, UTC), executor="default", func=function, args=args, kwargs={}, name=None,
        misfire_grace_time=None, coalesce=False, max_instances=1_000_000, next_run_time=due,
    )  # fmt: skip
    state = pickle.dumps(job.__getstate__(), pickle.HIGHEST_PROTOCOL)
    return {"id": job.id, "next_run_time": datetime_to_utc_timestamp(due), "job_state": state}


def _left(store: Any) -> int:
    with store.engine.begin() as connection:
        return int(connection.execute(text("select count(*) from apscheduler_jobs")).scalar())


def _reached(counter: itertools.count[int]) -> int:
    """Return how often the counter was moved, without moving it: adding to a number is not safe among threads."""
    return int(repr(counter)[6:-1])


def _durability(store: Any) -> str:
    with store.engine.begin() as connection:
        if store.engine.dialect.name == "sqlite":
            journal, synchronous = (
                connection.execute(text(f"pragma {name}")).scalar() for name in ("journal_mode", "synchronous")
            )
            return f"journal_mode={journal}, synchronous={synchronous}; a job is deleted, no history"
        fsync, commit = (connection.execute(text(f"show {name}")).scalar() for name in ("fsync", "synchronous_commit"))
        return f"fsync={fsync}, synchronous_commit={commit}; a job is deleted, no history"


if __name__ == "__main__":
    from bench.peers import apscheduler  # noqa: PLW0406 - jobs name their function's module, which is not `__main__`

    main({"burst": apscheduler.burst, "lateness": apscheduler.lateness, "cron": apscheduler.cron})
