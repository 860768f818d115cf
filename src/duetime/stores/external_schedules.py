"""Storage of the records of remote notifications, the same for every dialect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any, Protocol

from duetime.engine.clock import Instant
from duetime.engine.policy.rows import quota_reached
from duetime.engine.result import Ok, Result
from duetime.engine.store_interfaces import Mark, Remote, Remotes


class RemoteRows(Protocol):
    """Reads and writes of these rows within one write transaction."""

    @abstractmethod
    def _rows(self, name: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a named query."""

    @abstractmethod
    def lock_owner(self, owner: str) -> None: ...

    @abstractmethod
    def count_living(self, owner: str, most: int) -> int: ...

    def count_remotes(self, owner: str, now: Instant, most: int) -> int:
        return int(self._rows("count_remotes", owner, now, most)[0][0])

    def insert_remote(self, remote: Remote) -> None:
        self._rows("insert_remote", *remote)

    def remote_by_key(self, owner: str, key: str) -> Remote | None:
        return _first(self._rows("remote_by_key", owner, key))

    def repeat_remote(self, owner: str, fingerprint: str, since: Instant, now: Instant) -> Remote | None:
        taken = self._rows("repeat_remote", now, owner, fingerprint, since)
        return _first(self._rows("remote_by_id", taken[0][0])) if taken else None

    def update_remote(self, remote: Remote) -> None:
        self._rows("update_remote", remote.at, remote.remote, remote.state, remote.updated, remote.id)

    def delete_remote(self, id: str) -> None:
        self._rows("delete_remote", id)

    def prune_remotes(self, before: Instant, limit: int) -> int:
        return len(self._rows("prune_remotes", before, limit))


class RemotesMixin(Remotes, ABC):
    @abstractmethod
    def _write(self) -> AbstractContextManager[RemoteRows]: ...

    @abstractmethod
    def _named(self, name: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a named query that reads."""

    def keep_remote(self, remote: Remote, limit: int) -> Result[Remote]:
        with self._write() as tx:
            tx.lock_owner(remote.owner)
            known = tx.remote_by_key(remote.owner, remote.key)
            if known is not None:
                return Ok(known)
            here = tx.count_living(remote.owner, limit)
            if here + tx.count_remotes(remote.owner, remote.created, limit) >= limit:
                return quota_reached(limit)
            tx.insert_remote(remote)
        return Ok(remote)

    def repeat_remote(self, owner: str, fingerprint: str, since: Instant, now: Instant) -> Remote | None:
        with self._write() as tx:
            return tx.repeat_remote(owner, fingerprint, since, now)

    def update_remote(self, remote: Remote) -> None:
        with self._write() as tx:
            tx.update_remote(remote)

    def forget_remote(self, id: str) -> None:
        with self._write() as tx:
            tx.delete_remote(id)

    def remote(self, id: str) -> Remote | None:
        return _first(self._named("remote_by_id", id))

    def remote_by_key(self, owner: str, key: str) -> Remote | None:
        return _first(self._named("remote_by_key", owner, key))

    def remotes(self, owner: str, now: Instant, topic: str | None = None) -> list[Remote]:
        rows = self._named("remotes_of", owner, now) if topic is None else self._named("remotes_on", owner, topic, now)
        return [Remote._make(row) for row in rows]

    def remote_marks(self, owner: str, topic: str, now: Instant) -> list[Mark]:
        return [Mark._make(row) for row in self._named("remote_marks", owner, topic, now)]


def _first(rows: list[tuple[Any, ...]]) -> Remote | None:
    return Remote._make(rows[0]) if rows else None
