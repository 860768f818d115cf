"""An ordinary owner beside the one who misbehaves: a job and a reminder each second, and how late they were."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from scorecard.serving import Client, Server, percentile

EVERY_SECOND = {"type": "interval", "seconds": 1}


class Seen(NamedTuple):
    """The results of the neighbour's occurrences."""

    ran: int
    p99: float
    """Seconds from due to start."""
    worst: float
    not_run: tuple[str, ...]
    broken: tuple[str, ...]
    """Those of `not_run` that were not just late."""


class Neighbour:
    """An ordinary owner: call `begin`, let time pass, then call `seen`."""

    def __init__(self, server: Server, owner: str = "alice") -> None:
        self.client: Client = server.client(owner)
        self.schedules: list[str] = []

    def begin(self) -> None:
        job = {"kind": "job", "name": "each second", "trigger": EVERY_SECOND, "payload": {"task": "noop"}}
        note = {"message": "drink water", "topic": "reminders"}
        reminder = {"kind": "notification", "name": "reminder", "trigger": EVERY_SECOND, "payload": note}
        self.schedules = [self.client.made("/schedules", each)["id"] for each in (job, reminder)]

    def end(self) -> None:
        for schedule in self.schedules:
            self.client.ask("POST", f"/api/v1/schedules/{schedule}/pause")

    def seen(self) -> Seen:
        runs = [run for schedule in self.schedules for run in self.client.runs(schedule)]
        late = [seconds for run in runs if (seconds := _lateness(run)) is not None]
        broken = tuple(_told(run) for run in runs if run["status"] in ("failed", "lost"))
        not_run = broken + tuple(_told(run) for run in runs if run["status"] in ("missed", "skipped"))
        return Seen(len(late), percentile(late, 0.99), max(late, default=0.0), not_run, broken)


def _lateness(run: dict[str, Any]) -> float | None:
    if run["started"] is None:
        return None
    return (datetime.fromisoformat(run["started"]) - datetime.fromisoformat(run["due"])).total_seconds()


def _told(run: dict[str, Any]) -> str:
    return f"{run['kind']} due {run['due']}: {run['status']} ({run.get('occurrences')}), {run['error']}"
