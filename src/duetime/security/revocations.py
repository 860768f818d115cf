"""Revoked tokens, sessions and links, kept in the store, which all nodes share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from duetime.engine.clock import DAY, Clock, Instant, SystemClock
from duetime.engine.store import Store
from duetime.engine.store_interfaces import Revocation, Revocations

KNOWN_FOR = 1.0
"""Seconds for which "not revoked" is cached: another node's revocation takes effect here within that time."""
MOST_REMEMBERED = 10_000
MAX_REVOCATION_AGE = 3660 * DAY
"""How long a revocation is kept if the expiry of its token is unknown: no token is valid for longer."""


class StoreRevocations:
    """Queries the store at most once a second for each id. A revoked id stays revoked, so it is not queried again."""

    def __init__(self, store: Revocations, clock: Clock) -> None:
        self._store, self._clock = store, clock
        # Real time, because a settable clock must not hide what others revoke.
        self._monotonic = SystemClock().monotonic
        self._lock = threading.Lock()
        self._asked: dict[tuple[str, str], float] = {}
        self._revoked: set[str] = set()

    def is_revoked(self, id: str, parent: str = "") -> bool:
        """Return whether a token, or the one from which it was made, is revoked. Raise StoreUnavailable if the store
        cannot be queried."""
        now = self._monotonic()
        with self._lock:
            if self._is_known_revoked(id, parent):
                return True
            if self._was_read(id, parent, now):
                return False
        ids = self._store.revoked(id, parent or id)
        with self._lock:
            self._remember(ids)
            if not ids:
                if len(self._asked) > MOST_REMEMBERED:
                    self._asked.clear()
                self._asked[id, parent] = now
        return bool(ids)

    def is_known_valid(self, id: str, parent: str = "") -> bool:
        """Return whether `is_revoked` would return False without reading anything. This never waits."""
        with self._lock:  # held only for moments
            return self._was_read(id, parent, self._monotonic()) and not self._is_known_revoked(id, parent)

    def _is_known_revoked(self, id: str, parent: str) -> bool:
        return id in self._revoked or (parent != "" and parent in self._revoked)

    def _was_read(self, id: str, parent: str, now: float) -> bool:
        return now - self._asked.get((id, parent), -KNOWN_FOR) < KNOWN_FOR

    def _remember(self, ids: list[str]) -> None:
        if len(self._revoked) > MOST_REMEMBERED:
            self._revoked.clear()
        self._revoked.update(ids)

    def revoke(self, id: str, expires: Instant) -> bool:
        """Revoke an id; return True for the first caller. `expires` is when it would have expired anyway."""
        now = self._clock.now()
        fresh = self._store.revoke([Revocation(id, now, expires)], now)
        with self._lock:
            self._remember([id])
        return bool(fresh)


class LazyRevocations(Revocations):
    """Revocations that open the store on first use. If the SQLite file does not exist yet, nothing is revoked in it."""

    def __init__(self, open_store: Callable[[], Store], file: Path | None) -> None:
        """`file` is the path of a SQLite store, which may not exist yet."""
        self._open, self._file = open_store, file
        self._opened: Store | None = None

    def _store(self) -> Store:
        if self._opened is None:
            store = self._open()
            try:
                store.migrate()
            except BaseException:
                store.close()
                raise
            self._opened = store
        return self._opened

    def _is_absent(self) -> bool:
        return self._opened is None and self._file is not None and not self._file.exists()

    def revoke(self, revocations: Sequence[Revocation], now: Instant) -> list[str]:
        return self._store().revoke(revocations, now)

    def revoked(self, first: str, second: str) -> list[str]:
        return [] if self._is_absent() else self._store().revoked(first, second)

    def signing_generation(self, owner: str) -> int:
        return 0 if self._is_absent() else self._store().signing_generation(owner)

    def rotate_signing_key(self, owner: str, now: Instant, limit: int) -> int | None:
        return self._store().rotate_signing_key(owner, now, limit)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None
