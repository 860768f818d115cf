"""Triggers that fire once or at intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from duetime.engine.clock import Instant
from duetime.engine.times.wall_clock import LATEST
from duetime.engine.triggers.base import Trigger, common_dict, instant_text


@dataclass(frozen=True, kw_only=True)
class OnceTrigger(Trigger):
    type: ClassVar[str] = "once"
    at: Instant

    def _following(self, instant: Instant) -> Instant | None:
        return self.at if self.at > instant else None

    def to_dict(self) -> dict[str, object]:
        return common_dict(self) | {"at": instant_text(self.at)}


@dataclass(frozen=True, kw_only=True)
class IntervalTrigger(Trigger):
    """Fires at anchor + period, anchor + 2 periods, and so on, not at the anchor. A late run never shifts the next."""

    type: ClassVar[str] = "interval"
    period: int
    anchor: Instant

    def _following(self, instant: Instant) -> Instant | None:
        elapsed = instant - self.anchor
        steps = elapsed // self.period + 1 if elapsed > 0 else 1
        return Instant(self.anchor + steps * self.period)

    def latest(self, after: Instant, until: Instant) -> Instant | None:
        first = self.next_after(after)
        last = self._last_until(until)
        return last if first is not None and first <= last else None

    def count(self, after: Instant, until: Instant, cap: int = 1000) -> int:
        """Return the exact number, whatever the cap: it takes one division."""
        first = self.next_after(after)
        last = self._last_until(until)
        return (last - first) // self.period + 1 if first is not None and first <= last else 0

    def _last_until(self, until: Instant) -> Instant:
        limit = min(until, LATEST, LATEST if self.end is None else self.end)
        return Instant(self.anchor + (limit - self.anchor) // self.period * self.period)

    def to_dict(self) -> dict[str, object]:
        return common_dict(self) | {"anchor": instant_text(self.anchor), "period_us": self.period}
