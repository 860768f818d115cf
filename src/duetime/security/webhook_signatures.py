"""Signatures of webhooks that others send: how each scheme proves that a request is theirs, and which key identifies a
delivery, so that a repeated one is recognised."""

from __future__ import annotations

import base64
import binascii
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
_LEAST, _MOST = 16, 200
"""Minimum and maximum number of characters of a secret."""
_PREFIX: Final = "whsec_"


class WrongSignature(Exception):
    """The request is not signed with the secret of its hook. The text says why, and does not contain the secret."""


def new_secret(scheme: str) -> str:
    if scheme in ("standard", "stripe"):
        return _PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
    return secrets.token_urlsafe(32)


def check_secret(scheme: str, secret: str) -> str:
    """Return a secret that the sender issued. Raises InvalidInput if the scheme cannot use it."""
    if scheme == "url":
        raise InvalidInput(field="secret", problem="the address is the secret of this scheme; leave it out")
    if not _LEAST <= len(secret) <= _MOST or not secret.isprintable():
        raise InvalidInput(field="secret", problem=f"must have {_LEAST} to {_MOST} printable characters")
    try:
        _key_of(scheme, secret)
    except (binascii.Error, ValueError):
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
            header, values = "X-Hub-Signature-256", [headers.get("x-hub-signature-256", "")]
        case "standard":
            prefix = "webhook" if "webhook-id" in headers else "svix"
            header, key, time = "webhook-signature", headers.get(f"{prefix}-id"), headers.get(f"{prefix}-timestamp", "")
            values = [each[3:] for each in headers.get(f"{prefix}-signature", "").split() if each.startswith("v1,")]
            signed = f"{key}.{time}.".encode("utf-8", "replace") + body
        case "stripe":
            parts = [part.strip().partition("=") for part in headers.get("stripe-signature", "").split(",")]
            header, time = "Stripe-Signature", next((value for name, _, value in parts if name == "t"), "")
            values = [value for name, _, value in parts if name == "v1"]
            signed = f"{time}.".encode("utf-8", "replace") + body
        case _:
            header = "a header with `signature` or `hmac` in its name"
            values = [value for name, value in headers.items() if "signature" in name or "hmac" in name]
    digest = hmac.digest(_key_of(scheme, secret), signed, hashlib.sha256)
    forms = digest.hex(), base64.b64encode(digest).decode()
    if not any(_fits(value.removeprefix("sha256="), *forms) for value in values):
        raise WrongSignature(f"{header} has no signature that fits the body and the secret of this hook")
    if time is not None and not (time.isascii() and time.isdigit() and _is_recent(int(time[:15]), now)):
        raise WrongSignature(f"the time in the signature is more than {TOLERANCE // 60} minutes away from this clock")
    return digest.hex() if scheme == "github" else key  # GitHub's header with an id is not signed


def _fits(value: str, in_hex: str, in_base64: str) -> bool:
    """Compare in constant time. Other characters than those of a signature may be in a header."""
    as_bytes = value.encode("utf-8", "replace")
    return hmac.compare_digest(as_bytes.lower(), in_hex.encode()) or hmac.compare_digest(as_bytes, in_base64.encode())


def _is_recent(seconds: int, now: Instant) -> bool:
    return abs(seconds - now // SECOND) <= TOLERANCE


def _key_of(scheme: str, secret: str) -> bytes:
    is_encoded = scheme == "standard"
    return base64.b64decode(secret.removeprefix(_PREFIX), validate=True) if is_encoded else secret.encode()
