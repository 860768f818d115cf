"""Redaction of displayed requests: parts that the client wants hidden are digests, as in QStash, but are sent whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from duetime.kinds.requests.wire import body_of

_BODIES = ("body", "body_base64")


def redacted(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a redacted copy. A callback contains the request that it follows, which is redacted by its own rules."""
    hidden = {each.lower() for each in payload.get("redact", ())}
    shown = dict(payload)
    if "body" in hidden:
        shown = {name: value for name, value in shown.items() if name not in _BODIES}
        shown["body"] = _digest(body_of(payload))
    if "headers" in payload:
        shown["headers"] = {name: _header(name, value, hidden) for name, value in payload["headers"].items()}
    if "about" in payload:
        about = payload["about"]
        shown["about"] = {**about, "payload": json.dumps(redacted(json.loads(about["payload"])))}
    return shown


def _header(name: str, value: str, hidden: set[str]) -> str:
    return _digest(value.encode()) if {"headers", f"header[{name.lower()}]"} & hidden else value


def _digest(value: bytes) -> str:
    return f"REDACTED:{hashlib.sha256(value).hexdigest()}"


def unredacted(given: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Restore the stored values of parts that are sent back in their redacted form."""
    shown, restored = redacted(stored), dict(given)
    if "body" in shown and given.get("body") == shown["body"]:
        del restored["body"]
        restored |= {name: stored[name] for name in _BODIES if name in stored}
    headers, kept = given.get("headers"), stored.get("headers", {})
    if isinstance(headers, dict):
        restored["headers"] = {
            name: kept[name] if name in kept and value == shown["headers"][name] else value
            for name, value in headers.items()
        }
    return restored
