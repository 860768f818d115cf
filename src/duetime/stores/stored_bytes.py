"""How much an owner may store: counted with every create, and summed up anew from time to time outside of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from duetime.engine.clock import HOUR, MINUTE, Instant
from duetime.engine.policy.create import Draft
from duetime.engine.result import Err

_EACH: Final = 500
"""Bytes of a schedule besides its payload, about."""
_STALE: Final = HOUR
"""After so long the results of runs since, and what was deleted, are worth a look."""
_STALE_WHEN_FULL: Final = MINUTE
"""Whoever deletes something to make room is served soon after."""


class StoredBytes(Protocol):
    """The part of a transaction that is needed here."""

    def add_stored_bytes(self, owner: str, number: int) -> tuple[int, Instant]:
        """The new sum, and when it was last counted."""


class NeedsCount(Exception):
    """What is known of an owner is too old to decide by."""

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self.owner = owner


class NoRoom(Exception):
    """Takes back what was added, and carries the refusal."""

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
    """Raises NoRoom, or NeedsCount: then the transaction is repeated after a count."""
    total, counted = tx.add_stored_bytes(owner, number)
    if now - counted > (_STALE_WHEN_FULL if total > limit else _STALE):
        raise NeedsCount(owner)
    if total > limit:
        raise NoRoom(_full(limit))


def _full(limit: int) -> Err:
    size = f"{limit / 1024 / 1024:.3g} MB"
    message = (
        f"the limit of {size} of stored schedules and results is reached; delete some that are no longer needed and try"
        " again in a minute, or ask the operator to raise max_stored_bytes or to shorten retention_days"
    )
    return Err("quota", message, {"limit": limit})
