"""Creation of schedules. The usual create is one short commit, before which nothing is looked up or counted.

The number of schedules of an owner that may still fire ("living") is bounded instead of counted: `living_counts`
contains a number that is never too low. Creates add to it, and so does a change that makes an ended schedule live
again; endings do not subtract, so that workers never write it. While the bound is within the limit, so is the real
number. Otherwise, and once a minute, the schedules are counted, so a refusal is exact. The row of an owner stays locked
until the commit, so that two concurrent creates cannot both take the last place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress, repeat
from operator import contains
from typing import Final, NamedTuple

from duetime.engine.clock import MINUTE, Instant
from duetime.engine.model import Definition, Schedule, ScheduleState
from duetime.engine.policy.bulk import KEY, OWNER, PAYLOAD, POLICY, Column, drafts_in_columns, is_common
from duetime.engine.policy.rows import Draft, Writes, quota_reached
from duetime.engine.result import Err
from duetime.stores.byte_limits import FRESH, size_of
from duetime.stores.transaction import Transaction

COUNTED_FOR: Final = MINUTE
"""Age after which a bound is counted again, to include what workers and older versions of Duetime created."""
_FINGERPRINT: Final = Definition._fields.index("fingerprint")
_LIVING: Final = (ScheduleState.ACTIVE, ScheduleState.PAUSED)
_MOST_TOGETHER: Final = 50
"""A caller with more drafts than this has a commit of its own."""


class NotAtOnce(Exception):
    """Raised if a create needs to look something up or to count. Nothing was written."""


class CreateRequest(NamedTuple):
    drafts: Sequence[Draft]
    limits: Mapping[str, int]
    most_bytes: Mapping[str, int]

    @property
    def may_share(self) -> bool:
        return len(self.drafts) <= _MOST_TOGETHER


class Addition(NamedTuple):
    """An addition to a total of an owner, which must then not exceed `most`; None if it has no limit here."""

    owner: str
    number: int
    most: int | None


class Additions(NamedTuple):
    """The additions of a create to the totals of its owners, in a fixed order so that no two creates can deadlock."""

    living: list[Addition]
    stored: list[Addition]
    now: Instant

    @property
    def living_counted(self) -> tuple[int, int]:
        """When the bounds must have been counted: the latest time is after now, because the clock may have been set
        back since."""
        return self.now - COUNTED_FOR, self.now + COUNTED_FOR

    @property
    def stored_counted(self) -> int:
        return self.now - FRESH


def additions_of(requests: Sequence[CreateRequest], drafts: Sequence[Draft]) -> Additions:
    """Add up what the requests create. Raise NotAtOnce if the totals or keys have to be examined one by one."""
    if len(drafts) == 1:
        return _additions_of_one(requests[0])
    if not drafts:
        raise NotAtOnce
    columns = drafts_in_columns(drafts).definitions
    if any(map(_contains_nul, [*columns[1:9], columns[KEY], columns[_FINGERPRINT]])):
        raise NotAtOnce
    owners, keys = columns[OWNER], columns[KEY]
    if len(set(keys)) < len(keys) and len(set(zip(owners, keys, strict=True))) < len(keys):
        raise NotAtOnce
    living = sorted(Counter(owners).items())
    most = _least([request.limits for request in requests])
    most_bytes = _least([request.most_bytes for request in requests])
    sizes = list(map(size_of, columns[PAYLOAD], columns[POLICY])) if most_bytes else []
    return Additions(
        [Addition(owner, number, most.get(owner)) for owner, number in living],
        [
            Addition(owner, sum(compress(sizes, map(owner.__eq__, owners))), most_bytes[owner])
            for owner, _ in living
            if owner in most_bytes
        ],
        drafts[0].definition.created,
    )


def _least(limits: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return the lowest limit of each owner. A request with a higher limit or none that fails because of it is repeated
    alone."""
    least: dict[str, int] = {}
    for each in limits:
        for owner, limit in each.items():
            least[owner] = min(limit, least.get(owner, limit))
    return least


def _additions_of_one(request: CreateRequest) -> Additions:
    """Do the same for a single draft, which nearly every create has."""
    definition = request.drafts[0].definition
    if _has_nul(definition):
        raise NotAtOnce
    owner = definition.owner
    most = request.most_bytes.get(owner)
    stored = [] if most is None else [Addition(owner, size_of(definition.payload, definition.policy), most)]
    return Additions([Addition(owner, 1, request.limits.get(owner))], stored, definition.created)


def _contains_nul(column: Column) -> bool:
    return "\0" in column[0] if is_common(column) else any(map(contains, column, repeat("\0")))


def _has_nul(definition: Definition) -> bool:
    return "\0" in "".join((*definition[1:9], definition.key, definition.fingerprint))


def over_limit(tx: Transaction, fresh: Sequence[Draft], limits: Mapping[str, int]) -> Err | None:
    """Count the living schedules of each owner and set its bound; return a refusal if there would be too many."""
    wanted = Counter(draft.definition.owner for draft in fresh)
    for owner in sorted(wanted):
        if owner not in limits:
            tx.send("add_living", owner, wanted[owner])
            continue
        if not count_living(tx, owner, limits[owner], wanted[owner], fresh[0].definition.created):
            return quota_reached(limits[owner])
    return None


def count_living(tx: Transaction, owner: str, most: int, wanted: int, now: Instant) -> bool:
    """Set the bound of an owner to its living schedules plus the `wanted` ones; return False if that is too many."""
    tx.send("lock_living", owner)
    total = tx.count_living(owner, most + 1) + wanted
    if total > most:
        return False
    tx.send("set_living", total, now, owner)
    return True


def add_revived(tx: Transaction, before: Schedule, writes: Writes) -> None:
    """Add a schedule to its owner's bound if a change makes it live again, such as a retry after its end."""
    after = writes.progress.get(before.definition.id)
    if after is not None and after.state in _LIVING and before.progress.state not in _LIVING:
        tx.send("add_living", before.definition.owner, 1)
