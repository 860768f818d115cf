"""Fair shares of owners: their turns within a claim, and their limit of runs per hour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from duetime.engine.clock import HOUR, Instant
from duetime.engine.model import NO_RUN, RunStatus, ScheduleState, limit_reached
from duetime.engine.policy.catch_up import LEAD
from duetime.engine.policy.claim import DueItem
from duetime.engine.policy.options import Overlap, policy_for_ending
from duetime.engine.policy.rows import Writes
from duetime.engine.value_class import NamedTuple, dataclass

UNLIMITED = 2**31


class Head(NamedTuple):
    """An owner that has due entries, and since when."""

    owner: str
    at: Instant


@dataclass(slots=True)
class Cursor:
    """The owner that had the last turn. A worker keeps one cursor per lane, and each claim advances it."""

    owner: str = ""


class Turns(NamedTuple):
    """How a claim divides its limit between owners."""

    cursor: Cursor | None = None
    """None: the owner that has waited longest goes first."""
    each: int = UNLIMITED
    """The maximum number of entries for any owner that `most` does not name."""
    most: Mapping[str, int] = MappingProxyType({})
    group: str = ""
    """Lanes of the same group count together towards an owner's maximum."""
    by_time: bool = False
    """True: as far as is known, only one owner has entries, so queue order decides and only the maximums apply."""

    def left_for(self, owner: str) -> int:
        return self.most.get(owner, self.each)


def deal(heads: Sequence[Head], limit: int, turns: Turns) -> dict[str, int]:
    """Return how many entries of each owner to claim: the same number for all, at least one, as far as `limit` allows.
    Owners that get no turn go first the next time, because the cursor stores the last owner that had one."""
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
    """Return how many more entries to claim for owners that used up their share but may have more, longest waiting
    first."""
    rest: dict[str, int] = {}
    for head in sorted(heads, key=lambda each: each.at):
        number = min(limit, turns.left_for(head.owner) - dealt.get(head.owner, 0))
        if number > 0:
            rest[head.owner] = number
            limit -= number
    return rest


# The limit of runs per owner and hour. Runs beyond it are visibly held back, not dropped.


class Budget(NamedTuple):
    """The number of runs that an owner may start in an hour."""

    limit: int
    exempt: frozenset[str] = frozenset()
    """Owners without a limit."""


def hour_of(now: Instant) -> Instant:
    return Instant(now - now % HOUR)


def hold_back(
    entries: Sequence[DueItem], used: Mapping[str, int], limit: int, now: Instant
) -> tuple[list[DueItem], Writes]:
    """Return the entries that their owners may still run, and the writes that move the others to the next hour. Owners
    that are missing from `used` have no limit."""
    spent = Counter(used)
    admitted: list[DueItem] = []
    writes = Writes()
    for entry in entries:
        owner = entry.definition.owner
        if owner in used and _starts(entry):
            spent[owner] += 1
            if spent[owner] > limit:
                _postpone(writes, entry, limit, Instant(hour_of(now) + HOUR + LEAD))
                continue
        admitted.append(entry)
    return admitted, writes


def _starts(entry: DueItem) -> bool:
    """Return whether the entry may start a run; it does not if a hold expires or the occurrence will be skipped."""
    if entry.due.run != NO_RUN:
        return entry.run is not None and entry.run.status == RunStatus.PENDING
    if entry.progress.state != ScheduleState.ACTIVE:  # the entry ends a pause
        return False
    busy = entry.progress.active > 0
    return not busy or policy_for_ending(entry.definition.policy).overlap != Overlap.SKIP


def _postpone(writes: Writes, entry: DueItem, limit: int, until: Instant) -> None:
    writes.move(entry.due._replace(at=until))
    progress = writes.progress_of(entry.progress)
    note = (
        f"held back until the next hour: {limit_reached(f'{limit} runs an hour')};"
        " let schedules run less often, or ask the operator to raise max_runs_per_hour"
    )
    writes.progress[progress.schedule] = progress._replace(note=note)
