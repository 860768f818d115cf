"""The limit on the bytes an owner stores: updated with every create, recounted now and then outside of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from duetime.engine.clock import HOUR, MINUTE, Instant
from duetime.engine.policy.create import Draft
from duetime.engine.result import Err

_EACH: Final = 500
"""Approximate bytes of a schedule besides its payload."""
_STALE: Final = HOUR
"""Age after which a total is recounted, to include the results of later runs and deletions."""
_STALE_WHEN_FULL: Final = MINUTE
"""The same for an owner over the limit, so that deleting something takes effect soon."""


class StoredBytes(Protocol):
    """The part of a transaction that this module needs."""

    def add_stored_bytes(self, owner: str, number: int) -> tuple[int, Instant]:
        """Add to the total; return the new total and when it was last recounted."""


class NeedsCount(Exception):
    """The total of an owner is too old to decide by."""

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self.owner = owner


class StorageFull(Exception):
    """The limit is reached. Raised to roll back the transaction; it carries the refusal."""

    def __init__(self, refusal: Err) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def add_bytes_of(tx: StoredBytes, drafts: Sequence[Draft], most: Mapping[str, int]) -> None:
    for owner, limit in sorted(most.items()):
        own = [draft.definition for draft in drafts if draft.definition.owner == owner]
        if own:
            number = sum(len(definition.payload.encode()) + _EACH for definition in own)
            add_bytes(tx, owner, number, limit, own[0].created)


def add_bytes(tx: StoredBytes, owner: str, number: int, limit: int, now: Instant) -> None:
    """Add to an owner's total. Raise StorageFull, or NeedsCount: then the transaction is retried after a recount."""
    total, counted = tx.add_stored_bytes(owner, number)
    if now - counted > (_STALE_WHEN_FULL if total > limit else _STALE):
        raise NeedsCount(owner)
    if total > limit:
        raise StorageFull(_full(limit))


def _full(limit: int) -> Err:
    size = f"{limit / 1024 / 1024:.3g} MB"
    message = (
        f"the limit of {size} of stored schedules and results is reached; delete some that are no longer needed and try"
        " again in a minute, or ask the operator to raise max_stored_bytes or to shorten retention_days"
    )
    return Err("quota", message, {"limit": limit})
