"""Tokens made by hand, right and wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jwt

from duetime.engine.clock import SECOND, Clock, Instant
from duetime.engine.store_interfaces import Revocations
from duetime.security.revocations import FileRevocations, StoreRevocations
from duetime.security.tokens import Tokens

SECRET = b"x" * 64
START = Instant(1_772_323_200 * SECOND)  # 2026-03-01T00:00Z


def tokens_with(store: Revocations, folder: Path, clock: Clock) -> Tokens:
    """As a server has them: files of its own, and a store that knows what was revoked."""
    revocations = StoreRevocations(store, FileRevocations(folder / "tokens", clock), clock)
    return Tokens(SECRET, folder, clock, issuer="duetime", audience="duetime", revocations=revocations)


def claims(**changes: Any) -> dict[str, Any]:
    """Those of a valid token, with changes; None leaves one out."""
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
    """As it stands: the library itself would check some of the claims before it signs them."""
    return json.dumps(said).encode()
