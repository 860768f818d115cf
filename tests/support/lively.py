"""A store with a day of history and a busy one ahead, as a household of agents would leave it."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

from duetime.api import LOCAL
from duetime.core.clock import SECOND, Instant, SystemClock, datetime_of
from duetime.core.drafting import NewSchedule
from duetime.core.kind import Caller
from duetime.core.result import Ok
from duetime.kinds.registry import Registry
from duetime.simulation import Simulation

TASKS = """
import threading
from duetime.kinds.context import TaskContext
from duetime.kinds.registry import task

@task
def collect_feeds() -> dict:
    "Reads the feeds and keeps what is new."
    return {"new": 12, "seen": 240}

@task
def exchange_rates(base: str = "EUR") -> dict:
    "Fetches today's exchange rates."
    return {"base": base, "USD": 1.09, "GBP": 0.84}

@task
def sync_calendar() -> str:
    "Copies appointments between two calendars."
    raise ConnectionError("calendar.example: connection refused")

@task
def index_documents(context: TaskContext) -> str:
    "Brings the search index up to date."
    for done in range(0, 100, 5):
        context.progress(f"{done} of 100 folders")
        if context.cancelled.wait(2):
            break
    return "done"

@task
def rotate_logs(days: int = 14) -> str:
    "Deletes logs that are too old."
    return f"kept {days} days"
"""

_PLANS: tuple[tuple[str, str, str, tuple[str, dict[str, Any]], dict[str, Any], dict[str, Any]], ...] = (
    ("ada", "job", "Collect the feeds", ("interval", {"minutes": 10}), {"task": "collect_feeds"}, {}),
    ("local", "job", "Exchange rates", ("cron", {"expression": "*/15 * * * *"}), {"task": "exchange_rates"}, {}),
    ("local", "job", "Sync the family calendar", ("cron", {"expression": "*/30 * * * *"}), {"task": "sync_calendar"}, {"max_attempts": 2, "backoff": 5 * SECOND, "pause_after": 0}),
    ("local", "job", "Index new documents", ("cron", {"expression": "20 * * * *"}), {"task": "index_documents"}, {"timeout": 600 * SECOND}),
    ("local", "job", "Rotate logs", ("cron", {"expression": "0 3 * * *"}), {"task": "rotate_logs", "kwargs": {"days": 14}}, {}),
    ("local", "prompt", "Morning briefing", ("cron", {"expression": "30 7 * * 1-5"}), {"prompt": "Read my calendar and the overnight mail. Write five lines: what matters today, what can wait, and one thing I am likely to forget."}, {"deliver_to": "briefings"}),
    ("local", "prompt", "Weekly review", ("rrule", {"rrule": "FREQ=WEEKLY;BYDAY=FR;BYHOUR=16;BYMINUTE=0;BYSECOND=0"}), {"prompt": "Look back at this week's tasks and propose next week's three priorities."}, {}),
    ("ada", "prompt", "Watch the build", ("cron", {"expression": "*/20 8-19 * * *"}), {"prompt": "Is the main branch green? If it is not, say since when and who might know why."}, {}),
    ("local", "notification", "Water the plants", ("cron", {"expression": "0 18 * * 1,4"}), {"message": "The basil first.", "topic": "household"}, {}),
    ("local", "notification", "Stand up and stretch", ("cron", {"expression": "50 9-17 * * *"}), {"message": "Two minutes, away from the screen.", "topic": "my-phone", "priority": 2}, {}),
    ("local", "notification", "Call with Tokyo", ("cron", {"expression": "0 9 * * *"}), {"message": "The link is in the calendar.", "topic": "my-phone", "title": "Call with Tokyo"}, {}),
)  # fmt: skip


def registry(simulation: list[Simulation]) -> Registry:
    """The same names, carried out on the settable clock: each takes its time."""
    chance = random.Random(7)
    made = Registry()

    def takes(low: float, high: float) -> None:
        clock = simulation[0].clock
        clock.move_to(Instant(clock.now() + int(chance.uniform(low, high) * SECOND)))

    def collect_feeds() -> dict[str, int]:
        takes(0.4, 4)
        if chance.random() < 0.04:
            raise TimeoutError("feeds.example did not answer within 30 s")
        return {"new": chance.randrange(20), "seen": 240}

    def exchange_rates(base: str = "EUR") -> dict[str, Any]:
        takes(0.1, 0.6)
        return {"base": base, "USD": 1.09, "GBP": 0.84}

    def sync_calendar() -> str:
        takes(0.2, 2)
        if chance.random() < 0.4:
            raise ConnectionError("calendar.example: connection refused")
        return "14 appointments"

    def index_documents() -> str:
        takes(8, 90)
        return "indexed"

    def rotate_logs(days: int = 14) -> str:
        takes(1, 2)
        return f"kept {days} days"

    for function in (collect_feeds, exchange_rates, sync_calendar, index_documents, rotate_logs):
        made.task(function)
    return made


def lively(db: Path, hours: float = 26) -> None:
    """As if a worker had run until a moment ago."""
    now = datetime_of(SystemClock().now())
    held: list[Simulation] = []
    with Simulation(now - timedelta(hours=hours), url=str(db), registry=registry(held)) as simulation:
        held.append(simulation)
        for owner, kind, name, (type_, config), payload, policy in _PLANS:
            zone = "Asia/Tokyo" if "Tokyo" in name else None
            new = NewSchedule(kind, name, type_, config, payload, policy, zone)
            caller = LOCAL if owner == "local" else Caller(owner)
            assert isinstance(simulation.duetime.app.scheduler.create(caller, new), Ok)
        simulation.advance(timedelta(hours=hours - 3))
        simulation.clock.move_to(Instant(simulation.clock.now() + 55 * 60 * SECOND))  # nothing ran meanwhile
        simulation.advance(now - timedelta(minutes=2))
        paused = simulation.duetime.app.scheduler.search(LOCAL, _named("Weekly review"))
        assert isinstance(paused, Ok)
        simulation.duetime.app.scheduler.pause(LOCAL, paused.value.items[0].definition.public_id)
        simulation.duetime.app.store.retire(simulation.worker.id)


def _named(text: str) -> Any:
    from duetime.core.store import ScheduleQuery

    return ScheduleQuery(text=text)
