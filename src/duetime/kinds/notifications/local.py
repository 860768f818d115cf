"""Notifications kept in Duetime's own store and delivered by its workers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from duetime.engine.clock import SECOND
from duetime.engine.encoding import json_object
from duetime.engine.errors import DuetimeError
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import Run, RunStatus, Schedule, ScheduleId, ScheduleState
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.engine.triggers import OnceTrigger
from duetime.engine.validation import NewSchedule
from duetime.kinds.notifications.delivery import NO_DESTINATIONS, Deliverer, Destinations
from duetime.kinds.notifications.result import as_result
from duetime.kinds.notifications.service import KIND, PATIENCE, Notification, Sent, in_order
from duetime.service.operations.declaration import Answer
from duetime.service.operations.schedules import details_of
from duetime.service.pauses import fires_at
from duetime.service.services import Call, Services, pages_of
from duetime.service.warnings import ScheduleWarning, declare, warning
from duetime.service.workers import living
from duetime.settings.sections import INBOX

if TYPE_CHECKING:
    from duetime.service.operations.create import CreatedSchedule

# Conversion of stored schedules and runs to notifications.

CUT = "The message was longer than its receiver takes: the end was cut off."


def is_decided(run: Run) -> bool:
    """Return whether an attempt is over. A pending run with an error has failed once and waits for its retry."""
    if run.status == RunStatus.PENDING:
        return run.error is not None
    return run.status not in (RunStatus.RUNNING, RunStatus.QUEUED, RunStatus.WAITING)


def sent(message_id: str, topic: str, run: Run | None) -> Sent:
    if run is None:
        reason = f"it was not sent within {PATIENCE:g} s; it stays queued until a worker sends it"
        return Sent(message_id, topic, None, reason, retried=True)
    if run.status == RunStatus.COMPLETED:
        arrived = json_object(run.result or "null") or {}
        warnings = [warning("note", note=CUT)] if arrived.get("cut") else []
        return Sent(message_id, topic, arrived.get("channel", ""), warnings=warnings)
    if not is_decided(run):
        reason = f"its receiver has not answered within {PATIENCE:g} s; it may still arrive"
        return Sent(message_id, topic, None, reason, retried=True)
    return Sent(message_id, topic, None, run.error or run.status, retried=run.status == RunStatus.PENDING)


def notification(schedule: Schedule) -> Notification:
    definition, progress = schedule
    paused, stored = progress.state == ScheduleState.PAUSED, (definition.trigger, definition.payload)
    row = Notification(
        definition.public_id, definition.subject, *stored, progress.next, paused, progress.last_run,
        note=progress.note, paused_until=definition.resume_at, stored_policy=definition.policy,
    )  # fmt: skip
    if definition.name != row.label and not row.body.startswith(definition.name):
        row = row._replace(name=definition.name)
    if not row.is_once:
        return row._replace(next=None) if paused else row
    if paused:
        return row._replace(next=fires_at(schedule))
    trigger = row.trigger
    at = trigger.at if isinstance(trigger, OnceTrigger) else progress.next or definition.created
    return row._replace(next=at)


LOOK = 0.02
LOOKS_A_SECOND = 50
INBOX_WARNING = "No notification channel is set up, so it goes to the built-in inbox only."
SILENT_WARNING = "No notification channel is set up, so messages go to the built-in inbox only."
TOPIC_WARNING = "No channel is named {topic}, so it goes to the built-in inbox only; configured channels: {channels}."
declare(no_channel=INBOX_WARNING, unknown_channel=TOPIC_WARNING)
MOST_LOOKED_AT = 1000
"""Number of an owner's latest notifications that are searched for another use of a topic."""
MOST_TOPICS = 10_000


