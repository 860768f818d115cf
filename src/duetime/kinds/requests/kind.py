"""The request kind: an HTTP call to a client's service at a set time. Answers other than 2xx are usually retried."""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Mapping
from operator import eq
from types import MappingProxyType
from typing import Any

from duetime.engine.clock import SECOND, Clock, Instant
from duetime.engine.encoding import is_text
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller, Prepared, StopReason, ThreadUse, Work
from duetime.engine.narrowing import Narrowing
from duetime.engine.outcome import Cancelled, Outcome, Returned
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.options import Overlap, Policy
from duetime.engine.urls import BadAddress, read_url
from duetime.kinds.requests.retry_delay import USUAL, read_formula, retry_delay
from duetime.kinds.requests.signing_keys import SigningKeys
from duetime.kinds.requests.wire import (
    CALLBACKS,
    KIND,
    LONGEST_PATIENCE,
    METHODS,
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
from duetime.net.calls import OURS, is_header_name, is_header_value, status_name
from duetime.service.kind_spec import KindHooks
from duetime.service.payload_model import Check, rule, whole_number

# Validation of the parts of a request. An error names the part and says what is valid.

MOST_RETRIES = 99
LONGEST_DELAY = 365 * 86_400
"""Maximum delay in seconds."""
_MOST_HEADERS = 100
_LONGEST_HEADERS = 32 * 1024
_LONGEST_TEXT = 200
_ID = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)


def checked_request(payload: Mapping[str, Any]) -> dict[str, Any]:
    for name in payload:
        if name not in _CHECKS:
            raise _refused(str(name)[:60], f"a request has no such part; it has {', '.join(_CHECKS)}")
    if "body" in payload and "body_base64" in payload:
        raise _refused("body_base64", "a request has one body; leave out one of the two")
    given = {"method": "POST", **{name: value for name, value in payload.items() if value is not None}}
    if "url" not in given:
        raise _refused("url", "is missing; give the address to call, such as https://hooks.example.org/path")
    return {name: _CHECKS[name](name, value) for name, value in given.items()}


def _refused(name: str, rule: str) -> InvalidInput:
    return InvalidInput(field=name, problem=f"{rule}")


