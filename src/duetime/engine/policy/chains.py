"""Chains: the event that the end of a run is for the schedules that follow, and the circles that are refused."""

from __future__ import annotations

import json
from typing import Any, Protocol

from duetime.engine.clock import Instant
from duetime.engine.errors import Conflict
from duetime.engine.model import ENDED, Definition, EventRow, Run, ScheduleId, event_of
from duetime.engine.policy.follow_ups import parse_result, result_text


class ChainReader(Protocol):
    """Lookups in the current transaction."""

    def trigger_of(self, schedule: ScheduleId) -> str | None: ...

    def depth_of_event(self, event: int) -> int:
        """Return the depth of an event; 0 if it is not stored any more."""

    def lock_owner(self, owner: str) -> None:
        """Serialize the transactions of one owner that take this lock."""


def end_event(definition: Definition, run: Run, now: Instant, reader: ChainReader) -> EventRow:
    """Return the event of a run's end. A run that is retried manually ends again under another fence, which is another
    event."""
    data: dict[str, Any] = {
        "schedule": definition.public_id,
        "name": run.name,
        "run": run.id,
        "status": run.status,
        "due": run.due,
        "result": parse_result(run.result),
        "text": result_text(run.result),
        "error": run.error,
    }
    cause = event_of(run.cause)
    depth = definition.depth if cause is None else max(definition.depth, reader.depth_of_event(cause))
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return EventRow(0, definition.owner, f"{ENDED}{definition.id}", f"{run.id}.{run.fence}", now, depth, text)


def check_circle(definition: Definition, trigger: str, reader: ChainReader) -> None:
    """Refuse a trigger with which a schedule would follow itself. Until the change is written, no other schedule of the
    owner can become part of a chain."""
    place = followed_by(trigger)
    if place is not None:
        reader.lock_owner(definition.owner)
    seen = set()
    while place is not None and place not in seen:
        if place == definition.id:
            text = "it would follow itself, directly or by way of others; let it follow a schedule that does not"
            raise Conflict(text, code="not_possible")
        seen.add(place)
        place = followed_by(reader.trigger_of(place) or "")


def followed_by(trigger: str) -> ScheduleId | None:
    """Return the schedule that a stored trigger follows; None if it follows none."""
    _, separator, rest = trigger.partition(f'"event":"{ENDED}')
    return ScheduleId(int(rest.partition('"')[0])) if separator else None
