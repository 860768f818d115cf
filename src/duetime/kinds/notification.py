"""Notifications: messages to a person. Without a channel they arrive in the built-in inbox: the completed runs."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from duetime.core.clock import Instant
from duetime.core.delivering import ATTEMPTS, INBOX
from duetime.core.kind import Caller, Prepared, StopReason, Work
from duetime.core.outcome import Cancelled, Completed, Outcome
from duetime.kinds.notification_fields import checked_payload


class NotificationKind:
    name = "notification"
    defaults: Mapping[str, Any] = MappingProxyType({"max_attempts": ATTEMPTS})

    def public_id(self, now: Instant, trigger_type: str) -> str:
        """Unguessable: whoever knows one was given it."""
        return f"{'msg' if trigger_type == 'once' else 'scd'}_{secrets.token_hex(16)}"

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        checked = checked_payload(payload)
        return Prepared(checked, checked["topic"])

    def execute(self, work: Work) -> Outcome:
        if work.stop.reason is StopReason.CANCELLED:
            return Cancelled("taken back before it went out")
        sent = {"channel": INBOX, "notification_id": work.claim.definition.public_id, **work.payload}
        return Completed(json.dumps(sent, ensure_ascii=False, separators=(",", ":")))

    def close(self) -> None:
        """Nothing is open: the inbox is the store."""
