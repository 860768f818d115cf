"""Base classes of triggers, which are frozen values that compute the next occurrence; also two triggers: one that fires
once, and one whose rule changes at an instant."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import field
from datetime import date, datetime
from functools import lru_cache
from typing import ClassVar, Final
from weakref import ref

from duetime.engine.clock import DAY, SECOND, Instant, instant_of
from duetime.engine.errors import InvalidTrigger
from duetime.engine.times.wall_clock import DAY_SECONDS, LAST_SECOND, LATEST, WallClock, wall_clock
from duetime.engine.triggers.step_budget import budgeted, spend, take_step, with_own_budget
from duetime.engine.value_class import dataclass

EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
LAST_DAY: Final = LAST_SECOND // DAY_SECONDS
EVERY_SEVENTH: Final = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28

_LAST_MONTH: Final = 9999 * 12 + 11
_MOST_KEPT: Final = 1000
"""Entries in one cache of a set of days."""
_MOST_KEPT_IN_ALL: Final = 100_000
"""Entries in the caches of all sets of days together, about 100 bytes each; rules that fire rarely need many."""


def lowest(bits: int) -> int:
    """Return the number of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1


class DaySet(ABC):
    """A set of days, computed month by month as one bit per day, and cached. Days are numbered from the epoch; months
    are year * 12 + month - 1."""

    horizon: int
    """The number of months without a day to search before concluding that there is no further day."""

    def __init__(self) -> None:
        self._masks: dict[int, int] = {}
        self._known: dict[int, int] = {}
        self._has_entries = False

    @abstractmethod
    def month_bits(self, year: int, month: int) -> int:
        """Return a bit set in which bit n is set if day n of the month belongs to the set."""

    def next_day(self, day: int) -> int | None:
        """Return the first day of the set from `day` on; cached, because callers ask about the same few days."""
        following = self._known.get(day)
        return self._find(day) if following is None else following

    def _find(self, day: int) -> int | None:
        if day > LAST_DAY:
            return None
        when = date.fromordinal(day + EPOCH_ORDINAL)
        month = when.year * 12 + when.month - 1
        bits = self._mask(month) >> when.day
        following = day + lowest(bits) if bits else self._next_month(month + 1)
        if following is not None:
            self._keep(self._known, day, following)
            self._keep(self._known, following, following)
        return following

    def _next_month(self, month: int) -> int | None:
        for index in range(month, min(month + self.horizon, _LAST_MONTH) + 1):
            bits = self._mask(index)
            if bits:
                return date(index // 12, index % 12 + 1, lowest(bits)).toordinal() - EPOCH_ORDINAL
        return None

    def _mask(self, month: int) -> int:
        mask = self._masks.get(month)
        if mask is None:
            spend()
            mask = self.month_bits(month // 12, month % 12 + 1)
            self._keep(self._masks, month, mask)
        return mask

    def _keep(self, cache: dict[int, int], key: int, value: int) -> None:
        if len(cache) >= _MOST_KEPT:
            cache.clear()
        if not self._has_entries:
            self._has_entries = True
            _entries.sets.append(ref(self))
        cache[key] = value
        _entries.number += 1
        if _entries.number > _MOST_KEPT_IN_ALL:
            _entries.drop()

    def drop_entries(self) -> None:
        self._has_entries = False
        self._masks.clear()
        self._known.clear()


class _Entries:
    """Counts the entries that all sets have cached. Entries that one set drops still count until all are dropped."""

    def __init__(self) -> None:
        self.number = 0
        self.sets: list[ref[DaySet]] = []

    def drop(self) -> None:
        """Drop all entries; recomputing those of a realistic rule takes only a few steps."""
        sets, self.sets, self.number = self.sets, [], 0
        for each in sets:
            if (owner := each()) is not None:
                owner.drop_entries()


_entries: Final = _Entries()


class TimeSet:
    """The times of a day, or of a part of it, whose minute is in one bit set and whose second of the minute is in
    another, so that even a set of every second is small and quick to read."""

    def __init__(self, minutes: int, seconds: int) -> None:
        self.minutes, self.seconds = minutes, seconds
        self.first = lowest(minutes) * 60 + lowest(seconds)

    def next_time(self, second: int) -> int | None:
        """Return the first time of the set at or after a second."""
        minute, rest = divmod(second, 60)
        minutes = self.minutes >> minute
        if minutes & 1:
            seconds = self.seconds >> rest
            if seconds:
                return second + lowest(seconds)
            minutes ^= 1
        return (minute + lowest(minutes)) * 60 + lowest(self.seconds) if minutes else None


BEFORE_ALL: Final = Instant(-1)
"""Just before the epoch, where instants begin; any earlier instant is treated as this one."""


@dataclass(frozen=True, kw_only=True)
class Trigger(ABC):
    """A trigger with occurrences between `start` and `end`, both inclusive; `jitter` is stored here, never applied."""

    type: ClassVar[str]
    smallest_gap: ClassVar[int] = 1
    """Minimum number of microseconds between two occurrences."""
    timezone: str
    start: Instant | None = None
    end: Instant | None = None
    jitter: int = 0

    @abstractmethod
    def _following(self, instant: Instant) -> Instant | None:
        """Return the first occurrence strictly after `instant`, regardless of `start` and `end`."""

    def to_dict(self) -> dict[str, object]:
        """Return plain data from which `trigger_from_dict` makes an equal trigger. Fields that are not set are left
        out, so that equal triggers have equal text; each type adds its own fields."""
        common: dict[str, object] = {"type": self.type, "timezone": self.timezone}
        if self.start is not None:
            common["start"] = instant_text(self.start)
        if self.end is not None:
            common["end"] = instant_text(self.end)
        if self.jitter:
            common["jitter_us"] = self.jitter
        return common

    def next_after(self, instant: Instant) -> Instant | None:
        """Return the first occurrence strictly after `instant`, or None if there is none."""
        if not take_step():
            return with_own_budget(self.next_after, instant)
        if self.start is not None and instant < self.start:
            instant = Instant(self.start - 1)
        following = self._following(instant if instant > BEFORE_ALL else BEFORE_ALL)
        if following is None or following > LATEST or (self.end is not None and following > self.end):
            return None
        return following

    @budgeted
    def latest(self, after: Instant, until: Instant) -> Instant | None:
        """Return the last occurrence in (after, until], by bisection, so that the cost does not depend on how many lie
        in between."""
        latest = self.next_after(after)
        if latest is None or latest > until:
            return None
        silent = until
        while silent - latest >= self.smallest_gap:
            middle = Instant((latest + silent) // 2)
            later = self.next_after(middle)
            if later is None or later > until:
                silent = middle
            else:
                latest = later
        return latest

    @budgeted
    def count(self, after: Instant, until: Instant, cap: int = 1000) -> int:
        """Return how many occurrences lie in (after, until]; beyond `cap` the answer is cap + 1."""
        counted = 0
        following = self.next_after(after)
        while following is not None and following <= until and counted <= cap:
            counted += 1
            following = self.next_after(following)
        return counted


_MAX_SEARCH_SECONDS = 400 * 366 * DAY_SECONDS  # the calendar repeats after 400 years


@dataclass(frozen=True, kw_only=True)
class WallTrigger(Trigger):
    """A trigger in local time, which is interpreted in one of two ways. Fixed: it fires when the wall clock
    first shows or passes the time, so a time in a gap fires right after the gap and a repeated hour counts once.
    Following (`follows`): it fires whenever the wall clock shows the time, so a skipped time never fires and a repeated
    one fires twice."""

    smallest_gap: ClassVar[int] = SECOND
    clock: WallClock = field(init=False, repr=False, compare=False)
    follows: bool = field(init=False, repr=False, compare=False, default=False)

    @abstractmethod
    def next_local(self, local: int) -> int | None:
        """Return the first local time of the pattern at or after `local`, in wall-clock seconds."""

    def _open_clock(self) -> None:
        object.__setattr__(self, "clock", wall_clock(self.timezone))

    def _following(self, instant: Instant) -> Instant | None:
        t = instant // SECOND
        if self.follows:
            followed = self._next_followed(t + 1)
            return None if followed is None else Instant(followed * SECOND)
        _, hi, offset, reached = self.clock.stretch(t)
        reading = t + offset
        local = self.next_local((reading if reading > reached else reached) + 1)
        if local is None:
            return None
        second = local - offset
        return Instant((second if second < hi else self.clock.first_reach(local)) * SECOND)

    def _next_followed(self, t: int) -> int | None:
        farthest = t + _MAX_SEARCH_SECONDS
        while t < farthest:
            spend()
            _, hi, offset, _ = self.clock.stretch(t)
            local = self.next_local(t + offset)
            if local is not None and local - offset < hi:
                return local - offset
            if hi - t < 2 * DAY_SECONDS:  # the clock may still go back to a time before this one
                t = hi
            elif local is None:
                return None
            else:
                t = max(hi, local - 2 * DAY_SECONDS)
        return None


def instant_text(instant: Instant) -> str:
    """Return an instant in ISO 8601, to the microsecond. A datetime takes twice as long to make and to format."""
    day, rest = divmod(instant, DAY)
    seconds, microseconds = divmod(rest, SECOND)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{_day_text(day)}T{_TWO_DIGITS[hour]}:{_TWO_DIGITS[minute]}:{_TWO_DIGITS[second]}.{microseconds:06}Z"


_TWO_DIGITS: Final = tuple(f"{number:02}" for number in range(60))


@lru_cache(maxsize=4096)
def _day_text(day: int) -> str:
    return date.fromordinal(EPOCH_ORDINAL + day).isoformat()


def instant_from(text: object, field: str) -> Instant:
    if isinstance(text, str) and text.endswith("Z"):
        try:
            return instant_of(datetime.fromisoformat(text))
        except ValueError:
            pass  # rejected below, like all other malformed text
    raise InvalidTrigger(f"{field} must be an ISO 8601 time in UTC.", field=field)


@dataclass(frozen=True, kw_only=True)
class OnceTrigger(Trigger):
    type: ClassVar[str] = "once"
    at: Instant

    def next_after(self, instant: Instant) -> Instant | None:
        """Do the same without a step budget, because this searches nothing."""
        at = self.at
        if at <= instant or not 0 <= at <= LATEST:
            return None
        if (self.start is not None and at < self.start) or (self.end is not None and at > self.end):
            return None
        return at

    _following = next_after

    def to_dict(self) -> dict[str, object]:
        return super().to_dict() | {"at": instant_text(self.at)}


@dataclass(frozen=True, kw_only=True)
class ChangingTrigger(Trigger):
    type: ClassVar[str] = "changing"
    changes: Instant
    """The rule `after` applies from this instant on, inclusive."""
    before: Trigger
    after: Trigger

    def _following(self, instant: Instant) -> Instant | None:
        following = self.before.next_after(instant) if instant < self.changes else None
        if following is not None and following < self.changes:
            return following
        return self.after.next_after(max(instant, Instant(self.changes - 1)))

    def to_dict(self) -> dict[str, object]:
        rules = {"before": self.before.to_dict(), "after": self.after.to_dict()}
        return super().to_dict() | {"changes": instant_text(self.changes), **rules}


def changing(before: Trigger, after: Trigger, changes: Instant, now: Instant) -> ChangingTrigger:
    """Return a trigger whose rule changes at an instant. A rule that has already been replaced is left out, and so is
    one that would begin only after the new one."""
    before = _between(before, now, changes)
    jitter = max(before.jitter, after.jitter)
    return ChangingTrigger(timezone=after.timezone, jitter=jitter, changes=changes, before=before, after=after)


def _between(trigger: Trigger, now: Instant, until: Instant) -> Trigger:
    """Return what a trigger is between two instants, without the rules that do not apply in this time."""
    if not isinstance(trigger, ChangingTrigger):
        return trigger
    if not now < trigger.changes < until:
        return _between(trigger.after if trigger.changes <= now else trigger.before, now, until)
    return changing(trigger.before, _between(trigger.after, trigger.changes, until), trigger.changes, now)


def changes_of(trigger: Trigger) -> int:
    """Return how often the rule of a trigger changes."""
    if not isinstance(trigger, ChangingTrigger):
        return 0
    return 1 + changes_of(trigger.before) + changes_of(trigger.after)
