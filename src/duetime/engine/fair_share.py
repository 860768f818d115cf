"""Fair sharing between owners: the limit of one claim is dealt out in turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from duetime.engine.clock import Instant

UNLIMITED = 2**31


class Head(NamedTuple):
    """An owner that has due entries, and since when."""

    owner: str
    at: Instant


@dataclass(slots=True)
class Cursor:
    """The owner that had the last turn. A worker keeps one for each lane, and each claim moves it on."""

    owner: str = ""


class Turns(NamedTuple):
    """How a claim shares its limit between owners."""

    cursor: Cursor | None = None
    """If None, the owner that has waited longest is first."""
    each: int = UNLIMITED
    """The maximum number of entries for any owner that `most` does not name."""
    most: Mapping[str, int] = MappingProxyType({})
    group: str = ""
    """Lanes of the same group count together towards an owner's maximum."""
    by_time: bool = False
    """True: as far as is known, only one owner has entries. Queue order decides, and only the maximums apply."""

    def left_for(self, owner: str) -> int:
        return self.most.get(owner, self.each)


def deal(heads: Sequence[Head], limit: int, turns: Turns) -> dict[str, int]:
    """Return how many entries of each owner to claim: the same number for all, at least one, as far as `limit` reaches.

    Owners that get no turn are first the next time, because the cursor remembers the last one that had a turn.
    """
    waiting = [head for head in heads if turns.left_for(head.owner) > 0]
    if not waiting or limit <= 0:
        return {}
    cursor, part = turns.cursor, max(1, limit // len(waiting))
    if cursor is None:
        waiting.sort(key=lambda head: head.at)
    else:
        waiting.sort(key=lambda head: (head.owner <= cursor.owner, head.owner))
    dealt = {head.owner: min(part, turns.left_for(head.owner)) for head in waiting[:limit]}
    if cursor is not None:
        cursor.owner = list(dealt)[-1]
    return dealt


def deal_rest(heads: Sequence[Head], limit: int, turns: Turns, dealt: Mapping[str, int]) -> dict[str, int]:
    """Return how many more to claim of owners that used up their share and may have more, the longest waiting first."""
    rest: dict[str, int] = {}
    for head in sorted(heads, key=lambda each: each.at):
        number = min(limit, turns.left_for(head.owner) - dealt.get(head.owner, 0))
        if number > 0:
            rest[head.owner] = number
            limit -= number
    return rest
