"""The request kind: an HTTP call to a client's service at a set time. Answers other than 2xx are usually retried."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from operator import eq
from types import MappingProxyType
from typing import Any

from duetime.engine.clock import SECOND, Clock, Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller, Prepared, StopReason, Work
from duetime.engine.model import Definition
from duetime.engine.narrowing import Narrowing
from duetime.engine.outcome import Cancelled, Outcome, Returned
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.options import Overlap, Policy
from duetime.engine.urls import read_url
from duetime.kinds.requests.payload import HttpRequest
from duetime.kinds.requests.retry_delay import USUAL, retry_delay
from duetime.kinds.requests.signing_keys import SigningKeys
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
from duetime.net.calls import status_name
from duetime.net.ssrf_guard import MAY_BE_CLOSED, is_closed
from duetime.service.payload_fields import checked_payload
from duetime.service.payload_model import ModelKind
from duetime.service.warnings import ScheduleWarning, declare, warning

PATIENCE = 300.0
"""Default timeout in seconds; long, because deferred calls are often to slow operations."""
KEPT, KEPT_FOR_CALLBACK = 4 * 1024, 48 * 1024
"""Bytes of an answer's body that are kept, to see what went wrong and to pass it on to a callback."""

declare(address_not_allowed="Requests may not call {host}: put the host into allowed_hosts of the settings.")


class RequestKind(ModelKind):
    name = KIND
    model = HttpRequest
    # Each request's formula sets its retry delay, so the policy adds none. Every occurrence is a separate message: one
    # that is being retried does not delay the next, and failed ones stay in the DLQ instead of pausing the schedule.
    defaults: Mapping[str, Any] = MappingProxyType(
        {"max_attempts": RETRIES + 1, "backoff": 1, "backoff_limit": 1, "overlap": str(Overlap.ALLOW), "pause_after": 0}
    )
    # Messages of a deleted schedule stay in the logs and the DLQ, and must show where they went but not their content.
    remembered: tuple[str, ...] = ("url", "method", "label", "id", "retries", "delay")
    # The policy follows from `retries`, which is therefore narrowed with it.
    narrowing = Narrowing({
        "timeout": lambda stored, new: (new or PATIENCE) <= (stored or PATIENCE),
        "retry_delay": eq,
        "redact": lambda stored, new: {*(stored or ())} <= {*(new or ())},
    })  # fmt: skip

    def __init__(
        self, requester: Requester, clock: Clock, keys: SigningKeys | None = None, allowed_hosts: Sequence[str] = ()
    ) -> None:
        """`keys` sign the requests; their owners read and rotate them."""
        self.requester, self._clock, self.keys, self._allowed_hosts = requester, clock, keys, allowed_hosts

    def public_id(self, now: Instant, trigger_type: str) -> str:
        """Return an unguessable id, so that only those who were given it know it."""
        return f"{ONCE if trigger_type == 'once' else RECURRING}{secrets.token_hex(16)}"

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        if "body" in payload and "body_base64" in payload:
            raise InvalidInput(field="body_base64", problem="a request has one body; leave out one of the two")
        checked = checked_payload(HttpRequest, payload, KIND)
        subject = checked.get("label") or read_url(checked["url"]).host
        retries = checked.get("retries", RETRIES)
        callbacks = []
        for part, on in CALLBACKS.items():
            if part in checked:  # a callback has as many retries as the request that it follows
                headers = checked.get(f"{part}_headers", {})
                follow_up = {"method": "POST", "url": checked[part], "headers": headers, "retries": retries}
                callbacks.append(callback_to(on, follow_up, self.defaults))
        return Prepared(checked, subject, {"max_attempts": retries + 1, "callbacks": callbacks}, web="url")

    def create_warnings(self, definition: Definition, payload: Mapping[str, Any]) -> list[ScheduleWarning]:
        if MAY_BE_CLOSED.match(payload["url"]) is None:
            return []
        url = read_url(payload["url"])
        is_open = not is_closed(url.host, url.port, self._allowed_hosts)
        return [] if is_open else [warning("address_not_allowed", host=url.host)]

    def name_of(self, payload: Mapping[str, Any]) -> str | None:
        label: str | None = payload.get("label")
        return label

    def execute(self, work: Work) -> Outcome:
        if work.stop.is_set():
            taken_back = work.stop.reason is StopReason.CANCELLED
            return Cancelled("taken back before it went out") if taken_back else Returned()
        payload = work.payload
        early = work.claim.run.due + payload.get("delay", 0) * SECOND - self._clock.now()
        if early > 0 and payload.get("delay"):
            return Returned(after=early)
        data = work.event.data if work.event is not None else work.gift and work.gift.result
        if data is not None and not {"body", "body_base64"} & payload.keys():
            payload = _with_data(payload, data)
        return self.requester.send(_outgoing(work.claim, payload, work.policy))

    def close(self) -> None:
        self.requester.close()


def _with_data(payload: Mapping[str, Any], data: str) -> dict[str, Any]:
    """Return a request without a body as one that passes on the data of the event that started it, or what its gate
    saw. Its address stays as its author wrote it."""
    if payload["method"] in ("GET", "HEAD"):
        return dict(payload)
    headers = payload.get("headers", {})
    has_type = any(name.lower() == "content-type" for name in headers)
    typed = headers if has_type else {**headers, "Content-Type": "application/json"}
    return {**payload, "body": data, "headers": typed}


def _outgoing(claim: Claim, payload: Mapping[str, Any], policy: Policy) -> Outgoing:
    definition, run = claim.definition, claim.run
    return Outgoing(
        id=message_id(definition.public_id, run.id),
        owner=definition.owner,
        method=payload["method"],
        url=payload["url"],
        headers=_headers(claim, payload),
        body=body_of(payload),
        patience=float(payload.get("timeout", PATIENCE)),
        again=partial(retry_delay, payload.get("retry_delay", USUAL)),
        max_kept=KEPT_FOR_CALLBACK if policy.callbacks else KEPT,
        once=policy.at_most_once,
    )


def _headers(claim: Claim, payload: Mapping[str, Any]) -> dict[str, str]:
    """Return the client's headers, and those that identify the message and the attempt to the receiver."""
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
    own = {name: value for name, value in payload.get("headers", {}).items() if name.lower() not in set_by_us}
    return own | {name: value for name, value in ours.items() if value is not None}


def outcome_of(result: Mapping[str, Any]) -> str | None:
    """Return the receiver's answer, from the result of a run."""
    status = result.get("status")
    return f"Answered {status_name(status)}" if isinstance(status, int) else None
