"""One instant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from duetime.core.clock import Instant
from duetime.core.triggers.base import Trigger
from duetime.core.triggers.text import common_dict, instant_text


@dataclass(frozen=True, kw_only=True)
class OnceTrigger(Trigger):
    type: ClassVar[str] = "once"
    at: Instant

    def _following(self, instant: Instant) -> Instant | None:
        return self.at if self.at > instant else None

    def to_dict(self) -> dict[str, object]:
        return common_dict(self) | {"at": instant_text(self.at)}
