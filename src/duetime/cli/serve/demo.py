"""The schedules of the demo: each shows one feature, and most fire within seconds."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from duetime.app import App
from duetime.engine.clock import SECOND
from duetime.engine.errors import DuetimeError, KeyReused
from duetime.engine.validation import NewSchedule
from duetime.service.errors import refuse
from duetime.service.services import OPERATOR
from duetime.service.vocabulary import Schedule, ScheduleState
from duetime.settings import Settings

DB = ".duetime/demo.db"
LOG = ".duetime/demo.log"
MODULE = "duetime.cli.serve.demo_tasks"


def _task(task: str, /, **arguments: Any) -> dict[str, Any]:
    return {"task": task, "kwargs": arguments}


def _sample(
    name: str,
    shows: str,
    payload: dict[str, Any],
    trigger: tuple[str, dict[str, Any]],
    kind: str = "job",
    **policy: Any,
) -> tuple[str, NewSchedule]:
    """Return what a schedule of the demo shows, and the schedule."""
    return shows, NewSchedule(kind, name, *trigger, payload, policy, idempotency_key=f"demo:{name}")


SAMPLES = (
    _sample("welcome", "a one-off", _task("demo_greet", name="Duetime"), ("once", {"run_at": "in 2 seconds"})),
    _sample("heartbeat", "an interval", _task("demo_beat"), ("interval", {"seconds": 5})),
    _sample("tens", "async def", _task("demo_wait"), ("interval", {"seconds": 10})),
    _sample(
        "primes",
        "a task in its own process",
        _task("demo_primes", below=100_000),
        ("interval", {"seconds": 15, "start": "in 3 seconds"}),
        timeout=10 * SECOND,
    ),
    _sample(
        "flaky",
        "a failure, and its retry",
        _task("demo_flaky"),
        ("interval", {"seconds": 20, "start": "in 4 seconds"}),
        max_attempts=3,
        backoff=2 * SECOND,
    ),
    _sample("unlucky", "a permanent failure", _task("demo_unlucky"), ("once", {"run_at": "in 5 seconds"})),
    _sample(
        "drink-water",
        "a notification",
        {"message": "A glass of water, now.", "topic": "demo", "title": "Drink water"},
        ("interval", {"seconds": 30, "start": "in 8 seconds"}),
        kind="notification",
    ),
    _sample(
        "briefing",
        "a prompt for an agent",
        {"prompt": "Read my calendar and write five lines: what matters today, and what I am likely to forget."},
        ("cron", {"expression": "30 7 * * 1-5"}),
        kind="prompt",
    ),
)


def demo_settings(settings: Settings, db: str | None) -> Settings:
    """Return settings with the sample tasks and, unless the command line names a store, a separate one."""
    if db is None:
        Path(DB).parent.mkdir(exist_ok=True)
    return replace(settings, db=db or DB, tasks=(*settings.tasks, MODULE))


def existing_samples(app: App) -> list[Schedule]:
    """Return the samples that a demo created in this store."""
    samples = []
    for _, new in SAMPLES:
        with suppress(DuetimeError):  # the sample of another version
            samples.append(app.scheduler.find_created(OPERATOR, new))
    return [each for each in samples if each is not None]


def create_samples(app: App) -> list[Schedule]:
    """Create the samples, or find them: their idempotency keys keep a second demo from creating them again."""
    try:
        schedules = app.scheduler.create_many(OPERATOR, [new for _, new in SAMPLES])
    except KeyReused:
        reason = "this file contains the samples of another version; delete it, or choose another --db"
        raise refuse(KeyReused.code, reason) from None
    for schedule in schedules:
        if schedule.progress.state == ScheduleState.ENDED:  # the one-off of an earlier demo
            with suppress(DuetimeError):
                app.scheduler.run_now(OPERATOR, schedule.definition.public_id)
    return list(schedules)