class LocalNotifications:
    fires_here = True

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        delivery: Deliverer | None = None,
        places: Destinations = NO_DESTINATIONS,
        patience: float = PATIENCE,
    ) -> None:
        """`delivery` knows where the messages of a topic go; `places` describes what is set up for an owner."""
        self._scheduler = scheduler
        self._delivery = delivery or Deliverer()
        self._places = places
        self._patience = patience
        self._topics: set[tuple[str, str]] = set()  # owners and their topics that are known to be in use

    @as_result
    def create(self, caller: Caller, new: NewSchedule) -> Notification:
        created, warnings, _ = self._create(caller, new)
        return notification(created.schedule)._replace(warnings=warnings, limits=created.limits)

    @as_result
    def send(self, caller: Caller, new: NewSchedule) -> Sent:
        created, warnings, _ = self._create(
            caller, new._replace(policy={**new.policy, "timeout": int(PATIENCE * SECOND)})
        )
        definition = created.schedule.definition
        decided = sent(definition.public_id, definition.subject, self._decided(caller, definition.id))
        return decided._replace(warnings=[*decided.warnings, *(each for each in warnings if each.code == "new_topic")])

    def _create(self, caller: Caller, new: NewSchedule) -> Answer[CreatedSchedule]:
        from duetime.service.operations.create import create_new  # lists start without it

        services = Services(self._scheduler)
        return create_new(Call(services, caller, services.zone), new)

    def _decided(self, caller: Caller, id: ScheduleId) -> Run | None:
        """Return the notification's run when its first attempt is over, or as it is at the end of the wait. The number
        of polls is limited too, because the clock of a simulation stands still."""
        pause, clock = threading.Event(), self._scheduler.clock
        began, query = clock.monotonic(), RunQuery(schedule=id, limit=1, count_to=0)
        runs: list[Run] = []
        for look in range(1, 1 + int(self._patience / LOOK)):
            with suppress(DuetimeError):
                runs = self._scheduler.runs(caller, query).items
            if runs and is_decided(runs[0]):
                return runs[0]
            if look % LOOKS_A_SECOND == 0 and not living(self._scheduler.store.workers(), clock.now(), KIND):
                break
            if clock.monotonic() - began >= self._patience:  # on a busy machine, each poll takes longer
                break
            pause.wait(LOOK)
        return runs[0] if runs else None

    @as_result
    def scheduled(self, caller: Caller, topic: str | None = None) -> list[Notification]:
        query = ScheduleQuery(kind=KIND, status="living", subject=topic, limit=500, count_to=0)
        pages = pages_of(self._scheduler.search, caller._replace(operator=False), query)
        return in_order(each for page in pages for each in self._with_details(caller, page.items))

    def _with_details(self, caller: Caller, schedules: Sequence[Schedule]) -> Iterator[Notification]:
        details = details_of(Call(Services(self._scheduler), caller, self._scheduler.zone), schedules)
        for each in schedules:
            yield notification(each)._replace(detail=details.get(each.definition.id))

    def changes(self, caller: Caller, topic: str) -> object:
        return self._scheduler.store.marks(caller.owner, KIND, topic)

    def warnings(self, topic: str, owner: str = LOCAL, but: str = "") -> list[ScheduleWarning]:
        if address := self._delivery.address_of(topic, owner):
            return [warning("subscribe", address=address, topic=topic)]
        channel = self._delivery.channel_of(topic, owner)
        if channel != INBOX:  # a channel of that name is a known receiver, so only other topics can be new
            return [warning("new_topic", topic=topic)] if channel != topic and self._is_new(topic, owner, but) else []
        if not (names := self._places.names(owner)):
            return [] if self._places.inbox_chosen else [warning("no_channel")]
        return [] if topic == INBOX else [warning("unknown_channel", topic=topic, channels=", ".join(sorted(names)))]

    def _is_new(self, topic: str, owner: str, but: str) -> bool:
        """Return whether no other notification uses the topic; each topic is looked up once, and then known."""
        if (owner, topic) in self._topics or topic == self._places.default_topic(owner):
            return False
        query = ScheduleQuery(kind=KIND, newest_first=True, limit=MOST_LOOKED_AT, count_to=0)
        try:
            latest = self._scheduler.search(Caller(owner), query).items
        except DuetimeError:
            return False
        if len(self._topics) > MOST_TOPICS:
            self._topics.clear()
        used = {each.definition.subject for each in latest if each.definition.public_id != but}
        self._topics |= {(owner, each) for each in {*used, topic}}
        return topic not in used

    def close(self) -> None:
        """Do nothing, because the store is closed by its owner."""
