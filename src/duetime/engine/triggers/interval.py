"""Interval triggers: exact periods, days that keep their wall-clock time when clocks change, and daily windows."""

from __future__ import annotations

import re
from dataclasses import field
from typing import ClassVar, Final

from duetime.engine.clock import DAY, SECOND, Instant
from duetime.engine.errors import InvalidTrigger
from duetime.engine.times.grammar import DAY_NAMES, clock_text
from duetime.engine.times.wall_clock import DAY_SECONDS, LATEST, wall_clock
from duetime.engine.triggers.base import Trigger, WallTrigger, instant_text
from duetime.engine.value_class import dataclass, pattern

_SLACK: Final = 2
"""Number of steps by which an estimate with 24-hour days may be too late: no zone has moved its clock by more than
about a day."""


@dataclass(frozen=True, kw_only=True)
class IntervalTrigger(Trigger):
    """Fires at anchor + period, anchor + 2 periods, and so on, but not at the anchor. A late run never shifts the next
    one."""

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
        """Return the exact number, regardless of the cap, because it takes one division."""
        first = self.next_after(after)
        last = self._last_until(until)
        return (last - first) // self.period + 1 if first is not None and first <= last else 0

    def _last_until(self, until: Instant) -> Instant:
        limit = min(until, LATEST, LATEST if self.end is None else self.end)
        return Instant(self.anchor + (limit - self.anchor) // self.period * self.period)

    def to_dict(self) -> dict[str, object]:
        return super().to_dict() | {"anchor": instant_text(self.anchor), "period_us": self.period}


@dataclass(frozen=True, kw_only=True)
class DayIntervalTrigger(WallTrigger):
    """Fires every `days` days at the wall-clock time of the anchor: right after a gap that contains this time, and only
    once if the time comes twice. Each step adds `period` as exact time. It fires at the anchor only if that is also its
    start."""

    type: ClassVar[str] = "interval"
    days: int
    period: int = 0
    anchor: Instant
    local: int = field(init=False, repr=False, compare=False)
    """The anchor in wall-clock seconds."""

    def __post_init__(self) -> None:
        self._open_clock()
        t = self.anchor // SECOND
        object.__setattr__(self, "local", t + self.clock.stretch(t).offset)

    @property
    def _first(self) -> int:
        return 0 if self.start == self.anchor else 1

    def next_local(self, local: int) -> int | None:
        """Return the next time by the days alone, without the exact period."""
        step = self.days * DAY_SECONDS
        return self.local + max(-((self.local - local) // step), self._first) * step

    def _following(self, instant: Instant) -> Instant | None:
        about = (instant - self.anchor) // (self.days * DAY + self.period)
        step = max(about - _SLACK, self._first)
        while (following := self._nth(step)) <= instant:
            step += 1
        return following

    def _nth(self, step: int) -> Instant:
        if step == 0:
            return self.anchor
        local = self.local + step * self.days * DAY_SECONDS
        t, fraction = self.clock.first_reach(local), self.anchor % SECOND
        if fraction and t + self.clock.stretch(t).offset > local:  # right after the gap
            fraction = 0
        return Instant(t * SECOND + fraction + step * self.period)

    def to_dict(self) -> dict[str, object]:
        exact = {"period_us": self.period} if self.period else {}
        return super().to_dict() | {"anchor": instant_text(self.anchor), "days": self.days} | exact


_ALL_DAY: Final = (0, DAY_SECONDS)
_EVERY_DAY: Final = tuple(range(7))


@dataclass(frozen=True, kw_only=True)
class WindowTrigger(Trigger):
    """Fires within a window of each day: when the wall clock first shows its beginning, and then every `period` of
    exact time until its end, which is included. A window whose end is at or before its beginning ends on the next
    day."""

    type: ClassVar[str] = "interval"
    period: int
    between: tuple[int, int] = _ALL_DAY
    """Beginning and end in wall-clock seconds of the day."""
    weekdays: tuple[int, ...] = _EVERY_DAY
    """The days on which a window begins; Monday is 0."""

    def _next_day(self, day: int) -> int:
        while (day + EPOCH_WEEKDAY) % 7 not in self.weekdays:
            day += 1
        return day

    def _following(self, instant: Instant) -> Instant | None:
        t = instant // SECOND
        day = self._next_day((t + wall_clock(self.timezone).stretch(t).offset) // DAY_SECONDS - 2)
        while day * DAY_SECONDS <= LATEST // SECOND:
            following = self._within(day, instant)
            if following is not None:
                return following
            day = self._next_day(day + 1)
        return None

    def _within(self, day: int, instant: Instant) -> Instant | None:
        """Return the first time after `instant` in the window that begins on this day."""
        begin, end = self.between
        length = end - begin if end > begin else end - begin + DAY_SECONDS
        clock, local = wall_clock(self.timezone), day * DAY_SECONDS + begin
        first, last = (clock.first_reach(each) * SECOND for each in (local, local + length))
        if self.between == _ALL_DAY:
            last -= 1  # midnight belongs to the next day
        steps = (instant - first) // self.period + 1 if instant >= first else 0
        following = Instant(first + steps * self.period)
        return following if following <= last else None

    def to_dict(self) -> dict[str, object]:
        window = {"period_us": self.period, "between": "-".join(map(clock_text, self.between))}
        days = {} if self.weekdays == _EVERY_DAY else {"weekdays": ",".join(DAY_NAMES[day] for day in self.weekdays)}
        return super().to_dict() | window | days


EPOCH_WEEKDAY: Final = 3  # the epoch was a Thursday
_CLOCK = r"([01]?[0-9]|2[0-4]):([0-5][0-9])"
_WINDOW = pattern(rf"\s*{_CLOCK}\s*-\s*{_CLOCK}\s*", re.ASCII)


def window_of(value: object) -> tuple[int, int]:
    """Parse a daily window such as 09:00-17:00."""
    match = _WINDOW.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        begin, end = ((int(match[place]) * 60 + int(match[place + 1])) * 60 for place in (1, 3))
        if begin != end and begin < DAY_SECONDS and end <= DAY_SECONDS:
            return begin, end
    raise InvalidTrigger(field="between", problem='must be a daily window such as "09:00-17:00".')


def weekdays_of(value: object) -> tuple[int, ...]:
    """Parse weekdays such as mon-fri or mon,wed,fri."""
    days: set[int] = set()
    for part in value.lower().split(",") if isinstance(value, str) and len(value) <= 100 else [""]:
        names = [name.strip()[:3] for name in part.split("-")]
        if len(names) > 2 or not all(name in DAY_NAMES for name in names):
            raise InvalidTrigger(field="weekdays", problem='must be days such as "mon-fri" or "mon,wed,fri".')
        first, last = (DAY_NAMES.index(name) for name in (names[0], names[-1]))
        days |= {day % 7 for day in range(first, last + 1 if last >= first else last + 8)}
    return tuple(sorted(days))
