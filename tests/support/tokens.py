"""Hand-made tokens, valid and invalid."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jwt

from duetime.engine.clock import SECOND, Clock, Instant
from duetime.engine.store_interfaces import Revocation, Revocations
from duetime.security.revocations import StoreRevocations
from duetime.security.tokens import Tokens

SECRET = b"x" * 64
START = Instant(1_772_323_200 * SECOND)  # 2026-03-01T00:00Z


class MemoryRevocations(Revocations):
    """Revocations of a test that has no store."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def revoke(self, revocations: Sequence[Revocation], now: Instant) -> list[str]:
        fresh = [each.id for each in revocations if each.id not in self._ids]
        self._ids.update(fresh)
        return fresh

    def revoked(self, first: str, second: str) -> list[str]:
        return sorted({first, second} & self._ids)

    def signing_generation(self, owner: str) -> int:
        return 0

    def rotate_signing_key(self, owner: str, now: Instant, limit: int) -> int | None:
        return None


def tokens_with(store: Revocations, folder: Path, clock: Clock, secret: bytes = SECRET) -> Tokens:
    """Return tokens as a server has them: its own files, and a store with the revocations."""
    revocations = StoreRevocations(store, clock)
    return Tokens(secret, folder, clock, issuer="duetime", audience="duetime", revocations=revocations)


def claims(**changes: Any) -> dict[str, Any]:
    """Return the claims of a valid token, with changes; None removes one."""
    now = START // SECOND
    valid = {
        "iss": "duetime",
        "aud": "duetime",
        "sub": "ada",
        "jti": "0123456789",
        "iat": now,
        "exp": now + 3600,
    }
    return {name: value for name, value in {**valid, **changes}.items() if value is not None}


def forged(said: dict[str, Any], *, secret: Any = SECRET, algorithm: str = "HS512") -> str:
    return jwt.api_jws.encode(_json(said), secret, algorithm)


def _json(said: dict[str, Any]) -> bytes:
    """Encode without checks, because the library itself would check some of the claims before signing."""
    return json.dumps(said).encode()
