"""What a stored schedule and its run say about a notification."""

from __future__ import annotations

import json
from typing import Any

from duetime.core.errors import DuetimeError
from duetime.core.model import Run, RunStatus, Schedule, ScheduleState
from duetime.core.notifications import PATIENCE, Message, Recurring, Sent
from duetime.core.triggers import CronTrigger, OnceTrigger, Trigger, trigger_from_json

CUT = "The message was longer than its receiver takes: the end was cut off."


def is_decided(run: Run) -> bool:
    """A pending run with an error has failed once and waits for its next attempt."""
    if run.status == RunStatus.PENDING:
        return run.error is not None
    return run.status not in (RunStatus.RUNNING, RunStatus.QUEUED, RunStatus.WAITING)


def sent(message_id: str, topic: str, run: Run | None) -> Sent:
    if run is None:
        reason = f"it has not gone out within {PATIENCE:g} s; it stays in line until a worker takes it"
        return Sent(message_id, topic, None, reason, retried=True)
    if run.status == RunStatus.COMPLETED:
        arrived = _stored(run.result)
        return Sent(message_id, topic, arrived.get("channel", ""), note=CUT if arrived.get("cut") else "")
    if not is_decided(run):
        reason = f"its receiver has not answered within {PATIENCE:g} s; it may still arrive"
        return Sent(message_id, topic, None, reason, retried=True)
    return Sent(message_id, topic, None, run.error or run.status, retried=run.status == RunStatus.PENDING)


def is_once(schedule: Schedule) -> bool:
    return _stored(schedule.definition.trigger).get("type") == "once"


def message(schedule: Schedule) -> Message:
    definition, progress = schedule
    trigger = _trigger(schedule)
    at = trigger.at if isinstance(trigger, OnceTrigger) else progress.next or definition.created
    return Message(definition.public_id, at, definition.subject, _stored(definition.payload).get("message", ""))


def recurring(schedule: Schedule) -> Recurring:
    definition, progress = schedule
    trigger = _trigger(schedule)
    payload = _stored(definition.payload)
    paused = progress.state == ScheduleState.PAUSED
    return Recurring(
        schedule_id=definition.public_id,
        cron=trigger.expression if isinstance(trigger, CronTrigger) else None,
        timezone="UTC" if trigger is None else trigger.timezone,
        topic=definition.subject,
        label=payload.get("label"),
        paused=paused,
        next=None if paused else progress.next,
        last=progress.last_run,
        body=payload.get("message", ""),
    )


def _trigger(schedule: Schedule) -> Trigger | None:
    """None where it cannot be read any more: the schedule is broken, and must still be shown and deleted."""
    try:
        return trigger_from_json(schedule.definition.trigger)
    except (DuetimeError, ValueError, KeyError, TypeError):
        return None


def _stored(text: str | None) -> dict[str, Any]:
    """An object; empty where there is none, as in what is left of a deleted schedule."""
    try:
        value = json.loads(text or "null")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {}
