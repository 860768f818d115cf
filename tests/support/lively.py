"""A store with a day of history and a busy day ahead, as several agents would leave it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from duetime.app import build
from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND, Instant, SystemClock, datetime_of
from duetime.engine.kind import Caller
from duetime.engine.validation import NewSchedule
from duetime.kinds.jobs.registry import Registry
from duetime.settings import Settings
from duetime.testing import Simulation
from tests.support.agents import Served, serving
from tests.support.drafts import every

TASKS = '''
from duetime.kinds.jobs.context import TaskContext
from duetime.kinds.jobs.registry import task

@task
def collect_feeds() -> dict:
    """Reads the feeds and keeps what is new."""
    return {"new": 12, "seen": 240}

@task
def exchange_rates(base: str = "EUR") -> dict:
    """Fetches today's exchange rates."""
    return {"base": base, "USD": 1.09, "GBP": 0.84}

@task
def sync_calendar() -> str:
    """Copies appointments between two calendars."""
    raise ConnectionError("calendar.example: connection refused")

@task
def index_documents(context: TaskContext) -> str:
    """Brings the search index up to date."""
    for done in range(35, 100):
        context.progress(f"{done} of 100 folders")
        if context.cancelled.wait(2):
            break
    return "done"

@task
def rotate_logs(days: int = 14) -> str:
    """Deletes logs that are too old."""
    return f"kept {days} days"
