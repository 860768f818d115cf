"""Notifications: messages to a person. Without a channel they arrive in the built-in inbox: the completed runs."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from duetime.engine.clock import SECOND, Instant
from duetime.engine.delivery import ATTEMPTS, Courier, Inbox, Parcel
from duetime.engine.encoding import encode_whole
from duetime.engine.kind import Caller, Prepared, StopReason, Work
from duetime.engine.model import Cause
from duetime.engine.outcome import Cancelled, Completed, Outcome, Returned
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.options import Overlap, Policy
from duetime.engine.triggers import OnceTrigger, trigger_from_json
from duetime.kinds.notifications.payload import checked_payload

USUAL_PATIENCE = 15.0
LONGEST_PATIENCE = 60.0
"""Seconds: a receiver that is silent for longer will not answer, and holds a thread."""
_SHARE = 0.95
"""Of the run's time: the attempt has to end by itself, so that its own words are what is recorded."""


class NotificationKind:
    name = "notification"
    # Every occurrence is a message for itself: one that waits for its retry must not make the next one silent.
    defaults: Mapping[str, Any] = MappingProxyType({"max_attempts": ATTEMPTS, "overlap": str(Overlap.ALLOW)})
    remembered: tuple[str, ...] = ()

    def __init__(self, courier: Courier | None = None) -> None:
        self._courier = courier or Inbox()

    def public_id(self, now: Instant, trigger_type: str) -> str:
        """Unguessable: whoever knows one was given it."""
        return f"{'msg' if trigger_type == 'once' else 'scd'}_{secrets.token_hex(16)}"

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        checked = checked_payload(payload)
        return Prepared(checked, checked["topic"])

    def execute(self, work: Work) -> Outcome:
        if work.stop.is_set():
            taken_back = work.stop.reason is StopReason.CANCELLED
            return Cancelled("taken back before it went out") if taken_back else Returned()
        payload = work.payload
        patience, owner = _patience(work.policy), work.claim.definition.owner
        parcel = Parcel(parcel_id(work.claim), payload["topic"], payload, patience, owner)
        outcome = self._courier.deliver(parcel)
        return _with_message(outcome, work.claim, payload) if isinstance(outcome, Completed) else outcome

    def close(self) -> None:
        self._courier.close()


def parcel_id(claim: Claim) -> str:
    """The same on every attempt at one message. What was asked for again by hand is another message, like each
    occurrence of one that recurs; a one-off goes by the id that its maker knows."""
    public_id = claim.definition.public_id
    goes_out_once = isinstance(trigger_from_json(claim.definition.trigger), OnceTrigger)
    return public_id if goes_out_once and claim.run.cause == Cause.TRIGGER else f"{public_id}.{claim.run.id}"


def _patience(policy: Policy) -> float:
    if policy.timeout is None:
        return USUAL_PATIENCE
    return min(policy.timeout / SECOND * _SHARE, LONGEST_PATIENCE)


def _with_message(outcome: Completed, claim: Claim, payload: Mapping[str, Any]) -> Completed:
    """History shows what arrived even when its schedule is gone."""
    how = json.loads(outcome.result or "{}")
    sent = {**how, "notification_id": claim.definition.public_id, **payload}
    return Completed(encode_whole(sent))  # the receipt is whatever the receiver wrote
