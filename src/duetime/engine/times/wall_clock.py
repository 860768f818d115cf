"""A zone's wall clock as stretches of constant offset, so that stepping needs no datetime arithmetic.

Times here are whole seconds: `t` counts since the epoch, and `local` is the same count read off the zone's wall clock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Literal

from duetime.engine.clock import SECOND, Instant
from duetime.engine.times.zones import known_zone
from duetime.engine.value_class import NamedTuple

DAY_SECONDS = 86_400
LAST_SECOND = 253_402_128_000
"""9999-12-30T00:00:00Z: late enough, and within the range of every zone's wall clock."""
LATEST = Instant(LAST_SECOND * SECOND)

_BLOCK_BITS = 24  # about 194 days: few zones change twice in one block
BLOCK_SECONDS = 1 << _BLOCK_BITS
"""Number of seconds for which the changes of a zone are looked up at a time."""
_MOST_BLOCKS = 1024  # more than 500 years of a zone
_PROBE = 5 * DAY_SECONDS  # since 1970 no zone has changed and changed back within six days
_LOOKBACK = 2 * DAY_SECONDS  # wider than any difference between two offsets
_NO_END = 1 << 62
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Stretch(NamedTuple):
    """From `lo` until just before `hi`, the clock is `offset` ahead; before `lo`, it had shown times up to
    `reached`."""

    lo: int
    hi: int
    offset: int
    reached: int


class ClockChange(NamedTuple):
    at: int
    before: int
    after: int


class Resolved(NamedTuple):
    t: int
    kind: Literal["plain", "gap", "fold"]


class WallClock:
    def __init__(self, name: str) -> None:
        self.zone = known_zone(name)
        self._blocks: dict[int, tuple[Stretch, ...]] = {}
        self._year: tuple[int, list[ClockChange]] = (-1, [])

    def stretch(self, t: int) -> Stretch:
        key = t >> _BLOCK_BITS
        block = self._blocks.get(key) or self._build(key)
        for stretch in block:
            if t < stretch[1]:
                return stretch
        return block[-1]

    def first_reach(self, local: int) -> int:
        """Return the first t at which the wall clock shows `local` or later; for a skipped time, that is right after
        the gap."""
        t = local - _LOOKBACK
        while True:
            lo, hi, offset, _ = self.stretch(t)
            t = max(lo, local - offset)
            if t < hi:
                return t
            t = hi

    def resolve(self, local: int) -> Resolved:
        """Return what a person means by a wall-clock time: in a gap, the time plus the length of the gap; in a fold,
        the first one."""
        t = self.first_reach(local)
        lo, hi, offset, _ = self.stretch(t)
        if t + offset > local:
            return Resolved(local - self.stretch(lo - 1).offset, "gap")
        while hi - t <= _LOOKBACK:
            _, following, offset, _ = self.stretch(hi)
            if hi + offset <= local:
                return Resolved(t, "fold")
            hi = following
        return Resolved(t, "plain")

    def changes(self, after: int, until: int) -> Iterator[ClockChange]:
        """Yield every change of the offset in (after, until]."""
        t, before = after, self._offset(after)
        while t < until:
            ahead = min(t + _PROBE, until)
            if self._offset(ahead) == before:
                t = ahead
                continue
            t = self._first_change(t, ahead, before)
            change = ClockChange(t, before, self._offset(t))
            before = change.after
            yield change

    def changes_within_a_year(self, after: int) -> list[ClockChange]:
        """Return the changes in the 366 days after `after`; looked up once a day, because every cron create needs
        them."""
        today, until = after // DAY_SECONDS, min(after + 366 * DAY_SECONDS, LAST_SECOND)
        day, changes = self._year
        if day != today:
            end = min((today + 367) * DAY_SECONDS, LAST_SECOND)
            changes = list(self.changes(today * DAY_SECONDS, end))
            self._year = today, changes
        return [change for change in changes if after < change.at <= until]

    def _offset(self, t: int) -> int:
        offset = (_EPOCH + timedelta(seconds=t)).astimezone(self.zone).utcoffset()
        assert offset is not None
        return offset.days * DAY_SECONDS + offset.seconds

    def _first_change(self, lo: int, hi: int, before: int) -> int:
        """Return the first t after `lo` at which the offset is another one, which it is at `hi`."""
        return lo + 1 + bisect_left(range(lo + 1, hi), True, key=lambda t: self._offset(t) != before)

    def _build(self, key: int) -> tuple[Stretch, ...]:
        start = key << _BLOCK_BITS
        end = start + BLOCK_SECONDS
        lo = min(start, LAST_SECOND) - _LOOKBACK
        offset = self._offset(lo)
        reached = lo + offset - 1
        stretches: list[Stretch] = []
        for at, before, after in self.changes(lo, min(end - 1, LAST_SECOND)):
            stretches.append(Stretch(lo, at, before, reached))
            reached = max(reached, at - 1 + before)
            lo, offset = at, after
        stretches.append(Stretch(lo, end if end <= LAST_SECOND else _NO_END, offset, reached))
        if len(self._blocks) >= _MOST_BLOCKS:
            self._blocks.clear()
        self._blocks[key] = block = tuple(stretch for stretch in stretches if stretch.hi > start)
        return block


@lru_cache(maxsize=1024)
def wall_clock(name: str) -> WallClock:
    return WallClock(name)
