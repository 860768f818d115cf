"""Notifications through the real engine and a real file, for tests that check what arrived and what was recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from duetime.app import App, build
from duetime.engine.clock import SECOND, Instant, datetime_of
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import Run
from duetime.engine.store import RunQuery
from duetime.engine.validation import NewSchedule
from duetime.settings import ChannelSettings, NotificationSettings, Settings
from tests.support.workers import eventually

CALLER = Caller(LOCAL)
SOON: dict[str, Any] = {"backoff": 50_000, "backoff_limit": 200_000, "max_attempts": 20}
"""A policy that tries again after a moment."""


@contextmanager
def delivering(
    folder: Path,
    server: str = "",
    channels: Mapping[str, ChannelSettings] | None = None,
    *,
    token: str = "",
    prefix: str = "",
    threads: int = 16,
    allowed_hosts: tuple[str, ...] = (),
) -> Iterator[App]:
    """Open a store and start a worker in this process."""
    settings = Settings(
        db=str(folder / "due.db"),
        timezone="UTC",
        threads=threads,
        max_schedules=1_000_000,
        notifications=NotificationSettings(server=server, token=token, prefix=prefix),
        channels=channels or {},
        allowed_hosts=allowed_hosts,
    )
    app = build(settings, tasks=False)
    engine = app.engine()
    engine.start()
    try:
        yield app
        assert engine.failure is None
    finally:
        engine.stop(5)
        app.close()


def notify(
    app: App,
    topics: Sequence[str],
    policy: Mapping[str, Any] | None = None,
    dues: Sequence[Instant] | None = None,
    **fields: Any,
) -> list[str]:
    """Create one-off notifications, due at once by default, and return their ids."""
    at = dues or [app.clock.now()] * len(topics)
    news = [
        NewSchedule(
            "notification",
            "a message",
            "once",
            {"run_at": "now" if dues is None else datetime_of(due).isoformat()},
            {"message": f"number {number}", "topic": topic, **fields},
            policy or {},
        )
        for number, (topic, due) in enumerate(zip(topics, at, strict=True))
    ]
    made = app.scheduler.create_many(CALLER, news)
    return [schedule.definition.public_id for schedule in made]


def runs(app: App) -> list[Run]:
    found: list[Run] = []
    cursor = None
    while True:
        page = app.store.runs(RunQuery(limit=1000, cursor=cursor))
        found += page.items
        if (cursor := page.cursor) is None:
            return found


def settled(app: App, count: int, seconds: float = 20.0) -> list[Run]:
    """Return the runs, once this many have ended and nothing is left to do."""

    def done() -> bool:
        health = app.store.health(app.clock.now())
        return health.due == 0 and health.running == 0 and app.store.runs(RunQuery(limit=1)).total >= count

    eventually(done, seconds, f"{count} runs ended")
    return runs(app)


def completed(app: App) -> list[Run]:
    return [run for run in runs(app) if run.status == "completed"]


def result_of(run: Run) -> dict[str, Any]:
    assert run.status == "completed", run
    said = json.loads(run.result or "")
    assert isinstance(said, dict)
    return said


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def lateness(run: Run) -> float:
    """Return the seconds from the due instant of a run until its delivery was known."""
    assert run.finished is not None
    return (run.finished - run.due) / SECOND
