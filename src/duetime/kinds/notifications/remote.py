"""Notifications that another service keeps: their next times, and notes for lists that only show this store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from duetime.engine.clock import Instant
from duetime.engine.kind import Caller
from duetime.engine.result import Err, Ok, Result
from duetime.engine.triggers import CronTrigger, OnceTrigger, describe, trigger_to_json
from duetime.kinds.notifications.service import KIND, Notification, RemoteNotificationService, first_words
from duetime.service.kind_spec import Elsewhere, ExternalSchedule, Window
from duetime.service.presenters import View, instant_view
from duetime.service.upcoming import instants

PLACE = "QStash"


class RemoteNotifications:
    """The notifications at the service, for what all kinds share."""

    place = PLACE
    refusal = Err(
        "kept_elsewhere",
        f"notifications are kept at {PLACE}, so that they go out while this machine is off: make one with "
        "`duetime notify add`, or with the tools schedule_notification and schedule_cron_notification",
        {"field": "kind"},
    )
    list_note = (
        f"Notifications are kept at {PLACE} and are not in this list: `duetime notify list` and the tool "
        "list_scheduled_notifications show them."
    )
    failure_note = (
        f"Notifications are kept at {PLACE}: what it could not deliver is in its own DLQ, which its console shows."
    )

    def __init__(self, service: RemoteNotificationService) -> None:
        self._service = service

    def actions(self, caller: Caller, id: str) -> tuple[str, ...]:
        return self._service.actions(caller, id)

    def change(self, caller: Caller, action: str, id: str) -> Result[None]:
        """Change a notification. Cancelling one at the service deletes it."""
        service = self._service
        if action in ("pause", "resume") and service.actions(caller, id) == ("delete",):
            reason = f"it cannot be {action.rstrip('e')}ed; delete it, and add another for later"
            return Err("not_possible", f"{id} goes out once, at {PLACE}, so {reason}")
        return service.change(caller, "delete" if action == "cancel" else action, id)

    def list(self, caller: Caller) -> Result[Sequence[ExternalSchedule]]:
        found = self._service.scheduled(caller)
        if isinstance(found, Err):
            return found
        fields = [{"topic": each.topic, "message": each.body} for each in found.value]
        rows = zip(found.value, fields, strict=True)
        return Ok([ExternalSchedule(each.id, each.paused, each.next, each.cron, shown) for each, shown in rows])

    def upcoming(self, caller: Caller, asked: Window, zone: str) -> Elsewhere:
        """Return what fires next at the service. If that fails, return a warning, so that what is kept here is still
        shown."""
        if asked.kinds is not None and KIND not in asked.kinds:
            return Elsewhere([], [])
        found = self._service.scheduled(caller, asked.topic)
        if isinstance(found, Err):
            reason = found.message.rstrip(".")
            return Elsewhere([], [f"Notifications are missing here, for they cannot be listed: {reason}."])
        listed = [each for each in found.value if asked.include_paused or not each.paused]
        return Elsewhere([pair for each in listed for pair in _rows(each, asked, zone)], [])


def _rows(each: Notification, asked: Window, zone: str) -> Iterator[tuple[Instant, View]]:
    """Yield the times of a notification within the window, one more than asked for, each with its row."""
    trigger = each.trigger
    if each.is_once and each.next is not None:
        trigger = OnceTrigger(at=each.next, timezone=zone)
    if not isinstance(trigger, OnceTrigger | CronTrigger):
        return
    first = trigger.next_after(asked.now) if each.next is None else each.next
    if first is None:
        return
    name = first_words(each.body) if each.is_once else each.label or first_words(each.body)
    row = {"kind": KIND, "id": each.id, "name": name, "reads_as": describe(trigger), "topic": each.topic}
    paused = {"paused": True} if each.paused else {}
    for at in islice(instants(trigger_to_json(trigger), first, asked), asked.count + 1):
        yield at, {"at": instant_view(at, zone), **row, **paused}
