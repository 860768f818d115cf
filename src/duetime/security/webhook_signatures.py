"""Signatures of webhooks that others send: how each scheme proves that a request is theirs, and which key identifies a
delivery, so that a repeated one is recognised."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Final

from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import InvalidInput

SCHEMES: Final = ("github", "standard", "stripe", "hmac", "url")
TOLERANCE: Final = 300
"""Seconds by which the time in a signature may differ from the clock of this machine."""
_PREFIX: Final = "whsec_"


class WrongSignature(Exception):
    """The request is not signed with the secret of its hook. The text says why, and does not contain the secret."""


def new_secret(scheme: str) -> str:
    encoded = base64.b64encode(secrets.token_bytes(32)).decode()
    return f"{_PREFIX}{encoded}" if scheme == "standard" else secrets.token_urlsafe(32)


def check_secret(scheme: str, secret: str) -> str:
    """Return a secret that the sender issued. Raises InvalidInput if the scheme cannot use it."""
    if scheme == "url":
        raise InvalidInput(field="secret", problem="the address is the secret of this scheme; leave it out")
    if not 16 <= len(secret) <= 200 or not secret.isprintable():
        raise InvalidInput(field="secret", problem="must have 16 to 200 printable characters")
    try:
        _key_of(scheme, secret)
    except ValueError:
        problem = f"must be {_PREFIX} and Base64, as the sender shows it"
        raise InvalidInput(field="secret", problem=problem) from None
    return secret


def verify(scheme: str, secret: str, headers: Mapping[str, str], body: bytes, now: Instant) -> str | None:
    """Return the key of a delivery, or None if its headers have none. `headers` have lower-case names. Raises
    WrongSignature. The scheme `url` signs nothing: who knows the address has proven enough."""
    if not secret:
        raise WrongSignature("this hook has no secret yet; its page in the dashboard makes one")
    time, key, signed = None, headers.get("idempotency-key") or None, body
    match scheme:
        case "url":
            return key
        case "github":
            values = [headers.get("x-hub-signature-256", "")]
        case "standard":
            prefix = "webhook" if "webhook-id" in headers else "svix"
            key, time, value = (headers.get(f"{prefix}-{name}", "") for name in ("id", "timestamp", "signature"))
            values = [each[3:] for each in value.split() if each.startswith("v1,")]
            signed = f"{key}.{time}.".encode("utf-8", "replace") + body
        case "stripe":
            parts = [part.strip().partition("=") for part in headers.get("stripe-signature", "").split(",")]
            time = next((value for name, _, value in parts if name == "t"), "")
            values = [value for name, _, value in parts if name == "v1"]
            signed = f"{time}.".encode("utf-8", "replace") + body
        case _:
            values = [value for name, value in headers.items() if "signature" in name or "hmac" in name]
    digest = hmac.digest(_key_of(scheme, secret), signed, hashlib.sha256)
    if not any(_fits(value.removeprefix("sha256="), digest) for value in values):
        raise WrongSignature("no header has a signature that fits the body and the secret of this hook")
    if time is not None and (not time.isdecimal() or abs(int(time[:15]) - now // SECOND) > TOLERANCE):
        raise WrongSignature(f"the time in the signature is more than {TOLERANCE // 60} minutes away from this clock")
    return digest.hex() if scheme == "github" else key  # GitHub's header with an id is not signed


def _fits(value: str, digest: bytes) -> bool:
    """Compare in constant time. Other characters than those of a signature may be in a header."""
    text, in_base64 = value.encode("utf-8", "replace"), base64.b64encode(digest)
    return hmac.compare_digest(text.lower(), digest.hex().encode()) or hmac.compare_digest(text, in_base64)


def _key_of(scheme: str, secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(_PREFIX), validate=True) if scheme == "standard" else secret.encode()
