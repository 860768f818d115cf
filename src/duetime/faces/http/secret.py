"""The secret that signs tokens: given by the environment, or made once and kept in a private file."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from duetime.core.errors import InvalidInput
from duetime.core.redaction import remember_secrets
from duetime.faces.http.private import create_private, make_private, read_private

VARIABLE = "DUETIME_SECRET"
FILE = "secret"
LEAST = 64
"""Bytes: HS512 is as strong as its key, and a shorter key than its output weakens it."""

_MAKE = "python3 -c 'import secrets; print(secrets.token_urlsafe(64))'"


def load_secret(folder: Path, environment: Mapping[str, str]) -> bytes:
    given = environment.get(VARIABLE)
    if given is not None:
        return _long_enough(given.encode("utf-8", "surrogateescape"), VARIABLE)
    make_private(folder)
    path = folder / FILE
    text = read_private(path)
    if text is None:
        create_private(path, secrets.token_urlsafe(LEAST))
        text = read_private(path)
    return _long_enough((text or "").strip().encode(), str(path))


def _long_enough(secret: bytes, source: str) -> bytes:
    remember_secrets([secret.decode("utf-8", "replace")])
    if len(secret) < LEAST:
        raise InvalidInput(
            f"{source}: the secret has {len(secret)} bytes, at least {LEAST} are needed; make one: {_MAKE}"
        )
    return secret
