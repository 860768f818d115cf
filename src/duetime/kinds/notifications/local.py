"""Notifications kept in Duetime's own store and delivered by its workers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection
from typing import Any

from duetime.engine.clock import SECOND
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import Run, RunStatus, Schedule, ScheduleState
from duetime.engine.result import Err, Ok, Result
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import ScheduleQuery
from duetime.engine.triggers import CronTrigger, OnceTrigger
from duetime.kinds.notifications.delivery import Delivery, Inbox
from duetime.kinds.notifications.service import (
    KIND,
    PATIENCE,
    SUBSCRIBE,
    Listing,
    Message,
    NewNotification,
    Recurring,
    Sent,
    readable_trigger,
    told,
)
from duetime.service.errors import STORE_ERRORS
from duetime.service.kind_spec import ScheduleWarning
from duetime.service.presenters import living
from duetime.service.services import Created, Services
from duetime.settings.sections import INBOX

# Conversion of stored schedules and runs to notifications.

CUT = "The message was longer than its receiver takes: the end was cut off."


def is_decided(run: Run) -> bool:
    """Check whether an attempt is over. A pending run with an error has failed once and waits for its retry."""
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
    trigger = readable_trigger(definition.trigger)
    at = trigger.at if isinstance(trigger, OnceTrigger) else progress.next or definition.created
    return Message(definition.public_id, at, definition.subject, _stored(definition.payload).get("message", ""))


def recurring(schedule: Schedule) -> Recurring:
    definition, progress = schedule
    trigger = readable_trigger(definition.trigger)
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


def _stored(text: str | None) -> dict[str, Any]:
    """Return the stored object, or an empty one, as for what is left of a deleted schedule."""
    try:
        value = json.loads(text or "null")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {}


LOOK = 0.02
LOOKS_A_SECOND = 50
INBOX_WARNING = (
    "No notification channel is set up, so it arrives in Duetime's built-in inbox and on no phone: `duetime inbox` "
    "shows it."
)
TOPIC_WARNING = (
    "No notification channel is named {topic}, so it arrives in Duetime's built-in inbox and on no phone: `duetime "
    "inbox` shows it. The channels are: {channels}."
)
_LIVING = frozenset({ScheduleState.ACTIVE, ScheduleState.PAUSED, ScheduleState.BROKEN})


class LocalNotifications:
    fires_here = True

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        delivery: Delivery | None = None,
        channels: Callable[[str], Collection[str]] = lambda _owner: (),
        patience: float = PATIENCE,
    ) -> None:
        """`delivery` knows where a topic's messages go; `channels` returns the names that are set up for an owner."""
        self._scheduler = scheduler
        self._delivery = delivery or Inbox()
        self._channels = channels
        self._patience = patience

    @told
    def create_once(self, caller: Caller, new: NewNotification, when: str, zone: str) -> Result[Message]:
        made = self._create(caller, new, "once", {"run_at": when}, zone)
        if isinstance(made, Err):
            return made
        return Ok(message(made.value.schedule)._replace(warnings=made.value.warnings))

    @told
    def create_cron(self, caller: Caller, new: NewNotification, cron: str, zone: str) -> Result[Recurring]:
        made = self._create(caller, new, "cron", {"expression": cron}, zone)
        if isinstance(made, Err):
            return made
        return Ok(recurring(made.value.schedule)._replace(warnings=made.value.warnings))

    @told
    def send(self, caller: Caller, new: NewNotification) -> Result[Sent]:
        made = self._create(caller, new, "once", {"run_at": "now"}, "UTC", timeout=int(PATIENCE * SECOND))
        if isinstance(made, Err):
            return made
        definition = made.value.schedule.definition
        return Ok(sent(definition.public_id, definition.subject, self._decided(caller, definition.public_id)))

    def _create(
        self, caller: Caller, new: NewNotification, type_: str, config: dict[str, Any], zone: str, **policy: Any
    ) -> Result[Created]:
        return Services(self._scheduler).create(caller, new.as_schedule(type_, config, zone, **policy))

    def _decided(self, caller: Caller, public_id: str) -> Run | None:
        """Return its run when the first attempt is over, or else as it is at the end of the wait. The wait is counted
        in polls, so that setting the clock cannot prolong it."""
        pause = threading.Event()
        runs: list[Run] = []
        for look in range(1, 1 + int(self._patience / LOOK)):
            page = self._scheduler.history(caller, public_id, limit=1, count_to=0)
            runs = [] if isinstance(page, Err) else page.value.items
            if runs and is_decided(runs[0]):
                return runs[0]
            workers = self._scheduler.workers() if look % LOOKS_A_SECOND == 0 else None
            if workers is not None and not living(workers, self._scheduler.clock.now(), KIND):
                break
            pause.wait(LOOK)
        return runs[0] if runs else None

    @told
    def scheduled(self, caller: Caller, topic: str | None = None) -> Result[Listing]:
        found: list[Schedule] = []
        cursor = None
        while True:
            query = ScheduleQuery(kind=KIND, status="living", subject=topic, limit=500, cursor=cursor, count_to=0)
            page = self._scheduler.search(caller._replace(operator=False), query)
            if isinstance(page, Err):
                return page
            found += page.value.items
            cursor = page.value.cursor
            if cursor is None:
                break
        messages = sorted((message(each) for each in found if is_once(each)), key=lambda each: each.at)
        return Ok(Listing([recurring(each) for each in found if not is_once(each)], messages))

    def actions(self, id: str) -> tuple[str, ...]:
        return ()

    def changes(self, caller: Caller, topic: str) -> object:
        return self._scheduler.marks(caller, KIND, topic)

    def warnings(self, topic: str, owner: str = LOCAL) -> list[ScheduleWarning]:
        if address := self._delivery.address_of(topic, owner):
            return [ScheduleWarning("subscribe", SUBSCRIBE.format(topic=topic, address=address))]
        if topic == INBOX or self._delivery.channel_of(topic, owner) != INBOX:
            return []
        if not (names := self._channels(owner)):
            return [ScheduleWarning("no_channel", INBOX_WARNING)]
        text = TOPIC_WARNING.format(topic=topic, channels=", ".join(sorted(names)))
        return [ScheduleWarning("unknown_channel", text)]

    def close(self) -> None:
        """Do nothing: the store is closed by its owner."""

    @told
    def pause(self, caller: Caller, schedule_id: str) -> Result[None]:
        return self._changed(caller, schedule_id, self._scheduler.pause)

    @told
    def resume(self, caller: Caller, schedule_id: str) -> Result[None]:
        return self._changed(caller, schedule_id, self._scheduler.resume)

    @told
    def delete(self, caller: Caller, schedule_id: str) -> Result[None]:
        found = self._scheduler.find(caller, schedule_id, KIND)
        if found is None or (is_once(found) and found.progress.state not in _LIVING):
            return Err("not_found")
        return _done(self._scheduler.delete(caller, schedule_id, KIND))

    def _changed(
        self, caller: Caller, schedule_id: str, change: Callable[[Caller, str, str], Result[Any]]
    ) -> Result[None]:
        found = self._scheduler.find(caller, schedule_id, KIND)
        return Err("not_found") if found is None or is_once(found) else _done(change(caller, schedule_id, KIND))


def _done(result: Result[Any]) -> Result[None]:
    if not isinstance(result, Err):
        return Ok(None)
    as_it_is = result.code == "not_found" or result.code in STORE_ERRORS
    return result if as_it_is else Err("api_error", result.message)
