"""A trigger whose rule changes at an instant: one rule applies until then, another one from then on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from duetime.engine.clock import Instant
from duetime.engine.triggers.base import Trigger, instant_text


@dataclass(frozen=True, kw_only=True)
class ChangingTrigger(Trigger):
    type: ClassVar[str] = "changing"
    changes: Instant
    """From this instant on, included, the rule `after` applies."""
    before: Trigger
    after: Trigger

    def _following(self, instant: Instant) -> Instant | None:
        found = self.before.next_after(instant) if instant < self.changes else None
        if found is not None and found < self.changes:
            return found
        return self.after.next_after(max(instant, Instant(self.changes - 1)))

    def to_dict(self) -> dict[str, object]:
        rules = {"before": self.before.to_dict(), "after": self.after.to_dict()}
        return super().to_dict() | {"changes": instant_text(self.changes), **rules}


def changing(before: Trigger, after: Trigger, changes: Instant, now: Instant) -> ChangingTrigger:
    """Return a trigger that changes its rule at an instant. A rule that has been replaced by now is left out."""
    while isinstance(before, ChangingTrigger) and before.changes <= now:
        before = before.after
    jitter = max(before.jitter, after.jitter)
    return ChangingTrigger(timezone=after.timezone, jitter=jitter, changes=changes, before=before, after=after)


def changes_of(trigger: Trigger) -> int:
    """Return how often the rule of a trigger changes."""
    if not isinstance(trigger, ChangingTrigger):
        return 0
    return 1 + changes_of(trigger.before) + changes_of(trigger.after)
