"""The service layer of notifications for all interfaces, whichever backend keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from duetime.engine.clock import Instant
from duetime.engine.encoding import json_object
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.triggers import CronTrigger, Trigger
from duetime.engine.triggers.build import readable
from duetime.engine.validation import NewSchedule
from duetime.engine.value_class import NamedTuple
from duetime.kinds.notifications.result import Result
from duetime.service.warnings import ScheduleWarning, declare
from duetime.service.when import When
from duetime.settings.sections import INBOX

KIND = "notification"
AT_ONCE = When("once", {"run_at": "now"}, None)
PATIENCE = 5.0
"""Seconds that the one attempt of a send may take."""


def new_notification(
    payload: Mapping[str, Any], when: When, policy: Mapping[str, Any], key: str | None = None, name: str | None = None
) -> NewSchedule:
    """Return a caller's request, which the engine validates, whichever backend keeps the notification."""
    return NewSchedule(KIND, name or name_of(payload), *when[:2], payload, policy, when.timezone, key)


class Notification(NamedTuple):
    """A notification that recurs or has not been sent. It can be shown even if its trigger can no longer be read."""

    id: str
    topic: str
    stored_trigger: str
    stored_payload: str
    next: Instant | None
    """When it is sent; None while a recurring one is paused, and for a one-off that is paused without an end."""
    paused: bool = False
    last: Instant | None = None
    name: str | None = None
    """None if it is the label or the beginning of the message, or if the notification is not in this store."""
    note: str | None = None
    """Why it is paused or broken."""
    paused_until: Instant | None = None
    detail: str | None = None
    """What it waits for, if its time has come."""
    warnings: Sequence[ScheduleWarning] = ()
    """Warnings for the creator of a new one."""
    limits: Mapping[str, Any] = MappingProxyType({})
    """The limits in force for a new one."""
    stored_policy: str = "{}"

    @property
    def is_once(self) -> bool:
        return (json_object(self.stored_trigger) or {}).get("type") == "once"

    @property
    def trigger(self) -> Trigger | None:
        return readable(self.stored_trigger)

    @property
    def cron(self) -> str | None:
        """The cron expression; None if the times follow none."""
        trigger = self.trigger
        return trigger.expression if isinstance(trigger, CronTrigger) else None

    @property
    def timezone(self) -> str:
        trigger = self.trigger
        return "UTC" if trigger is None else trigger.timezone

    @property
    def payload(self) -> dict[str, Any]:
        return json_object(self.stored_payload) or {}

    @property
    def label(self) -> str | None:
        return self.payload.get("label")

    @property
    def body(self) -> str:
        text: str = self.payload.get("message", "")
        return text


def in_order(notifications: Iterable[Notification]) -> list[Notification]:
    """Return recurring notifications in the given order, then one-offs by time."""
    return sorted(notifications, key=lambda each: (each.is_once, (each.next or 0) if each.is_once else 0))


class Sent(NamedTuple):
    """The result of the one attempt at sending."""

    message_id: str
    topic: str
    channel: str | None
    """Where it arrived; None if it did not."""
    error: str | None = None
    retried: bool = False
    """It has not arrived yet, and will be retried automatically."""
    warnings: Sequence[ScheduleWarning] = ()
    """Warnings that were found when it was stored or delivered, and would not be found again."""

    @property
    def reached(self) -> str:
        """`phone` for any channel, `inbox`, or `nobody` if it did not arrive."""
        if self.channel is None:
            return NOBODY
        return INBOX if self.channel == INBOX else PHONE


declare(
    subscribe="A phone must subscribe to {address} to receive {topic}.",
    new_topic="Nothing else uses the topic {topic}: check its spelling and that a phone subscribes to it.",
    note="{note}",
)
PHONE, NOBODY = "phone", "nobody"
"""What a message reached, besides the inbox."""


class NotificationService(Protocol):
    """Operations on notifications. Expected errors: `not_found`; `api_error` with a reason that may be shown; otherwise
    the code and the message of invalid input, with its field in the details."""

    fires_here: bool
    """Whether our own workers send the notifications."""

    def send(self, caller: Caller, new: NewSchedule) -> Result[Sent]:
        """Send a notification at once, with one attempt of a few seconds at most."""

    def create(self, caller: Caller, new: NewSchedule) -> Result[Notification]:
        """Create a one-off or a recurring notification. A past time is refused."""

    def scheduled(self, caller: Caller, topic: str | None = None) -> Result[list[Notification]]:
        """Return the caller's own notifications: recurring ones, then one-offs that have not been sent, by time."""

    def changes(self, caller: Caller, topic: str) -> object:
        """Return a cheap value that differs after every create, delete, pause, resume and firing on a topic."""

    def warnings(self, topic: str, owner: str = LOCAL, but: str = "") -> list[ScheduleWarning]:
        """Return warnings for the creator of an owner's notification about where it will arrive. `but` is the id of
        that notification, which does not count as another use of its topic."""

    def close(self) -> None: ...


def arrival_warnings(service: NotificationService, sent: Sent, owner: str) -> list[ScheduleWarning]:
    """Return warnings for the sender. They depend on where the message arrived, not on the settings of this process."""
    warnings = service.warnings(sent.topic, owner, sent.message_id)
    reached = [each for each in warnings if sent.reached != PHONE or each.code not in ("no_channel", "unknown_channel")]
    return [*sent.warnings, *reached]


def name_of(payload: Mapping[str, Any]) -> str:
    """Return the name for lists of all kinds: the first of its texts that is not blank."""
    texts = (payload.get("label"), payload.get("title"), payload.get("message"), payload.get("topic"))
    first_words = (" ".join(text[:1000].split())[:200] for text in texts if isinstance(text, str))
    return next(filter(None, first_words), KIND)
