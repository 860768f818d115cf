"""Conversion of local records and QStash's responses to notifications."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.policy.rows import Draft
from duetime.engine.store_interfaces import Remote, RemoteKind, RemoteState
from duetime.engine.triggers import CronTrigger, Trigger, trigger_from_json
from duetime.kinds.notifications.service import Message, Recurring

if TYPE_CHECKING:
    from qstash.schedule import Schedule

_MILLISECOND = 1000
_LATEST = 253_402_214_400_000
"""The last day of the year 9999 in milliseconds: later times cannot be represented."""


def record_of(draft: Draft) -> Remote:
    """Return the record that is stored before QStash is called."""
    definition, first = draft
    once = trigger_from_json(definition.trigger).type == "once"
    return Remote(
        id=definition.public_id,
        owner=definition.owner,
        kind=RemoteKind.MESSAGE if once else RemoteKind.SCHEDULE,
        topic=definition.subject,
        trigger=definition.trigger,
        payload=definition.payload,
        at=first if once else None,
        remote=None,
        state=RemoteState.ASKED,
        key=definition.key,
        fingerprint=definition.fingerprint,
        created=definition.created,
        updated=definition.created,
    )


def fields_of(remote: Remote) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(remote.payload)
    return fields


def cron_of(remote: Remote) -> str:
    """Return the cron expression with its zone, as QStash reads it."""
    trigger = trigger_from_json(remote.trigger)
    assert isinstance(trigger, CronTrigger)
    return f"CRON_TZ={trigger.timezone} {trigger.expression}"


def message(remote: Remote) -> Message:
    return Message(remote.id, remote.at or remote.created, remote.topic, fields_of(remote)["message"])


def recurring(remote: Remote, now: Instant, there: Schedule | None = None) -> Recurring:
    """Return the notification. QStash's own data is preferred if there is any, because it knows when it fires."""
    trigger = _trigger(remote.trigger)
    fields = fields_of(remote)
    paused = remote.state == RemoteState.PAUSED if there is None else there.paused is True
    told = None if there is None else _instant(there.next_schedule_time)
    return Recurring(
        schedule_id=remote.id,
        cron=trigger.expression if isinstance(trigger, CronTrigger) else None,
        timezone="UTC" if trigger is None else trigger.timezone,
        topic=remote.topic,
        label=fields.get("label"),
        paused=paused,
        next=None if paused else told or following(remote.trigger, now),
        last=None if there is None else _instant(there.last_schedule_time),
        body=fields["message"],
    )


def following(trigger: str, now: Instant) -> Instant | None:
    read = _trigger(trigger)
    return None if read is None else read.next_after(now)


def _trigger(stored: str) -> Trigger | None:
    """Return the trigger, or None if its zone was removed, for example: it must still be shown and deleted."""
    try:
        return trigger_from_json(stored)
    except DuetimeError:
        return None


def _instant(milliseconds: object) -> Instant | None:
    if type(milliseconds) is not int or not 0 < milliseconds < _LATEST:
        return None
    return Instant(milliseconds * _MILLISECOND)