'''
"""The tasks that a server needs to continue with it: the same names as in `_past` below."""

_BRIEFING = (
    "Read my calendar and the overnight mail. Write five lines: what matters today, what can wait, and one thing I "
    "am likely to forget."
)
_REVIEW = "Look back at this week's tasks and propose next week's three priorities."
_BUILD = "Is the main branch green? If it is not, say since when and who might know why."
_CALL = {"message": "The link is in the calendar.", "topic": "my-phone", "title": "Call with Tokyo"}
_RETRIED = {"max_attempts": 2, "backoff": 5 * SECOND, "pause_after": 0}
_FRIDAYS = "FREQ=WEEKLY;BYDAY=FR;BYHOUR=16;BYMINUTE=0;BYSECOND=0"


class Plan(NamedTuple):
    name: str
    when: str
    payload: dict[str, Any]
    kind: str = "job"
    policy: dict[str, Any] = {}  # noqa: RUF012 - read only
    owner: str = "local"
    zone: str | None = None

    def new(self) -> NewSchedule:
        rule = self.when.startswith("FREQ=")
        type_, config = ("rrule", {"rrule": self.when}) if rule else ("cron", {"expression": self.when})
        return NewSchedule(self.kind, self.name, type_, config, self.payload, self.policy, self.zone)


PLANS = (
    Plan("Collect the feeds", "*/10 * * * *", {"task": "collect_feeds"}, owner="ada"),
    Plan("Exchange rates", "*/15 * * * *", {"task": "exchange_rates"}),
    Plan("Sync the family calendar", "*/30 * * * *", {"task": "sync_calendar"}, policy=_RETRIED),
    Plan("Index new documents", "20 * * * *", {"task": "index_documents"}, policy={"timeout": 600 * SECOND}),
    Plan("Rotate logs", "0 3 * * *", {"task": "rotate_logs", "kwargs": {"days": 14}}),
    Plan("Morning briefing", "30 7 * * 1-5", {"prompt": _BRIEFING}, "prompt", {"deliver_to": "briefings"}),
    Plan("Weekly review", _FRIDAYS, {"prompt": _REVIEW}, "prompt"),
    Plan("Watch the build", "*/20 8-19 * * *", {"prompt": _BUILD}, "prompt", owner="ada"),
    Plan("Water the plants", "0 18 * * 1,4", {"message": "The basil first.", "topic": "household"}, "notification"),
    Plan("Stretch", "50 9-17 * * *", {"message": "Two minutes off the screen.", "topic": "my-phone"}, "notification"),
    Plan("Call with Tokyo", "0 9 * * *", _CALL, "notification", zone="Asia/Tokyo"),
)


def _past(held: list[Simulation], *, outage: bool = False, healthy_until: Instant | None = None) -> Registry:
    """Return the tasks as they ran: each takes its time on the settable clock, and some fail; in an outage, nearly
    all. With `healthy_until`, nothing fails but the calendar, and only after that instant."""
    chance = random.Random(7)
    made = Registry()
    often = 0.9 if outage else 0.0
    seldom = 0.04 if healthy_until is None else 0.0
    pace = 1 if healthy_until is None else 0.02  # the simulation runs one after the other, so each makes others late

    def takes(low: float, high: float) -> None:
        clock = held[0].clock
        clock.move_to(Instant(clock.now() + int(pace * chance.uniform(low, high) * SECOND)))

    def collect_feeds() -> dict[str, int]:
        takes(0.4, 4)
        if chance.random() < max(seldom, often):
            raise TimeoutError("feeds.example did not answer within 30 s")
        return {"new": chance.randrange(20), "seen": 240}

    def exchange_rates(base: str = "EUR") -> dict[str, Any]:
        takes(0.1, 0.6)
        if chance.random() < often:
            raise ConnectionError("rates.example: 503 Service Unavailable")
        return {"base": base, "USD": 1.09, "GBP": 0.84}

    def sync_calendar() -> str:
        takes(0.2, 2)
        now = held[0].clock.now()
        ago = SystemClock().now() - now
        if outage:  # it fails at the end, whenever that is, and never so often that it is paused
            broken = ago < 70 * MINUTE or now // HOUR % 2 == 0
        elif healthy_until is not None:
            broken = now > healthy_until
        else:  # it fails in any case once, at whatever time of day this runs
            broken = chance.random() < 0.4 or 5 * HOUR < ago < 6 * HOUR
        if broken:
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


def lively(db: Path, hours: float = 16, *, outage: bool = False, healthy: bool = False) -> None:
    """Fill a store as if a worker had run until a moment ago, except for an hour in the night. If it is healthy, the
    worker ran all the time, every prompt is still to come, and only the calendar fails, since half an hour ago."""
    now = datetime_of(SystemClock().now())
    held: list[Simulation] = []
    until = Instant(SystemClock().now() - 35 * 60 * SECOND) if healthy else None
    past = _past(held, outage=outage, healthy_until=until)
    with Simulation(now - timedelta(hours=hours), url=str(db), registry=past) as simulation:
        held.append(simulation)
        scheduler, store = simulation.duetime.app.scheduler, simulation.duetime.app.store

        def create(*plans: Plan) -> None:
            for plan in plans:
                made = scheduler.create(Caller(plan.owner), plan.new())
                if plan.name == "Weekly review":
                    scheduler.pause(Caller(plan.owner), made.definition.public_id)

        later = [plan for plan in PLANS if healthy and plan.kind == "prompt"]
        create(*(plan for plan in PLANS if plan not in later))
        simulation.advance(timedelta(hours=hours - 3))
        if not healthy:
            simulation.clock.move_to(Instant(simulation.clock.now() + 55 * 60 * SECOND))
        simulation.advance(now - timedelta(seconds=20))
        create(*later)
        assert simulation.worker.id is not None
        store.retire(simulation.worker.id)


@contextmanager
def failing_server(folder: Path, schedules: int) -> Iterator[Served]:
    """Serve a store with a day in which much failed, and with this many daily schedules besides."""
    lively(folder / "my.db", hours=20, outage=True)
    app = build(Settings(db=str(folder / "my.db")), tasks=False)
    now = SystemClock().now()
    app.store.create([every(DAY, now, owner="local", name=f"Nightly {number:02}") for number in range(schedules)])
    app.close()
    (folder / "household.py").write_text(TASKS)
    with serving(folder, "--tasks", "household.py") as server:
        yield server
