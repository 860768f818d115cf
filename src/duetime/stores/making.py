"""How new schedules get into a transaction: those that were asked for, and those that follow the end of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from duetime.core.clock import Instant
from duetime.core.errors import InvalidInput
from duetime.core.policy.creating import Draft, begin, quota_reached
from duetime.core.policy.writes import Writes
from duetime.core.result import Err
from duetime.core.store import Created
from duetime.stores.transaction import OwnerKey, Transaction


def key_of(draft: Draft) -> OwnerKey:
    return draft.definition.owner, draft.definition.key


def known_by_key(tx: Transaction, drafts: Sequence[Draft]) -> dict[OwnerKey, Created]:
    """What the drafts' keys made earlier, by a repeated request or by one whose acknowledgement was lost."""
    found = tx.by_keys([key_of(draft) for draft in drafts])
    return {key: Created(schedule, fresh=False) for key, schedule in found.items()}


def fresh_of(drafts: Sequence[Draft], known: Mapping[OwnerKey, Created]) -> list[Draft]:
    """The first draft of every key that made nothing yet."""
    firsts: dict[OwnerKey, Draft] = {}
    for draft in drafts:
        if key_of(draft) not in known:
            firsts.setdefault(key_of(draft), draft)
    return list(firsts.values())


def refuse_nul(drafts: Sequence[Draft]) -> None:
    """One database would store them and the other cannot: what is accepted must not depend on that."""
    if any("\0" in value for draft in drafts for value in draft.definition if isinstance(value, str)):
        raise InvalidInput("text with NUL characters cannot be stored")


def over_limit(tx: Transaction, fresh: Sequence[Draft], limits: Mapping[str, int]) -> Err | None:
    for owner, limit in limits.items():
        wanted = sum(1 for draft in fresh if draft.definition.owner == owner)
        if wanted and tx.count_living(owner, limit + 1) + wanted > limit:
            return quota_reached(limit)
    return None


def apply(tx: Transaction, writes: Writes, now: Instant) -> None:
    """What follows a run begins in the transaction that ends it: neither is there without the other."""
    tx.apply(writes, now)
    fresh = fresh_of(writes.follow_ups, known_by_key(tx, writes.follow_ups)) if writes.follow_ups else []
    if fresh:  # an alert that was given today is known by its key, and not given again
        fresh.sort(key=key_of)  # two that give the same ones never wait for each other in a circle
        ids = tx.new_schedule_ids(len(fresh))
        tx.insert_schedules([begin(draft, schedule) for draft, schedule in zip(fresh, ids, strict=True)])
        tx.announce()
