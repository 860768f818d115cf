"""What every trigger is: a frozen value that answers which instant comes next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final

from duetime.core.clock import SECOND, Instant
from duetime.core.triggers.step_budget import EVALUATION_STEPS, budgeted, step_budget, take_step
from duetime.core.wallclock import LATEST

BEFORE_ALL: Final = Instant(-1)
"""Instants begin at the epoch; anything earlier is read as just before it."""


@dataclass(frozen=True, kw_only=True)
class Trigger(ABC):
    """Occurrences between `start` and `end`, both included; `jitter` is carried along, never applied here."""

    type: ClassVar[str]
    timezone: str
    start: Instant | None = None
    end: Instant | None = None
    jitter: int = 0

    @abstractmethod
    def _following(self, instant: Instant) -> Instant | None:
        """The first occurrence strictly after `instant`, bounds aside."""

    @abstractmethod
    def to_dict(self) -> dict[str, object]:
        """Plain data from which `trigger_from_dict` makes an equal trigger."""

    def next_after(self, instant: Instant) -> Instant | None:
        """The first occurrence strictly after `instant`, or None when there is no further one."""
        if not take_step():
            with step_budget(EVALUATION_STEPS):
                return self.next_after(instant)
        if self.start is not None and instant < self.start:
            instant = Instant(self.start - 1)
        found = self._following(instant if instant > BEFORE_ALL else BEFORE_ALL)
        if found is None or found > LATEST or (self.end is not None and found > self.end):
            return None
        return found

    @budgeted
    def latest(self, after: Instant, until: Instant) -> Instant | None:
        """The last occurrence in (after, until], by bisection: cheap however many lie in between."""
        found = self.next_after(after)
        if found is None or found > until:
            return None
        silent = until
        while silent - found >= SECOND:
            middle = Instant((found + silent) // 2)
            later = self.next_after(middle)
            if later is None or later > until:
                silent = middle
            else:
                found = later
        return found

    @budgeted
    def count(self, after: Instant, until: Instant, cap: int = 1000) -> int:
        """How many occurrences lie in (after, until]; beyond `cap` the answer is cap + 1."""
        counted = 0
        found = self.next_after(after)
        while found is not None and found <= until and counted <= cap:
            counted += 1
            found = self.next_after(found)
        return counted
