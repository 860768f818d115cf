"""Notifications that another service keeps: their next times, and notes for lists that only show this store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from duetime.engine.clock import Instant
from duetime.engine.kind import Caller
from duetime.engine.queries import upcoming
from duetime.engine.redaction import without_secrets
from duetime.engine.result import Err, Ok, Result
from duetime.engine.triggers import CronTrigger, OnceTrigger, Trigger, describe
from duetime.kinds.notifications.service import KIND, Message, NotificationService, Recurring, first_words
from duetime.service.kind_spec import Elsewhere, ExternalSchedule
from duetime.service.presenters import EACH, View, instant_view

T = TypeVar("T")

PLACE = "QStash"

KEPT_ELSEWHERE = Err(
    "kept_elsewhere",
    f"notifications are kept at {PLACE}, so that they go out while this machine is off: make one with "
    "`duetime notify add`, or with the tools schedule_notification and schedule_cron_notification",
    {"field": "kind"},
)
LIST_NOTE = (
    f"Notifications are kept at {PLACE} and are not in this list: `duetime notify list` and the tool "
    "list_scheduled_notifications show them."
)

FAILURE_NOTE = (
    f"Notifications are kept at {PLACE}: what it could not deliver is in its own DLQ, which its console shows."
)


def redacted_result(result: Result[T]) -> Result[T]:
    """Return the result with secrets redacted from its error: a service may quote what it was sent."""
    if isinstance(result, Err):
        return Err(result.code, without_secrets(result.message), result.details)
    return result


class RemoteNotifications:
    """The notifications at the service, for the commands that all kinds share."""

    place = PLACE

    def __init__(self, service: NotificationService) -> None:
        self._service = service

    def actions(self, id: str) -> tuple[str, ...]:
        return self._service.actions(id)

    def change(self, caller: Caller, action: str, id: str) -> Result[None]:
        """Change a notification. Cancelling one at the service deletes it."""
        service = self._service
        if action in ("pause", "resume") and service.actions(id) == ("delete",):
            reason = f"it cannot be {action.rstrip('e')}ed; delete it, and add another for later"
            return Err("not_possible", f"{id} goes out once, at {PLACE}, so {reason}")
        changes = {"pause": service.pause, "resume": service.resume, "cancel": service.delete, "delete": service.delete}
        return redacted_result(changes[action](caller, id))

    def list(self, caller: Caller) -> Result[Sequence[ExternalSchedule]]:
        found = redacted_result(self._service.scheduled(caller))
        if isinstance(found, Err):
            return found
        recurring = [
            ExternalSchedule(each.schedule_id, each.paused, each.next, each.cron, _fields(each))
            for each in found.value.schedules
        ]
        once = [ExternalSchedule(each.message_id, False, each.at, None, _fields(each)) for each in found.value.messages]
        return Ok([*recurring, *once])


def _fields(each: Message | Recurring) -> dict[str, str]:
    return {"topic": each.topic, "message": each.body}


def coming_elsewhere(
    service: NotificationService, caller: Caller, until: Instant | None, count: int, zone: str
) -> Elsewhere:
    """Return what fires next at the service. If it fails, return a warning, so that what is kept here is shown."""
    found = service.scheduled(caller)
    if isinstance(found, Err):
        reason = without_secrets(found.message).rstrip(".")
        return Elsewhere([], [f"Notifications are missing here, for they cannot be listed: {reason}."])
    pairs = [pair for each in found.value.schedules for pair in _recurring(each, min(count, EACH), zone)]
    for each in found.value.messages:
        once = OnceTrigger(at=each.at, timezone=zone)
        pairs.append((each.at, _row(each.at, each.message_id, first_words(each.body), once, zone)))
    return Elsewhere([(at, row) for at, row in pairs if until is None or at <= until], [])


def _recurring(schedule: Recurring, count: int, zone: str) -> list[tuple[Instant, View]]:
    if schedule.next is None or schedule.cron is None:
        return []
    trigger = CronTrigger(expression=schedule.cron, timezone=schedule.timezone)
    instants = [schedule.next, *upcoming(trigger, schedule.next, count - 1)]
    name = schedule.label or first_words(schedule.body)
    return [(at, _row(at, schedule.schedule_id, name, trigger, zone)) for at in instants]


def _row(at: Instant, id: str, name: str, trigger: Trigger, zone: str) -> dict[str, Any]:
    return {"at": instant_view(at, zone), "kind": KIND, "id": id, "name": name, "reads_as": describe(trigger)}
