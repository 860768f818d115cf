"""HTTP requests as work: the words that their kind, their delivery and the faces share."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from duetime.engine.outcome import Outcome
from duetime.engine.policy.options import NotifyOn

KIND = "request"
ONCE, RECURRING = "msg_", "scd_"
"""How the ids of requests begin, by how often they fire."""
RETRIES = 3
"""After the first attempt, unless its maker says otherwise."""
CALLBACKS = {"callback": NotifyOn.ALWAYS, "failure_callback": NotifyOn.FAILURE}
"""The parts of a request that name another one to follow it, and when."""
LONGEST_PATIENCE = 7200
"""Seconds that an attempt may take at most; its thread does nothing else meanwhile."""

_MADE_BY_A_SCHEDULE = re.compile(rf"{ONCE}([0-9a-f]{{32}})_([0-9]{{1,18}})", re.ASCII)
_FAILED = re.compile(r"dlq_([0-9]{1,18})", re.ASCII)


class Outgoing(NamedTuple):
    """One attempt at a request. Its id is the same on every attempt, so that a receiver can tell."""

    id: str
    owner: str
    """Whose key signs it."""
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    patience: float
    """Seconds that this attempt may take."""
    again: int
    """Microseconds until the next attempt, where this one fails and the receiver says nothing of it."""
    kept: int
    """Bytes of the answer that are worth keeping."""


class Requester(Protocol):
    def host_of(self, url: str) -> str:
        """Raises InvalidInput for what nothing could be sent to."""

    def send(self, outgoing: Outgoing) -> Outcome:
        """One attempt, in a thread of the pool; never raises for what a network or a receiver does. Whatever was
        answered is the outcome's result: `status`, `header` and, as base64, `body`."""

    def close(self) -> None: ...


def message_id(schedule: str, run: int) -> str:
    """A one-off goes by its own id; each occurrence of what recurs is a message of its own."""
    return schedule if schedule.startswith(ONCE) else f"{ONCE}{schedule.removeprefix(RECURRING)}_{run}"


def schedule_and_run(message: str) -> tuple[str, int] | None:
    """Where to look for a message that a schedule made; None for any other id."""
    match = _MADE_BY_A_SCHEDULE.fullmatch(message)
    return (f"{RECURRING}{match[1]}", int(match[2])) if match else None


def dlq_id(run: int) -> str:
    return f"dlq_{run}"


def failed_run(dlq: str) -> int | None:
    match = _FAILED.fullmatch(dlq)
    return int(match[1]) if match else None


def callback_to(on: NotifyOn, payload: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """A request that follows another one, as its policy holds it; `usual` are the policies of any request."""
    policy = {**usual, "max_attempts": payload["retries"] + 1}
    return {"on": str(on), "kind": KIND, "payload": dict(payload), "policy": policy}


def schedule_id(public_id: str, payload: Mapping[str, Any]) -> str | None:
    """As its maker calls it; None for a one-off."""
    return payload.get("id", public_id) if public_id.startswith(RECURRING) else None


def body_of(payload: Mapping[str, Any]) -> bytes:
    """What is sent: a callback tells what it follows, everything else was given."""
    if "about" in payload:
        return json.dumps(callback_body(payload["about"]), separators=(",", ":")).encode()
    if "body_base64" in payload:
        return base64.b64decode(payload["body_base64"])
    text: str = payload.get("body", "")
    return text.encode()


def callback_body(about: Mapping[str, Any]) -> dict[str, Any]:
    """What became of a request. Without any answer the status is 0, and the body says why."""
    source = json.loads(about["payload"])
    answer = json.loads(about["result"] or "null") or {}
    failed = about["status"] != "completed"
    body = {
        "status": answer.get("status", 0),
        "header": answer.get("header", {}),
        "body": answer.get("body", _encoded((about["error"] or "").encode())),
        "retried": max(0, about["attempt"] - 1),
        "maxRetries": source.get("retries", RETRIES),
        "dlqId": dlq_id(about["run"]) if failed else None,
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
