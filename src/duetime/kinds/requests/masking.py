"""Redaction of displayed requests: parts that the client wants hidden are shown as digests, as in QStash, but sent
unchanged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from duetime.engine.redaction import MASK
from duetime.kinds.requests.wire import CALLBACKS, body_of
from duetime.service.masking import LONGEST, PayloadMasking, masked, masked_base64, origin_of, shortened

_BASE64: Final = "body_base64"
_BODIES = ("body", _BASE64)
_ADDRESSES: Final = ("url", *CALLBACKS)
"""Parts that hold a URL. A callback receives the headers and the body of the request it follows."""


class RequestMasking(PayloadMasking):
    """Also applies the client's own `redact` list, and examines bodies, which are stored in base64."""

    def hide(self, payload: Any) -> Any:
        if not isinstance(payload, dict):
            return masked(payload)
        shown = redacted(payload)
        if "about" in shown:
            shown["about"] = {name: _readable(name, value) for name, value in shown["about"].items()}
        if _BASE64 in shown:
            shown[_BASE64] = masked_base64(shown[_BASE64])
        return masked(shown)

    def hide_on_page(self, shown: Any) -> Any:
        """Hide the values of all headers, since any may be a credential."""
        if not isinstance(shown, dict):
            return shown
        shown = dict(shown)
        if isinstance(shown.get("headers"), dict):
            shown["headers"] = dict.fromkeys(shown["headers"], MASK)
        if isinstance(shown.get("about"), dict):
            shown["about"] = shown["about"] | {"payload": self.hide_on_page(shown["about"].get("payload"))}
        return shown

    def hide_result(self, result: Any) -> Any:
        if isinstance(result, dict) and isinstance(result.get("body"), str):
            result = {**result, "body": masked_base64(result["body"])}
        return masked(result)

    def brief(self, value: Any, hide: Callable[[Any], Any], longest: int | list[int] = LONGEST) -> Any:
        """Hide first, because base64 that was cut cannot be decoded."""
        return shortened(hide(value), longest)

    def restore(self, given: Any, stored: Any) -> Any:
        if isinstance(given, dict) and isinstance(stored, dict):
            given = unredacted(given, stored)
            if _BASE64 in stored and given.get(_BASE64) == masked_base64(stored[_BASE64]):
                given[_BASE64] = stored[_BASE64]
        return super().restore(given, stored)

    def other_places(self, changed: Mapping[str, Any], stored: Mapping[str, Any]) -> Iterator[str]:
        for name in _ADDRESSES:
            if name in changed and origin_of(changed[name]) != origin_of(stored.get(name)):
                yield f"the {name}"
        kept = changed.get("redact")
        for each in stored.get("redact", ()):
            if not isinstance(kept, list) or each not in kept:
                yield f"a redact without {each}"
        yield from super().other_places(changed, stored)


MASKING = RequestMasking()


def _readable(name: str, value: Any) -> Any:
    """Parse payload and result, which are JSON texts, so that the names in them can be checked."""
    if name not in ("payload", "result") or not isinstance(value, str):
        return value
    opened = json.loads(value)
    hidden = _BASE64 if name == "payload" else "body"
    if isinstance(opened, dict) and isinstance(opened.get(hidden), str):
        opened[hidden] = masked_base64(opened[hidden])
    return opened


def redacted(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a redacted copy. A callback contains the request that it follows, which is redacted by its own rules."""
    hidden = {each.lower() for each in payload.get("redact", ())}
    shown = dict(payload)
    if "body" in hidden:
        shown = {name: value for name, value in shown.items() if name not in _BODIES}
        shown["body"] = _digest(body_of(payload))
    if "headers" in payload:
        shown["headers"] = {
            name: _digest(value.encode()) if {"headers", f"header[{name.lower()}]"} & hidden else value
            for name, value in payload["headers"].items()
        }
    if "about" in payload:
        about = payload["about"]
        shown["about"] = {**about, "payload": json.dumps(redacted(json.loads(about["payload"])))}
    return shown


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
