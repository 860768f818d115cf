"""Redaction of displayed requests: parts that the client wants hidden are shown as digests, as in QStash, but sent
unchanged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from duetime.engine.redaction import MASK
from duetime.kinds.requests.wire import CALLBACKS, body_of
from duetime.service.masking import LONGEST, PayloadMasking, masked, origin_of, shortened

_BODIES: Final = ("body", "body_base64")
_ADDRESSES: Final = ("url", *CALLBACKS)
"""Parts that hold a URL. A callback receives the headers and the body of the request it follows."""


class RequestMasking(PayloadMasking):
    """Also applies the client's own `redact` list."""

    def hide(self, payload: Any) -> Any:
        if not isinstance(payload, dict):
            return masked(payload)
        view = redact(payload)
        if "about" in view:  # of JSON texts, which are shown as values
            about = view["about"]
            texts = {name: about[name] for name in ("payload", "result") if isinstance(about.get(name), str)}
            view["about"] = about | {name: json.loads(text) for name, text in texts.items()}
        return masked(view)

    def hide_on_page(self, view: Any) -> Any:
        """Hide the values of all headers, since any may be a credential."""
        if not isinstance(view, dict):
            return view
        view = dict(view)
        if isinstance(view.get("headers"), dict):
            view["headers"] = dict.fromkeys(view["headers"], MASK)
        if isinstance(view.get("about"), dict):
            view["about"] = view["about"] | {"payload": self.hide_on_page(view["about"].get("payload"))}
        return view

    def brief(self, value: Any, hide: Callable[[Any], Any], longest: int | list[int] = LONGEST) -> Any:
        """Hide first, because base64 that was cut cannot be decoded."""
        return shortened(hide(value), longest)

    def restore(self, payload: Any, stored: Any) -> Any:
        if isinstance(payload, dict) and isinstance(stored, dict):
            payload = _restore_digests(payload, stored)
        return super().restore(payload, stored)

    def other_places(self, payload: Mapping[str, Any], stored: Mapping[str, Any]) -> Iterator[str]:
        for name in _ADDRESSES:
            if name in payload and origin_of(payload[name]) != origin_of(stored.get(name)):
                yield f"the {name}"
        parts = payload.get("redact")
        for part in stored.get("redact", ()):
            if not isinstance(parts, list) or part not in parts:
                yield f"a redact without {part}"
        yield from super().other_places(payload, stored)


MASKING = RequestMasking()


def redact(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a redacted copy. A callback contains the request that it follows, which is redacted by its own rules."""
    hidden = {part.lower() for part in payload.get("redact", ())}
    view = dict(payload)
    if "body" in hidden:
        view = {name: value for name, value in view.items() if name not in _BODIES}
        view["body"] = _digest(body_of(payload))
    if "headers" in payload:
        view["headers"] = {
            name: _digest(value.encode()) if {"headers", f"header[{name.lower()}]"} & hidden else value
            for name, value in payload["headers"].items()
        }
    if "about" in payload:
        about = payload["about"]
        view["about"] = {**about, "payload": json.dumps(redact(json.loads(about["payload"])))}
    return view


def _digest(value: bytes) -> str:
    return f"REDACTED:{hashlib.sha256(value).hexdigest()}"


def _restore_digests(payload: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Restore the stored values of parts that are sent back in their redacted form."""
    view, restored = redact(stored), dict(payload)
    if "body" in view and payload.get("body") == view["body"]:
        del restored["body"]
        restored |= {name: stored[name] for name in _BODIES if name in stored}
    headers, originals = payload.get("headers"), stored.get("headers", {})
    if isinstance(headers, dict):
        restored["headers"] = {
            name: originals[name] if name in originals and value == view["headers"][name] else value
            for name, value in headers.items()
        }
    return restored
