"""The schedules of `duetime worker --demo`: each shows one thing, and all fire within seconds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from duetime.api import LOCAL, Refused, taken
from duetime.compose import App
from duetime.core.clock import SECOND
from duetime.core.drafting import NewSchedule
from duetime.core.model import Schedule, ScheduleState
from duetime.core.result import Err
from duetime.settings import Settings

DB = ".duetime/demo.db"
LOG = ".duetime/demo.log"
MODULE = "duetime.cli.samples"


class Sample(NamedTuple):
    name: str
    shows: str
    task: str
    kwargs: dict[str, Any]
    trigger: tuple[str, dict[str, Any]]
    policy: dict[str, Any]


SAMPLES = (
    Sample("welcome", "a one-off", "demo_greet", {"name": "Duetime"}, ("once", {"run_at": "in 2 seconds"}), {}),
    Sample("heartbeat", "an interval", "demo_beat", {}, ("interval", {"seconds": 5}), {}),
    Sample("tens", "cron with seconds, async def", "demo_wait", {}, ("cron", {"expression": "*/10 * * * * *"}), {}),
    Sample(
        "primes",
        "a task in its own process",
        "demo_primes",
        {"below": 100_000},
        ("interval", {"seconds": 15, "start": "in 3 seconds"}),
        {"timeout": 10 * SECOND},
    ),
    Sample(
        "flaky",
        "a failure, and its retry",
        "demo_flaky",
        {},
        ("interval", {"seconds": 20, "start": "in 4 seconds"}),
        {"max_attempts": 3, "backoff": 2 * SECOND},
    ),
)


def demo_settings(settings: Settings, db: str | None) -> Settings:
    """A store of its own in a folder of its own, unless one is named on the command line; and the sample tasks."""
    if db is None:
        Path(DB).parent.mkdir(exist_ok=True)
    return replace(settings, db=db or DB, tasks=(*settings.tasks, MODULE))


def plant(room: App) -> list[Schedule]:
    """Makes the samples, or finds them: their keys keep a second demo from making them again."""
    news = [
        NewSchedule(
            "job", each.name, *each.trigger, {"task": each.task, "kwargs": each.kwargs}, each.policy,
            idempotency_key=f"demo:{each.name}",
        )
        for each in SAMPLES
    ]  # fmt: skip
    made = room.scheduler.create_many(LOCAL, news)
    if isinstance(made, Err) and made.code == "key_reused":
        raise Refused(
            Err(made.code, "this file holds the samples of another version; delete it, or choose another --db")
        )
    schedules = taken(made)
    for schedule in schedules:
        if schedule.progress.state == ScheduleState.ENDED:  # the one-off of an earlier demo
            room.scheduler.run_now(LOCAL, schedule.definition.public_id)
    return schedules
