"""An empty store, a registry with a no-op, and bulk creation, for every measurement."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from duetime.app import App, build
from duetime.engine.clock import DAY, HOUR, Instant
from duetime.engine.model import Definition, ScheduleId
from duetime.engine.policy.rows import Draft
from duetime.engine.triggers import build_trigger, trigger_to_json
from duetime.kinds.jobs.registry import Registry
from duetime.settings import Settings

CHUNK = 5000
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Scene:
    url: Callable[[int], str]

    def open(self, registry: Registry | None = None) -> App:
        settings = Settings(db=self.url(next(_numbers)), timezone="UTC", threads=8)
        return build(settings, registry=registry or noop_registry())


def noop_registry() -> Registry:
    registry = Registry()

    @registry.task
    def noop() -> None:
        """Do nothing."""

    return registry


def drafts(app: App, count: int, first: Callable[[int], Instant], owners: int = 1) -> list[Draft]:
    """Return drafts of hourly jobs: a recurring job includes the cost of computing its next instant."""
    now = app.clock.now()
    trigger = trigger_to_json(build_trigger("cron", {"expression": "0 * * * *"}, zone="UTC", now=now))
    payload = '{"task":"noop","args":[],"kwargs":{}}'
    return [
        Draft(
            Definition(
                ScheduleId(0), f"job_{{id}}_{number}", "job", _owner(number, owners), "bench", "noop", trigger, payload,
                f'{{"grace":{365 * DAY}}}', 0, 1, f"~{next(_numbers):012}", "", now, now,
            ),
            first(number),
        )
        for number in range(count)
    ]  # fmt: skip


def _owner(number: int, owners: int) -> str:
    return "local" if owners == 1 else f"owner {number % owners}"


def create(app: App, count: int, first: Callable[[int], Instant], owners: int = 1) -> None:
    for begin in range(0, count, CHUNK):
        made = app.store.create(drafts(app, min(CHUNK, count - begin), first, owners))
        assert made.is_ok


def later(app: App) -> Callable[[int], Instant]:
    """Return a function that spreads instants over the days to come, so that none is due during a measurement."""
    now = app.clock.now()
    return lambda number: Instant(now + 2 * HOUR + (number * 7_919 % 1_000_003) * 1_000_000)
