"""Storage of revocations and of signing key rotations, the same for every dialect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from duetime.engine.clock import HOUR, Instant
from duetime.engine.store_interfaces import Revocation, Revocations

FORGOTTEN = 500
"""Most expired records that one call of `revoke` deletes."""


class RevocationRows(Protocol):
    """Reads and writes of these rows within one write transaction."""

    @abstractmethod
    def _rows(self, name: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a named query."""

    @abstractmethod
    def lock_owner(self, owner: str) -> None: ...

    def insert_revocation(self, revocation: Revocation) -> bool:
        """Insert a revocation; False if the id exists already or another transaction inserts it first."""
        return bool(self._rows("insert_revocation", *revocation))

    def forget_revocations(self, now: Instant) -> None:
        self._rows("forget_revocations", now, FORGOTTEN)

    def rotations(self, owner: str) -> tuple[int, int, int]:
        """Return the generation, the start of the hour being counted, and the rotations within it."""
        rows = self._rows("rotations", owner)
        return (rows[0][0], rows[0][1], rows[0][2]) if rows else (0, 0, 0)

    def keep_rotations(self, owner: str, generation: int, since: int, recent: int) -> None:
        self._rows("keep_rotations", owner, generation, since, recent)


class RevocationsMixin(Revocations, ABC):
    @abstractmethod
    def _write(self) -> AbstractContextManager[RevocationRows]: ...

    @abstractmethod
    def _named(self, name: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a named query that reads."""

    def revoke(self, revocations: Sequence[Revocation], now: Instant) -> list[str]:
        with self._write() as tx:
            tx.forget_revocations(now)
            return [each.id for each in sorted(revocations) if tx.insert_revocation(each)]

    def revoked(self, first: str, second: str) -> list[str]:
        return [row[0] for row in self._named("revoked", first, second)]

    def signing_generation(self, owner: str) -> int:
        rows = self._named("rotations", owner)
        return int(rows[0][0]) if rows else 0

    def rotate_signing_key(self, owner: str, now: Instant, least: int, limit: int) -> int | None:
        with self._write() as tx:
            tx.lock_owner(owner)
            generation, since, recent = tx.rotations(owner)
            if not since <= now < since + HOUR:
                since, recent = now, 0
            if recent >= limit:
                return None
            generation = max(generation, least) + 1
            tx.keep_rotations(owner, generation, since, recent + 1)
        return generation
