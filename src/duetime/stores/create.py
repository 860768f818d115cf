"""The two ways to create schedules.

Few are one statement, before which nothing is looked up or counted: this is the usual create. Many, and whatever the
one statement refuses, are a transaction that looks up keys if it has to, counts, and inserts in batches.

The number of schedules of an owner that may still fire ("living") is bounded instead of counted: `living_counts`
contains a number that is never too low. Creates add to it, and so does a change that makes an ended schedule live
again; endings do not subtract, so that workers never write it. While the bound is within the limit, so is the real
number. Otherwise, and once a minute, the schedules are counted, so a refusal is exact. The row of an owner stays locked
until the commit, so that two concurrent creates cannot both take the last place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import repeat
from operator import contains
from typing import Final

from duetime.engine.clock import MINUTE, Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.model import Definition, Schedule, ScheduleState
from duetime.engine.policy.bulk import KEY, MANY, OWNER, Column, drafts_in_columns, is_common
from duetime.engine.policy.rows import Draft, Writes, quota_reached
from duetime.engine.value_class import NamedTuple
from duetime.stores.transaction import Transaction

MAX_BOUND_AGE: Final = MINUTE
"""Age after which a bound is counted again, to include what workers and older versions of Duetime created."""
_FINGERPRINT: Final = Definition._fields.index("fingerprint")
_LIVING: Final = (ScheduleState.ACTIVE, ScheduleState.PAUSED)


class NotAtOnce(Exception):
    """Raised if a create needs to look something up or to count, or has too many drafts for one statement. Nothing was
    written."""


class CreateRequest(NamedTuple):
    drafts: Sequence[Draft]
    limits: Mapping[str, int]
    most_bytes: Mapping[str, int]

    @property
    def is_few(self) -> bool:
        return 0 < len(self.drafts) < MANY


def join_requests(requests: Sequence[CreateRequest]) -> CreateRequest:
    """Return one request for all. The lowest limit of each owner applies: a request that fails because of it, though
    its own limit is higher, is repeated alone."""
    if len(requests) == 1:
        return requests[0]
    drafts = [draft for request in requests for draft in request.drafts]
    return CreateRequest(
        drafts,
        _lowest([request.limits for request in requests]),
        _lowest([request.most_bytes for request in requests]),
    )


def _lowest(limits: Sequence[Mapping[str, int]]) -> dict[str, int]:
    lowest: dict[str, int] = {}
    for each in limits:
        for owner, limit in each.items():
            lowest[owner] = min(limit, lowest.get(owner, limit))
    return lowest


def counted_between(now: Instant) -> tuple[int, int]:
    """Return when a bound must have been counted: the latest time is after now, because the clock may have been set
    back since."""
    return now - MAX_BOUND_AGE, now + MAX_BOUND_AGE


def has_nul(draft: Draft) -> bool:
    definition = draft.definition
    return "\0" in "".join((*definition[1:9], definition.key, definition.fingerprint))


def refuse_nul(drafts: Sequence[Draft]) -> None:
    """Refuse NUL characters, because only one of the databases can store them and the accepted input must not depend on
    the store."""
    columns = drafts_in_columns(drafts).definitions if drafts else []
    if any(map(_contains_nul, [*columns[1:9], *columns[KEY : _FINGERPRINT + 1]])):
        raise InvalidInput("text with NUL characters cannot be stored")


def _contains_nul(column: Column) -> bool:
    return "\0" in column[0] if is_common(column) else any(map(contains, column, repeat("\0")))


def add_living(tx: Transaction, drafts: Sequence[Draft], limits: Mapping[str, int]) -> None:
    """Raise the bound of each owner. Raises LimitReached if an owner would have too many living schedules. The owners
    are in a fixed order so that no two creates can deadlock."""
    numbers = Counter(drafts_in_columns(drafts).definitions[OWNER] if drafts else ())
    for owner, number in sorted(numbers.items()):
        limit, now = limits.get(owner), drafts[0].definition.created
        if limit is None:
            tx.send("add_living", owner, number)
        elif not tx.rows("add_living_within", number, owner, number, limit, *counted_between(now)):
            total = tx.count_living(owner, limit + 1) + number
            if total > limit:
                raise quota_reached(limit)
            tx.send("set_living", total, now, owner)


def add_revived(tx: Transaction, before: Schedule, writes: Writes) -> None:
    """Add a schedule to its owner's bound if a change makes it live again, such as a retry after its end."""
    after = writes.progress.get(before.definition.id)
    if after is not None and after.state in _LIVING and before.progress.state not in _LIVING:
        tx.send("add_living", before.definition.owner, 1)
