"""What is revoked, for commands that work without a store until they need it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from duetime.core.clock import Instant
from duetime.core.revocations import Revocation, Revocations
from duetime.core.store import Store


class RevocationsByUse(Revocations):
    """Opens the store with the first question. Where a SQLite file is not there yet, nothing was revoked in it."""

    def __init__(self, open_store: Callable[[], Store], file: Path | None) -> None:
        """`file` is where a SQLite store would be."""
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

    def rotate_signing_key(self, owner: str, now: Instant, least: int, limit: int) -> int | None:
        return self._store().rotate_signing_key(owner, now, least, limit)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None
