"""Local records of the notifications that QStash keeps."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duetime.engine.clock import MINUTE, Instant
from duetime.engine.model import Definition, Progress, Schedule, ScheduleId, ScheduleState
from duetime.engine.policy.rows import Draft
from duetime.engine.store_interfaces import Remote, RemoteKind, RemoteState
from duetime.engine.triggers import CronTrigger, OnceTrigger, trigger_from_json, trigger_to_json
from duetime.engine.triggers.build import readable
from duetime.kinds.notifications import local
from duetime.kinds.notifications.qstash import PLACE
from duetime.kinds.notifications.service import KIND, Notification, name_of

if TYPE_CHECKING:
    from qstash.schedule import Schedule as QStashSchedule

WINDOW = 10 * MINUTE
"""How long QStash remembers a deduplication id: a request that is repeated later is a new one."""
CONFIRMED = frozenset({RemoteState.THERE, RemoteState.PAUSED})
_NO_NUMBER = ScheduleId(0)
_LATEST = 253_402_214_400_000
"""The last day of the year 9999 in milliseconds: later times cannot be represented."""


def record_of(draft: Draft, fingerprint: str) -> Remote:
    """Return the record that is stored before QStash is called. The fingerprint identifies a repeated request."""
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
        fingerprint=fingerprint,
        created=definition.created,
        updated=definition.created,
    )


def schedule(remote: Remote, now: Instant, there: QStashSchedule | None = None) -> Schedule:
    """Return the record in the form of a row of this store, without a number and an entry of the due queue. QStash's
    own data is preferred if there is any, because QStash knows when it fires."""
    paused = remote.state == RemoteState.PAUSED if there is None else there.paused is True
    trigger, next = remote.trigger, None if there is None else _instant(there.next_schedule_time)
    if remote.kind == RemoteKind.MESSAGE:
        next, once = remote.at or remote.created, readable(trigger)
        if isinstance(once, OnceTrigger) and once.at != next:  # the request was repeated later
            trigger = trigger_to_json(replace(once, at=next))
    definition = Definition(
        id=_NO_NUMBER, public_id=remote.id, kind=KIND, owner=remote.owner, name=name_of(fields_of(remote)),
        subject=remote.topic, trigger=trigger, payload=remote.payload, policy="{}", depth=0, version=1,
        key=remote.key, fingerprint=remote.fingerprint, created=remote.created, updated=remote.updated,
    )  # fmt: skip
    progress = Progress(
        schedule=_NO_NUMBER, owner=remote.owner, kind=KIND,
        state=ScheduleState.PAUSED if paused else ScheduleState.ACTIVE, next=next or following(trigger, now),
        through=None, run_count=0, active=0, queued=0, gap=None, last_status=None,
        last_run=None if there is None else _instant(there.last_schedule_time), last_error=None, failures=0,
        note=f"kept at {PLACE}, which sends it",
    )  # fmt: skip
    return Schedule(definition, progress)


def notification(schedule: Schedule) -> Notification:
    """Return the notification of a schedule at QStash, which has no names and no notes."""
    return local.notification(schedule)._replace(name=None, note=None)


def following(trigger: str, now: Instant) -> Instant | None:
    read = readable(trigger)
    return None if read is None else read.next_after(now)


def _instant(milliseconds: object) -> Instant | None:
    if type(milliseconds) is not int or not 0 < milliseconds < _LATEST:
        return None
    return Instant(milliseconds * 1000)


def fields_of(remote: Remote) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(remote.payload)
    return fields


def cron_of(remote: Remote) -> str:
    """Return the cron expression with its zone, in QStash's syntax."""
    trigger = trigger_from_json(remote.trigger)
    assert isinstance(trigger, CronTrigger)
    return f"CRON_TZ={trigger.timezone} {trigger.expression}"
