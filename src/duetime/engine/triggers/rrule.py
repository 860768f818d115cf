"""RFC 5545 recurrence rules. A step costs the same however long ago the rule began."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import field
from datetime import MAXYEAR, date, datetime
from functools import cached_property
from typing import ClassVar

from duetime.engine.clock import SECOND, Instant, datetime_of, instant_of
from duetime.engine.errors import InvalidTrigger
from duetime.engine.times.wall_clock import BLOCK_SECONDS, DAY_SECONDS, LAST_SECOND
from duetime.engine.triggers.base import EPOCH_ORDINAL, WallTrigger, lowest
from duetime.engine.triggers.rrule_parser import (
    DAILY,
    HOURLY,
    MONTHLY,
    WEEKLY,
    YEARLY,
    RuleFields,
    refusal,
    rule_fields,
)
from duetime.engine.triggers.rrule_parts import RuleDays, RuleTimes
from duetime.engine.triggers.step_budget import spend
from duetime.engine.value_class import dataclass

_MOST_EMPTY_DAYS = 20_000  # a step that matches no hour of the rule within this many days never will in practice
_MOST_EMPTY_PERIODS = 500
_LARGEST_SET = 20_000
_MOST_SETS = 16
_BLOCK_STEPS = 100  # the cost of finding the clock changes of the next half year
_MAX_SEARCH_SECONDS = 200 * 366 * DAY_SECONDS
_LOCAL_FORMAT = "%Y-%m-%dT%H:%M:%S"


@dataclass(frozen=True, kw_only=True)
class RRuleTrigger(WallTrigger):
    """A recurrence rule; `dtstart` is its first wall-clock time, in seconds. When clocks change, a daily or less
    frequent rule behaves like a fixed time in cron; a rule in hours, minutes or seconds follows the wall clock, like
    `*` in cron."""

    type: ClassVar[str] = "rrule"
    rule: str
    dtstart: int
    fields: RuleFields = field(init=False, repr=False, compare=False)
    days: RuleDays = field(init=False, repr=False, compare=False)
    times: RuleTimes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._open_clock()
        fields = rule_fields(self.rule)
        first = date.fromordinal(self.dtstart // DAY_SECONDS + EPOCH_ORDINAL)
        object.__setattr__(self, "fields", fields)
        object.__setattr__(self, "days", RuleDays(fields, first))
        object.__setattr__(self, "times", RuleTimes(fields, self.dtstart))
        object.__setattr__(self, "follows", fields.freq >= HOURLY)

    def _following(self, instant: Instant) -> Instant | None:
        following = super()._following(instant)
        return None if following is None or following > self._end else following

    def next_local(self, local: int) -> int | None:
        following = self._next_selected(max(local, self.dtstart))
        return None if following is None or (self._last is not None and following > self._last) else following

    @cached_property
    def _last(self) -> int | None:
        """The local time after which the rule has no times, from UNTIL or by counting through COUNT once. Times that
        the clock skips run together with what is due right after the gap, and count once."""
        if self.fields.count is None or self.follows:
            return self.fields.until_local
        last, change, offset = self.dtstart - 1, self._first_change, 0  # until `change`, the clock has this offset
        for _ in range(self.fields.count):
            spend()
            following = self._next_selected(last + 1)
            if following is None:
                break
            last = following
            if last - offset >= change:
                spend(_BLOCK_STEPS)
                t = self.clock.first_reach(last)
                _, change, offset, _ = self.clock.stretch(t)
                last = t + offset
        return last

    @property
    def _first_change(self) -> int:
        """When to look up clock changes first: never, unless several times of the rule can be in one gap."""
        parts = self.fields.parts
        dense = any(len(parts.get(part, ())) > 1 for part in ("BYHOUR", "BYMINUTE", "BYSECOND"))
        return 0 if dense else LAST_SECOND

    @cached_property
    def _end(self) -> Instant:
        """The instant after which the rule has no times. A rule that follows the clock counts the instants, because the
        clock may skip a time or show it twice."""
        if self.fields.count is None or not self.follows:
            return self.fields.until
        last = self._begin - 1
        for _ in range(self.fields.count):
            following = self._next_followed(last + 1)
            if following is None:
                break
            spend(_BLOCK_STEPS if following // BLOCK_SECONDS > last // BLOCK_SECONDS else 1)
            last = following
        return Instant(last * SECOND)

    @property
    def _begin(self) -> int:
        """When the clock first shows `dtstart`, unless the trigger starts when the clock shows it again."""
        t = 0 if self.start is None else self.start // SECOND
        return t if t + self.clock.stretch(t).offset == self.dtstart else self.clock.first_reach(self.dtstart)

    @cached_property
    def _sets(self) -> dict[int, list[int]]:
        return {}

    def _next_selected(self, local: int) -> int | None:
        if "BYSETPOS" not in self.fields.parts:
            return self._raw(local)
        farthest = local + _MAX_SEARCH_SECONDS
        for _ in range(_MOST_EMPTY_PERIODS):
            spend()
            lo, hi = self._period(local)
            chosen = self._pick_times(lo, hi)
            position = bisect_left(chosen, local)
            if position < len(chosen):
                return chosen[position]
            following = self._raw(hi)
            if following is None or following > farthest:
                return None
            local = self._period(following)[0]
        return None

    def _pick_times(self, lo: int, hi: int) -> list[int]:
        """Return the times that BYSETPOS picks out of one year, month, week, day, hour, minute or second."""
        times = self._sets.get(lo)
        if times is not None:
            return times
        members = list(self._between(lo, hi))
        size = len(members)
        places = {place - 1 if place > 0 else size + place for place in self.fields.parts["BYSETPOS"]}
        if len(self._sets) >= _MOST_SETS:
            self._sets.clear()
        self._sets[lo] = chosen = [members[place] for place in sorted(places) if 0 <= place < size]
        return chosen

    def _between(self, lo: int, hi: int) -> Iterator[int]:
        following = self._raw(lo)
        for _ in range(_LARGEST_SET):
            if following is None or following >= hi:
                return
            spend()
            yield following
            following = self._raw(following + 1)
        raise refusal(f"BYSETPOS picks from sets of more than {_LARGEST_SET} times; make the rule narrower.")

    def _period(self, local: int) -> tuple[int, int]:
        freq, day = self.fields.freq, local // DAY_SECONDS
        if freq > DAILY:
            start = local - local % self.times.unit
            return start, start + self.times.unit
        when = date.fromordinal(day + EPOCH_ORDINAL)
        if freq == YEARLY:
            return _midnight(when.year, 1), _midnight(when.year + 1, 1)
        if freq == MONTHLY:
            return _midnight(when.year, when.month), _midnight(when.year, when.month + 1)
        if freq == WEEKLY:
            day -= (when.weekday() - self.fields.week_start) % 7
        return day * DAY_SECONDS, (day + (7 if freq == WEEKLY else 1)) * DAY_SECONDS

    def _raw(self, local: int) -> int | None:
        """Return the first time of the rule at or after `local`, before BYSETPOS, COUNT and UNTIL apply."""
        times = self.times
        day, second = divmod(local, DAY_SECONDS)
        for _ in range(_MOST_EMPTY_DAYS):
            following = self.days.next_day(day)
            if following is None:
                return None
            within = self._within(following, second if following == day else 0)
            if within is not None:
                return following * DAY_SECONDS + within
            spend()
            day, second = times.next_day(following + 1), 0
        return None

    def _within(self, day: int, second: int) -> int | None:
        times = self.times
        unit, rest = divmod(second, times.unit)
        units = times.on(day) >> unit
        if units & 1:
            offset = times.next_time(rest)
            if offset is not None:
                return second - rest + offset
        units >>= 1
        return (unit + 1 + lowest(units)) * times.unit + times.first if units else None

    def to_dict(self) -> dict[str, object]:
        return super().to_dict() | {"rrule": self.rule, "dtstart": local_text(self.dtstart)}


def _midnight(year: int, month: int) -> int:
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    if year > MAXYEAR:
        return LAST_SECOND + DAY_SECONDS
    return (date(year, month, 1).toordinal() - EPOCH_ORDINAL) * DAY_SECONDS


def local_text(local: int) -> str:
    return datetime_of(Instant(local * SECOND)).strftime(_LOCAL_FORMAT)


def local_from(text: object) -> int:
    try:
        return instant_of(datetime.fromisoformat(f"{text}+00:00")) // SECOND
    except ValueError:
        message = "dtstart must be a wall-clock time such as 2026-02-05T09:00:00."
        raise InvalidTrigger(message, field="dtstart") from None
