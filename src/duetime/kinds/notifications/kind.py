"""The notification kind. Without a channel, notifications arrive in the built-in inbox, which consists of completed
runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

from duetime.engine.clock import SECOND, Instant
from duetime.engine.encoding import encode_whole
from duetime.engine.kind import Caller, Prepared, StopReason, ThreadUse, Work
from duetime.engine.model import Cause, Definition
from duetime.engine.narrowing import may_use_web
from duetime.engine.outcome import Cancelled, Completed, Outcome, Returned
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.options import ALERTS, Overlap, checked_topic
from duetime.engine.triggers import OnceTrigger, trigger_from_json
from duetime.kinds.notifications.delivery import (
    ATTEMPTS,
    NO_DESTINATIONS,
    NTFY,
    Deliverer,
    Destinations,
    OutgoingMessage,
)
from duetime.kinds.notifications.local import SILENT_WARNING
from duetime.kinds.notifications.payload import PushMessage
from duetime.kinds.notifications.result import Ok
from duetime.kinds.notifications.service import NotificationService, name_of
from duetime.service.kind_spec import KindHooks, KindStatus, Outside
from duetime.service.payload_fields import checked_payload
from duetime.service.warnings import ScheduleWarning
from duetime.settings.sections import INBOX

USUAL_PATIENCE = 15.0
LONGEST_PATIENCE = 60.0
"""Maximum number of seconds for an attempt: a receiver that is silent for longer will not answer, and occupies a
thread."""
TRIAL_TOPIC = "test"
"""Topic of a test message for an ntfy server without a default topic."""
_SHARE = 0.95
"""Share of the run's timeout: the attempt has to end before that, so that its own error is recorded."""


class NotificationKind(KindHooks):
    name = "notification"
    # Every occurrence is a separate message: one that waits for its retry must not suppress the next one.
    defaults: Mapping[str, Any] = MappingProxyType({"max_attempts": ATTEMPTS, "overlap": str(Overlap.ALLOW)})
    counts_depth = False  # a message to a person starts no further agent
    thread_use = ThreadUse.RESERVED
    templates = ("message", "title")

    def __init__(
        self,
        delivery: Deliverer | None = None,
        make_service: Callable[[], NotificationService] | None = None,
        places: Destinations = NO_DESTINATIONS,
        differing: Sequence[str] = (),
    ) -> None:
        """`make_service` returns the service that keeps notifications, here or elsewhere; it is called on first use.
        `differing` are the settings of this process that differ from `places`."""
        self.places, self._differing = places, differing
        self.delivery = delivery or Deliverer()
        self._make_service = make_service

    @cached_property
    def service(self) -> NotificationService:
        assert self._make_service is not None, "this kind was built without a notification service"
        return self._make_service()

    def public_id(self, now: Instant, trigger_type: str) -> str:
        """Return an unguessable id, so that only those who were given it know it."""
        return f"{'msg' if trigger_type == 'once' else 'scd'}_{os.urandom(16).hex()}"

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        if payload.get("topic") is None and (topic := self.places.default_topic(caller.owner)):
            payload = {**payload, "topic": topic}
        checked = checked_payload(PushMessage, payload, self.name)
        if "topic" not in checked:
            checked_topic(None)
        return Prepared(checked, checked["topic"], web="" if may_use_web(caller) else self._way_out(checked, caller))

    def _way_out(self, payload: Mapping[str, Any], caller: Caller) -> str:
        """Return the field through which a message would reach the web: something that a phone loads or opens, or a
        topic that is new."""
        loaded = ("icon", "attach", "click", "markdown", "actions")
        known = self.knows_topic(payload["topic"], caller.owner)
        return next((name for name in loaded if payload.get(name)), "" if known else "topic")

    def knows_topic(self, topic: str, owner: str) -> bool:
        if not self.delivery.places.is_on_ntfy(topic, owner) or topic in (ALERTS, self.places.default_topic(owner)):
            return True
        notifications = self.service.scheduled(Caller(owner), topic)
        return isinstance(notifications, Ok) and bool(notifications.value)

    def execute(self, work: Work) -> Outcome:
        if work.stop.is_set():
            taken_back = work.stop.reason is StopReason.CANCELLED
            return Cancelled("taken back before it went out") if taken_back else Returned()
        payload = work.filled(work.payload, self.templates, as_text=True)
        if work.gift is not None:
            payload = {**payload, "message": work.with_gate_result(payload["message"])}
        policy, definition = work.policy, work.claim.definition
        timeout, owner = policy.timeout, definition.owner
        patience = USUAL_PATIENCE if timeout is None else min(timeout / SECOND * _SHARE, LONGEST_PATIENCE)
        message = delivery_id(work.claim)
        outcome = self.delivery.deliver(
            OutgoingMessage(message, payload["topic"], payload, patience, owner, policy.at_most_once)
        )
        if not isinstance(outcome, Completed):
            return outcome
        # History shows the message even after its schedule is deleted; the receipt is any text from the receiver.
        how = json.loads(outcome.result or "{}")
        return Completed(encode_whole({**how, "notification_id": definition.public_id, **payload}))

    def close(self) -> None:
        self.delivery.close()
        if "service" in self.__dict__:
            self.service.close()

    def optional_arguments(self) -> tuple[str, ...]:
        return ("notification_topic",) if self.places.topic else ()

    def published_settings(self) -> Mapping[str, Any]:
        return self.places.published()

    def differing_settings(self) -> list[str]:
        return list(self._differing)

    def outside(self) -> Outside:
        service: object = self.service
        return service if isinstance(service, Outside) else super().outside()

    def trial(self, name: str, owner: str) -> dict[str, Any] | None:
        """Return a message for the channel; one for the ntfy server goes to the default topic."""
        topic = self.places.default_topic(owner) if name == NTFY else name
        return {"message": "This is a test. It works.", "title": "Duetime", "topic": topic or TRIAL_TOPIC}

    def default_topic(self, owner: str) -> str:
        return self.places.default_topic(owner)

    def name_of(self, payload: Mapping[str, Any]) -> str | None:
        return name_of(payload)

    def create_warnings(self, definition: Definition, payload: Mapping[str, Any]) -> list[ScheduleWarning]:
        return self.service.warnings(definition.subject, definition.owner, definition.public_id)

    def delivery_warnings(self, topic: str, owner: str) -> list[ScheduleWarning]:
        return self.service.warnings(topic, owner)

    def status(self, owner: str) -> KindStatus:
        channels = self.places.described(owner)
        is_silent = all(each["type"] == INBOX for each in channels) and not self.places.inbox_chosen
        facts = {"channels": channels, "default_topic": self.places.default_topic(owner) or None}
        return KindStatus(facts, [ScheduleWarning("no_channel", SILENT_WARNING)] if is_silent else [])

    def topic(self, definition: Definition) -> str:
        return definition.subject

    def delivery_topics(self, owner: str) -> list[str]:
        return [each["name"] for each in self.places.described(owner)]


def delivery_id(claim: Claim) -> str:
    """Return an id that is the same on every attempt at one message. A one-off has the id that its creator knows; each
    run that was requested manually, and each occurrence of a recurring notification, is a separate message."""
    public_id = claim.definition.public_id
    goes_out_once = isinstance(trigger_from_json(claim.definition.trigger), OnceTrigger)
    return public_id if goes_out_once and claim.run.cause == Cause.TRIGGER else f"{public_id}.{claim.run.id}"
