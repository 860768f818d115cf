"""The sender's side of webhooks: how each scheme signs a delivery."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode

from duetime.engine.clock import SECOND, Instant


def sign(scheme: str, secret: str, id: str, body: bytes, now: Instant) -> dict[str, str]:
    """Return the headers of a delivery, with lower-case names."""
    time = str(now // SECOND)

    def digest(text: bytes, key: bytes = secret.encode()) -> bytes:
        return hmac.new(key, text, hashlib.sha256).digest()

    match scheme:
        case "github":
            return {"x-hub-signature-256": f"sha256={digest(body).hex()}", "x-github-event": "push"}
        case "standard":
            signed = digest(f"{id}.{time}.".encode() + body, b64decode(secret.removeprefix("whsec_")))
            return {
                "webhook-id": id,
                "webhook-timestamp": time,
                "webhook-signature": f"v1,{b64encode(signed).decode()}",
            }
        case "stripe":
            return {"stripe-signature": f"t={time},v1={digest(f'{time}.'.encode() + body).hex()}"}
        case "hmac":
            return {"x-signature": digest(body).hex(), "idempotency-key": id}
        case _:
            return {"idempotency-key": id}
