"""Triggers that read the wall clock: a pattern of local times becomes instants, daylight saving included."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

from duetime.core.clock import SECOND, Instant
from duetime.core.triggers.base import Trigger
from duetime.core.triggers.step_budget import spend
from duetime.core.wallclock import DAY_SECONDS, WallClock, wall_clock

_FARTHEST = 400 * 366 * DAY_SECONDS  # the calendar repeats after 400 years


@dataclass(frozen=True, kw_only=True)
class WallTrigger(Trigger):
    """Two readings of a local time. Fixed: it happens when the wall clock first shows it or has passed it, so
    a time in the gap comes right after it and a repeated hour counts once. Following: it happens whenever the
    wall clock shows it, so a skipped time never comes and a repeated one comes twice.
    """

    clock: WallClock = field(init=False, repr=False, compare=False)
    follows: bool = field(init=False, repr=False, compare=False, default=False)

    @abstractmethod
    def next_local(self, local: int) -> int | None:
        """The first local time of the pattern at or after `local`, in wall-clock seconds."""

    def _open_clock(self) -> None:
        object.__setattr__(self, "clock", wall_clock(self.timezone))

    def _following(self, instant: Instant) -> Instant | None:
        t = instant // SECOND
        if self.follows:
            followed = self._next_followed(t + 1)
            return None if followed is None else Instant(followed * SECOND)
        _, hi, offset, reached = self.clock.stretch(t)
        shown = t + offset
        local = self.next_local((shown if shown > reached else reached) + 1)
        if local is None:
            return None
        found = local - offset
        return Instant((found if found < hi else self.clock.first_reach(local)) * SECOND)

    def _next_followed(self, t: int) -> int | None:
        farthest = t + _FARTHEST
        while t < farthest:
            spend()
            _, hi, offset, _ = self.clock.stretch(t)
            local = self.next_local(t + offset)
            if local is not None and local - offset < hi:
                return local - offset
            if hi - t < 2 * DAY_SECONDS:  # the clock may yet go back to a time before this one
                t = hi
            elif local is None:
                return None
            else:
                t = max(hi, local - 2 * DAY_SECONDS)
        return None
