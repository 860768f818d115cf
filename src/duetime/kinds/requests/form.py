"""The dashboard's form of a request: its JSON without the parts that are never shown. Programs create requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from duetime.dashboard.kind_forms import KindForm, Values, json_of
from duetime.service.masking import refuse_other_places, unmasked_payload

_HELD_BACK: Final = ("headers", "about")
"""Parts that are never shown. Unless new values are given they are kept, and then the destination may not change."""


class RequestForm(KindForm):
    fields = ("payload",)
    template = "request/form.html"
    creates = False
    create_command = ("request", "add", "https://example.org/hook", "--every", "1h")

    def show(self, payload: Mapping[str, Any]) -> Values:
        seen = {name: value for name, value in payload.items() if name not in _HELD_BACK}
        return {"payload": json.dumps(seen, indent=2, ensure_ascii=False)}

    def title_of(self, name: str, payload: Mapping[str, Any]) -> str:
        """Return the method and the host of a request that was given no label."""
        method = str(payload.get("method", ""))
        if name != f"{method} request":
            return name
        try:
            host = urlsplit(str(payload.get("url", ""))).hostname
        except ValueError:
            host = None
        return f"{method} {host}" if host else name

    def payload(self, kind: str, values: Values, stored: Mapping[str, Any]) -> dict[str, Any]:
        payload = json_of(values, "payload", dict)
        held = {name: stored[name] for name in _HELD_BACK if name in stored and name not in payload}
        changed: dict[str, Any] = unmasked_payload(kind, payload, dict(stored)) | held
        if any(held.values()):
            refuse_other_places(kind, changed, stored, depth=0)
        return changed


FORM = RequestForm()
