"""The request kind: an HTTP call to a client's service at a set time. Answers other than 2xx are usually retried."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from duetime.engine.clock import SECOND, Clock, Instant
from duetime.engine.kind import Caller, Prepared, StopReason, ThreadUse, Work
from duetime.engine.outcome import Cancelled, Outcome, Returned
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.options import Overlap
from duetime.kinds.requests.payload import checked_request
from duetime.kinds.requests.retry_delay import USUAL, retry_delay
from duetime.kinds.requests.wire import (
    CALLBACKS,
    KIND,
    ONCE,
    RECURRING,
    RETRIES,
    Outgoing,
    Requester,
    body_of,
    callback_to,
    message_id,
    schedule_id,
)
from duetime.service.kind_spec import KindHooks

PATIENCE = 300.0
"""Default timeout in seconds; long, because deferred calls are often to slow operations."""
KEPT, KEPT_FOR_CALLBACK = 4 * 1024, 48 * 1024
"""Bytes of an answer's body that are kept: to see what went wrong, and to pass it on to a callback."""


class RequestKind(KindHooks):
    name = KIND
    # Each request's formula sets its retry delay, so the policy adds none. Every occurrence is a separate message: one
    # that is being retried does not delay the next, and failed ones stay in the DLQ instead of pausing the schedule.
    defaults: Mapping[str, Any] = MappingProxyType(
        {
            "max_attempts": RETRIES + 1,
            "backoff": 1,
            "backoff_limit": 1,
            "overlap": str(Overlap.ALLOW),
            "pause_after": 0,
        }
    )
    counts_depth = True
    thread_use = ThreadUse.SHARED
    # Messages of a deleted schedule stay in the logs and the DLQ and must show where they went, not what they carried.
    remembered: tuple[str, ...] = ("url", "method", "label", "id", "retries", "delay")

    def __init__(self, requester: Requester, clock: Clock) -> None:
        self.requester, self._clock = requester, clock

    def public_id(self, now: Instant, trigger_type: str) -> str:
        """Return an unguessable id: whoever knows it was given it."""
        return f"{ONCE if trigger_type == 'once' else RECURRING}{secrets.token_hex(16)}"

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        checked = checked_request(payload, self.requester.host_of)
        subject = checked.get("label") or self.requester.host_of(checked["url"])
        retries = checked.get("retries", RETRIES)
        callbacks = [
            callback_to(on, _callback(checked, part, retries), self.defaults)
            for part, on in CALLBACKS.items()
            if part in checked
        ]
        return Prepared(checked, subject, {"max_attempts": retries + 1, "callbacks": callbacks})

    def execute(self, work: Work) -> Outcome:
        if work.stop.is_set():
            taken_back = work.stop.reason is StopReason.CANCELLED
            return Cancelled("taken back before it went out") if taken_back else Returned()
        payload = work.payload
        early = work.claim.run.due + payload.get("delay", 0) * SECOND - self._clock.now()
        if early > 0 and payload.get("delay"):
            return Returned(after=early)
        return self.requester.send(_outgoing(work.claim, payload, handed_on=bool(work.policy.callbacks)))

    def close(self) -> None:
        self.requester.close()


def _callback(payload: Mapping[str, Any], part: str, retries: int) -> dict[str, Any]:
    """Return the payload of a callback, with as many retries as the request that it follows."""
    return {
        "method": "POST",
        "url": payload[part],
        "headers": payload.get(f"{part}_headers", {}),
        "retries": retries,
    }


def _outgoing(claim: Claim, payload: Mapping[str, Any], *, handed_on: bool) -> Outgoing:
    definition, run = claim.definition, claim.run
    failed_before = max(0, run.attempt - run.deaths - 1)
    return Outgoing(
        id=message_id(definition.public_id, run.id),
        owner=definition.owner,
        method=payload["method"],
        url=payload["url"],
        headers=_headers(claim, payload),
        body=body_of(payload),
        patience=float(payload.get("timeout", PATIENCE)),
        again=retry_delay(payload.get("retry_delay", USUAL), failed_before),
        kept=KEPT_FOR_CALLBACK if handed_on else KEPT,
    )


def _headers(claim: Claim, payload: Mapping[str, Any]) -> dict[str, str]:
    """Return the client's headers and those that tell the receiver which attempt at which message this is."""
    public_id = claim.definition.public_id
    ours = {
        "Upstash-Message-Id": message_id(public_id, claim.run.id),
        "Upstash-Retried": str(max(0, claim.run.attempt - 1)),
        "Upstash-Schedule-Id": schedule_id(public_id, payload),
        "Upstash-Label": payload.get("label"),
    }
    if "about" in payload:
        ours["Content-Type"] = "application/json"
    set_by_us = {name.lower() for name in ours}
    given = {name: value for name, value in payload.get("headers", {}).items() if name.lower() not in set_by_us}
    return given | {name: value for name, value in ours.items() if value is not None}
