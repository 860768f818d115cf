"""How owners share what there is: the places of one claim are dealt out in turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from duetime.engine.clock import Instant

UNLIMITED = 2**31


class Head(NamedTuple):
    """An owner that has something due, and since when."""

    owner: str
    at: Instant


@dataclass(slots=True)
class Cursor:
    """Whose turn was the last one. A worker keeps one for each lane, and each claim moves it on."""

    owner: str = ""


class Turns(NamedTuple):
    """What a claim has to respect between owners."""

    cursor: Cursor | None = None
    """Without it, whoever has waited longest begins."""
    each: int = UNLIMITED
    """The most entries of any owner that `most` does not name."""
    most: Mapping[str, int] = MappingProxyType({})
    group: str = ""
    """Lanes in which what an owner gets counts together."""
    by_time: bool = False
    """True: one owner has the queue to itself, as far as is known. Its order decides, and only the limits count."""

    def room_of(self, owner: str) -> int:
        return self.most.get(owner, self.each)


def deal(heads: Sequence[Head], limit: int, turns: Turns) -> dict[str, int]:
    """How many entries of each owner to claim: the same number of all, at least one, as far as `limit` reaches.

    Owners whose turn does not come are first the next time, because the cursor remembers the last one that had it.
    """
    waiting = [head for head in heads if turns.room_of(head.owner) > 0]
    if not waiting or limit <= 0:
        return {}
    part = max(1, limit // len(waiting))
    dealt: dict[str, int] = {}
    for head in _in_turn(waiting, turns.cursor)[:limit]:
        dealt[head.owner] = min(part, turns.room_of(head.owner))
    if turns.cursor is not None:
        turns.cursor.owner = list(dealt)[-1]
    return dealt


def deal_rest(heads: Sequence[Head], limit: int, turns: Turns, dealt: Mapping[str, int]) -> dict[str, int]:
    """What others left over goes to those that took all they were dealt and may have more, the oldest first."""
    rest: dict[str, int] = {}
    for head in sorted(heads, key=lambda each: each.at):
        number = min(limit, turns.room_of(head.owner) - dealt.get(head.owner, 0))
        if number > 0:
            rest[head.owner] = number
            limit -= number
    return rest


def _in_turn(heads: Sequence[Head], cursor: Cursor | None) -> list[Head]:
    if cursor is None:
        return sorted(heads, key=lambda head: head.at)
    return sorted(heads, key=lambda head: (head.owner <= cursor.owner, head.owner))
