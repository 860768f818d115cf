"""An empty store, a registry with small tasks, and bulk creation, for every measurement."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from duetime.app import App, build
from duetime.engine.clock import DAY, HOUR, Instant, datetime_of
from duetime.engine.model import Definition, ScheduleId
from duetime.engine.policy.rows import Draft
from duetime.engine.triggers import build_trigger, trigger_to_json
from duetime.kinds.jobs.context import TaskContext
from duetime.kinds.jobs.registry import Registry
from duetime.settings import Settings

CHUNK = 5000
WAIT = 0.02
_numbers = itertools.count()


def open_app(url: str, registry: Registry | None = None, threads: int = 8) -> App:
    settings = bench_settings(url, threads)
    return build(settings, registry=registry or noop_registry())


def bench_settings(url: str, threads: int = 8) -> Settings:
    return Settings(db=url, timezone="UTC", threads=threads, max_schedules=10_000_000)


def noop_registry() -> Registry:
    registry = Registry()

    @registry.task
    def noop() -> None:
        """Do nothing."""

    return registry


@dataclass(frozen=True, slots=True)
class Tasks:
    """A registry with a no-op, a task that waits, and one that records how late it starts, in seconds."""

    late: list[float] = field(default_factory=list)

    def registry(self) -> Registry:
        registry = noop_registry()

        @registry.task
        def wait() -> None:
            """Wait as if for an answer."""
            time.sleep(WAIT)

        @registry.task
        def note(context: TaskContext) -> None:
            """Record how late this run starts."""
            self.late.append(time.time() - context.due.timestamp())

        return registry


def drafts(app: App, count: int, first: Callable[[int], Instant], owners: int = 1, task: str = "noop") -> list[Draft]:
    """Return drafts of daily jobs: a recurring job includes the cost of computing its next instant.

    That lies half a day after now, so no job becomes due a second time during a measurement.
    """
    now = app.clock.now()
    far = datetime_of(Instant(now + 12 * HOUR))
    cron = {"expression": f"{far.minute} {far.hour} * * *"}
    trigger = trigger_to_json(build_trigger("cron", cron, zone="UTC", now=now))
    payload = f'{{"task":"{task}","args":[],"kwargs":{{}}}}'
    return [
        Draft(
            Definition(
                ScheduleId(0), f"job_{{id}}_{number}", "job", _owner(number, owners), "bench", task, trigger, payload,
                f'{{"grace":{365 * DAY}}}', 0, 1, f"~{next(_numbers):012}-{now}", "", now, now,
            ),
            first(number),
        )
        for number in range(count)
    ]  # fmt: skip


def _owner(number: int, owners: int) -> str:
    return "local" if owners == 1 else f"owner {number % owners}"


def create(app: App, count: int, first: Callable[[int], Instant], owners: int = 1, task: str = "noop") -> None:
    for begin in range(0, count, CHUNK):
        part = drafts(app, min(CHUNK, count - begin), _from(begin, first), owners, task)
        app.store.create(part)


def _from(begin: int, first: Callable[[int], Instant]) -> Callable[[int], Instant]:
    return lambda number: first(begin + number)


def later(app: App) -> Callable[[int], Instant]:
    """Return a function that spreads instants over the days to come, so that none is due during a measurement."""
    now = app.clock.now()
    return lambda number: Instant(now + 2 * HOUR + (number * 7_919 % 1_000_003) * 1_000_000)
