"""Definitions that the request kind, its sender and the interfaces share."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from duetime.engine.outcome import Outcome
from duetime.engine.policy.options import NotifyOn

KIND = "request"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
ONCE, RECURRING = "msg_", "scd_"
"""Prefixes of the ids of one-off and recurring requests."""
RETRIES = 3
"""Default number of retries after the first attempt."""
CALLBACKS = {"callback": NotifyOn.ALWAYS, "failure_callback": NotifyOn.FAILURE}
"""The parts of a request that name a follow-up request, and when it is sent."""
LONGEST_PATIENCE = 7200
"""Maximum seconds of an attempt, which occupies its thread meanwhile."""

_MADE_BY_A_SCHEDULE = re.compile(rf"{ONCE}([0-9a-f]{{32}})_([0-9]{{1,18}})", re.ASCII)
_FAILED = re.compile(r"dlq_([0-9]{1,18})", re.ASCII)


class Outgoing(NamedTuple):
    """An attempt at a request. Its id is the same on every attempt, so that a receiver can recognize repeats."""

    id: str
    owner: str
    """The owner whose key signs it."""
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    patience: float
    """Seconds that this attempt may take."""
    again: Callable[[int], int]
    """Returns the microseconds until the next attempt if this one fails and the receiver requests no other delay, from
    the number of failed attempts before."""
    max_kept: int
    """Maximum bytes of the answer's body that are kept."""
    once: bool = False
    """True if it must never reach the receiver twice."""


class Requester(Protocol):
    def send(self, outgoing: Outgoing) -> Outcome:
        """Make one attempt, in a pool thread; never raises because of the network or the receiver. The answer is the
        outcome's result: `status`, `header` and, as base64, `body`."""

    def close(self) -> None: ...


def message_id(schedule: str, run: int) -> str:
    """Return the message id: a one-off's own id, or a separate id for each run of a recurring request."""
    return schedule if schedule.startswith(ONCE) else f"{ONCE}{schedule.removeprefix(RECURRING)}_{run}"


def schedule_and_run(message: str) -> tuple[str, int] | None:
    """Return the schedule and run of a message from a recurring schedule; None for any other id."""
    match = _MADE_BY_A_SCHEDULE.fullmatch(message)
    return (f"{RECURRING}{match[1]}", int(match[2])) if match else None


def dlq_id(run: int) -> str:
    return f"dlq_{run}"


def failed_run(dlq: str) -> int | None:
    match = _FAILED.fullmatch(dlq)
    return int(match[1]) if match else None


def callback_to(on: NotifyOn, payload: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Return a callback as stored in the policy of the request it follows; `usual` is the default policy."""
    policy = {**usual, "max_attempts": payload["retries"] + 1}
    return {"on": str(on), "kind": KIND, "payload": dict(payload), "policy": policy}


def schedule_id(public_id: str, payload: Mapping[str, Any]) -> str | None:
    """Return the id that the client gave the schedule, or its public id; None for a one-off."""
    return payload.get("id", public_id) if public_id.startswith(RECURRING) else None


def body_of(payload: Mapping[str, Any]) -> bytes:
    """Return the body to send: for a callback, a report on the request that it follows; otherwise the given body."""
    if "about" in payload:
        return json.dumps(callback_body(payload["about"]), separators=(",", ":")).encode()
    if "body_base64" in payload:
        return base64.b64decode(payload["body_base64"])
    text: str = payload.get("body", "")
    return text.encode()


def callback_body(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report on a request. Without any answer the status is 0, and the body gives the reason."""
    source = json.loads(about["payload"])
    answer = json.loads(about["result"] or "null") or {}
    body = {
        "status": answer.get("status", 0),
        "header": answer.get("header", {}),
        "body": answer.get("body", _encoded((about["error"] or "").encode())),
        "retried": max(0, about["attempt"] - 1),
        "maxRetries": source.get("retries", RETRIES),
        "dlqId": dlq_id(about["run"]) if about["status"] == "failed" else None,  # the DLQ has no other runs
        "sourceMessageId": message_id(about["schedule"], about["run"]),
        "url": source["url"],
        "method": source["method"],
        "sourceHeader": header_lists(source.get("headers", {})),
        "sourceBody": _encoded(body_of(source)),
        "notBefore": about["due"] // 1000,
        "createdAt": about["created"] // 1000,
        "scheduleId": schedule_id(about["schedule"], source),
    }
    return {name: value for name, value in body.items() if value is not None}


def header_lists(headers: Mapping[str, str]) -> dict[str, list[str]]:
    return {name: [value] for name, value in headers.items()}


def _encoded(body: bytes) -> str:
    return base64.b64encode(body).decode()
