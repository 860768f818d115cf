"""The service layer of notifications for all interfaces, whichever backend keeps them. Failures are values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError, StoreUnavailable, StoreUnusable
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.result import Err, Result
from duetime.engine.triggers import Trigger, trigger_from_json
from duetime.engine.validation import NewSchedule
from duetime.service.errors import STORE_ERRORS
from duetime.service.kind_spec import ScheduleWarning

P = ParamSpec("P")
T = TypeVar("T")

KIND = "notification"
PATIENCE = 5.0
"""Seconds that the one attempt of a send may take."""


@dataclass(frozen=True, slots=True)
class NewNotification:
    """A caller's request, not yet validated."""

    message: str
    topic: str
    more: Mapping[str, Any] = field(default_factory=dict)
    """Title, priority, tags, markdown, click, actions, icon, attach, filename, label."""
    policy: Mapping[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = None

    def as_schedule(self, trigger_type: str, config: Mapping[str, Any], zone: str, **policy: Any) -> NewSchedule:
        """Return the schedule that the engine validates, whichever backend keeps it."""
        payload = {"message": self.message, "topic": self.topic, **self.more}
        policy = {**self.policy, **policy}
        return NewSchedule(KIND, _name(payload), trigger_type, config, payload, policy, zone, self.idempotency_key)


class Message(NamedTuple):
    """A notification that goes out once."""

    message_id: str
    at: Instant
    topic: str
    body: str
    warnings: Sequence[ScheduleWarning] = ()
    """What the creator of a new one should know."""


class Recurring(NamedTuple):
    """A recurring notification."""

    schedule_id: str
    cron: str | None
    """None where its times follow no cron expression."""
    timezone: str
    topic: str
    label: str | None
    paused: bool
    next: Instant | None
    last: Instant | None
    body: str
    warnings: Sequence[ScheduleWarning] = ()
    """What the creator of a new one should know."""


class Listing(NamedTuple):
    schedules: list[Recurring]
    messages: list[Message]


class Sent(NamedTuple):
    """The result of the one attempt at sending."""

    message_id: str
    topic: str
    channel: str | None
    """Where it arrived; None if it did not."""
    error: str | None = None
    retried: bool = False
    """It has not arrived yet, and will be retried automatically."""
    note: str = ""
    """What the sender should know about a message that arrived."""


SUBSCRIBE = "Every owner has topics of their own: to hear {topic}, a phone has to subscribe to {address}."


class NotificationService(Protocol):
    """Operations on notifications. Expected errors: `not_found`; `api_error` with a reason that may be shown; else the
    code and the message of invalid input, with its field in the details.
    """

    fires_here: bool
    """Whether our own workers send the notifications."""

    def send(self, caller: Caller, new: NewNotification) -> Result[Sent]:
        """Send at once, with one attempt of a few seconds at most."""

    def create_once(self, caller: Caller, new: NewNotification, when: str, zone: str) -> Result[Message]:
        """Create a one-off. `when` is read in the zone, as the engine reads times; a past time is refused."""

    def create_cron(self, caller: Caller, new: NewNotification, cron: str, zone: str) -> Result[Recurring]: ...

    def scheduled(self, caller: Caller, topic: str | None = None) -> Result[Listing]:
        """Return the caller's own notifications: recurring ones, and one-offs that have not been sent."""

    def pause(self, caller: Caller, schedule_id: str) -> Result[None]: ...

    def resume(self, caller: Caller, schedule_id: str) -> Result[None]: ...

    def delete(self, caller: Caller, schedule_id: str) -> Result[None]:
        """Delete a recurring notification, or a one-off that has not been sent."""

    def actions(self, id: str) -> tuple[str, ...]:
        """Return which of pause, resume and delete are possible for one that is kept outside this store; else none."""

    def changes(self, caller: Caller, topic: str) -> object:
        """Return a cheap value that differs after every create, delete, pause, resume and firing on a topic."""

    def warnings(self, topic: str, owner: str = LOCAL) -> list[ScheduleWarning]:
        """Return what the creator of an owner's notification should know about where it will arrive."""

    def close(self) -> None: ...


def readable_trigger(stored: str) -> Trigger | None:
    """Return the trigger, or None if it cannot be read any more, for example because its zone was removed: such a
    notification must still be shown and deleted."""
    try:
        return trigger_from_json(stored)
    except (DuetimeError, ValueError, KeyError, TypeError):
        return None


_UNREACHABLE = Err("api_error", "the store cannot be reached just now; try again in a moment")


def told(method: Callable[P, Result[T]]) -> Callable[P, Result[T]]:
    """Return an error if the store is unavailable. Its own message contains paths, which are for the operator."""

    @functools.wraps(method)
    def answered(*args: P.args, **kwargs: P.kwargs) -> Result[T]:
        try:
            result = method(*args, **kwargs)
        except (StoreUnavailable, StoreUnusable):
            return _UNREACHABLE
        return _UNREACHABLE if isinstance(result, Err) and result.code in STORE_ERRORS else result

    return answered


def _name(payload: Mapping[str, Any]) -> str:
    """Return the name for lists of all kinds: the first of its texts that is not blank."""
    texts = (payload.get("label"), payload.get("title"), payload.get("message"), payload.get("topic"))
    words = (first_words(text) for text in texts if isinstance(text, str))
    return next(filter(None, words), KIND)


def first_words(text: str) -> str:
    return " ".join(text[:1000].split())[:200]