def _url(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _refused(name, "must be a text such as https://hooks.example.org/path")
    try:
        read_url(value)
    except BadAddress as error:
        raise _refused(name, str(error)) from None
    return value


def _checked_headers(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or len(value) > _MOST_HEADERS:
        raise _refused(name, f"must be a table of at most {_MOST_HEADERS} names and values")
    for header, content in value.items():
        if not isinstance(header, str) or len(header) > _LONGEST_TEXT or not is_header_name(header):
            raise _refused(name, "a name holds characters that no header may have")
        if header.lower() in OURS:
            raise _refused(name, f"{header} is set by Duetime itself; leave it out")
        if not isinstance(content, str) or not is_header_value(content):
            raise _refused(name, f"{header} must be a text without line breaks and control characters")
    if sum(len(header) + len(content) for header, content in value.items()) > _LONGEST_HEADERS:
        raise _refused(name, f"they have more than {_LONGEST_HEADERS} characters together; send less")
    return dict(value)


def _formula(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _refused(name, "must be a text such as 1000 * (1 + retried)")
    read_formula(value)
    return value


def _is_base64(value: Any) -> bool:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        return False
    return isinstance(value, str)


def _is_short_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= _LONGEST_TEXT and value.isprintable()


def _is_redaction(text: Any) -> bool:
    if not isinstance(text, str):
        return False
    within = text.removeprefix("header[").removesuffix("]")
    return text in ("body", "headers") or (text == f"header[{within}]" and is_header_name(within))


_TEXT = rule(_is_short_text, f"must be a text of 1 to {_LONGEST_TEXT} characters that can be printed")
_CHECKS: dict[str, Check] = {
    "method": rule(lambda value: value in METHODS, f"must be one of {', '.join(METHODS)}"),
    "url": _url,
    "headers": _checked_headers,
    "body": rule(
        lambda value: isinstance(value, str) and is_text(value), "must be a text; what is none goes into body_base64"
    ),
    "body_base64": rule(_is_base64, "must be a text in base64"),
    "label": _TEXT,
    "retries": whole_number(0, MOST_RETRIES),
    "retry_delay": _formula,
    "timeout": whole_number(1, LONGEST_PATIENCE),
    "delay": whole_number(0, LONGEST_DELAY),
    "cron": _TEXT,
    "id": rule(
        lambda value: isinstance(value, str) and _ID.fullmatch(value) is not None,
        "must be 1 to 100 letters, digits, hyphens, periods and underscores",
    ),
    "callback": _url,
    "failure_callback": _url,
    "callback_headers": _checked_headers,
    "failure_callback_headers": _checked_headers,
    "redact": rule(
        lambda value: isinstance(value, list) and all(map(_is_redaction, value)), "holds body, headers and header[Name]"
    ),
}


PATIENCE = 300.0
"""Default timeout in seconds; long, because deferred calls are often to slow operations."""
KEPT, KEPT_FOR_CALLBACK = 4 * 1024, 48 * 1024
"""Bytes of an answer's body that are kept, to see what went wrong and to pass it on to a callback."""


class RequestKind(KindHooks):
    name = KIND
    # Each request's formula sets its retry delay, so the policy adds none. Every occurrence is a separate message: one
    # that is being retried does not delay the next, and failed ones stay in the DLQ instead of pausing the schedule.
    defaults: Mapping[str, Any] = MappingProxyType(
        {"max_attempts": RETRIES + 1, "backoff": 1, "backoff_limit": 1, "overlap": str(Overlap.ALLOW), "pause_after": 0}
    )
    counts_depth = True
    thread_use = ThreadUse.SHARED
    # Messages of a deleted schedule stay in the logs and the DLQ, and must show where they went but not their content.
    remembered: tuple[str, ...] = ("url", "method", "label", "id", "retries", "delay")
    # The policy follows from `retries`, which is therefore narrowed with it.
    narrowing = Narrowing({
        "timeout": lambda stored, new: (new or PATIENCE) <= (stored or PATIENCE),
        "retry_delay": eq,
        "redact": lambda stored, new: {*(stored or ())} <= {*(new or ())},
    })  # fmt: skip

    def __init__(self, requester: Requester, clock: Clock, keys: SigningKeys | None = None) -> None:
        """`keys` sign the requests; their owners read and rotate them."""
        self.requester, self._clock, self.keys = requester, clock, keys

    def public_id(self, now: Instant, trigger_type: str) -> str:
        """Return an unguessable id, so that only those who were given it know it."""
        return f"{ONCE if trigger_type == 'once' else RECURRING}{secrets.token_hex(16)}"

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        checked = checked_request(payload)
        subject = checked.get("label") or read_url(checked["url"]).host
        retries = checked.get("retries", RETRIES)
        callbacks = []
        for part, on in CALLBACKS.items():
            if part in checked:  # a callback has as many retries as the request that it follows
                headers = checked.get(f"{part}_headers", {})
                follow_up = {"method": "POST", "url": checked[part], "headers": headers, "retries": retries}
                callbacks.append(callback_to(on, follow_up, self.defaults))
        return Prepared(checked, subject, {"max_attempts": retries + 1, "callbacks": callbacks}, web="url")

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
        return self.requester.send(_outgoing(work.claim, payload, work.policy))

    def close(self) -> None:
        self.requester.close()


def _outgoing(claim: Claim, payload: Mapping[str, Any], policy: Policy) -> Outgoing:
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
        kept=KEPT_FOR_CALLBACK if policy.callbacks else KEPT,
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
    given = {name: value for name, value in payload.get("headers", {}).items() if name.lower() not in set_by_us}
    return given | {name: value for name, value in ours.items() if value is not None}


def outcome_of(result: Mapping[str, Any]) -> str | None:
    """Return the receiver's answer, from the result of a run."""
    status = result.get("status")
    return f"Answered {status_name(status)}" if isinstance(status, int) else None
