"""Payload models: a dataclass that describes the payload of a kind, which then needs no tools, command or form of its
own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from duetime.engine.clock import SECOND, Instant
from duetime.engine.kind import Caller, Prepared, ThreadUse
from duetime.service.kind_spec import KindHooks
from duetime.service.payload_fields import checked_payload


class ModelKind(KindHooks):
    """Base of a kind whose payload is described by a dataclass. Subclasses add `name`, `model` and `execute`."""

    name: str
    model: ClassVar[type[Any]]
    subject: ClassVar[str] = ""
    """Payload field under which its schedules are filed, so that lists can be filtered by it."""
    thread_use = ThreadUse.SHARED

    def public_id(self, now: Instant, trigger_type: str) -> str:
        return f"{self.name}_{{id}}_{now // SECOND}"

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        checked = checked_payload(self.model, payload, self.name)
        return Prepared(checked, str(checked.get(self.subject, self.name))[:200])

    def close(self) -> None:
        """Do nothing, because there is nothing to stop."""
