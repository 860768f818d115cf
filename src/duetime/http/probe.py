"""Checks whether Duetime answers at an address, and whether it is the server of a certain store. This imports nothing
of the web server, so that commands start quickly.

After a crash, the address that a server published may belong to another program, which must not be given a token. So a
server also publishes a random key in the store, and uses it to prove that it reads the same store.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

SERVICE = "duetime"
"""The service name in the answer of `/healthz`."""
PROOF = "/.well-known/duetime"
"""Path at which a server proves that it reads the store."""
_PATIENCE = 2.0
_MAX_ANSWER_BYTES = 1000


class ProbeAnswer(Enum):
    NONE = "nothing answers"
    OTHER = "another program answers, or the server of another store"
    OURS = "the server of the store answers"


def answers(url: str) -> bool:
    """Return whether a Duetime server answers at this address."""
    answer, _ = _get(url, "/healthz")
    return answer is not None and answer.get("service") == SERVICE


def who_answers(url: str, key: str) -> ProbeAnswer:
    """Return who answers at this address. `key` is what the server published in the store; empty if there is none."""
    nonce = secrets.token_hex(16)
    answer, address = _get(url, f"{PROOF}?nonce={nonce}")
    if answer is None:
        return ProbeAnswer.NONE
    expected = proof_of(key, nonce, address, urlsplit(url).port or 0)
    is_proven = bool(key) and hmac.compare_digest(str(answer.get("proof")).encode(), expected.encode())
    return ProbeAnswer.OURS if is_proven else ProbeAnswer.OTHER


def proof_of(key: str, nonce: str, address: str, port: int) -> str:
    """Return the proof. It is for the address and port to which the client connected, so that a program at another
    address or port cannot pass on the server's answer."""
    place = f"{address.removeprefix('::ffff:')}|{port}"
    return hmac.new(key.encode(), f"{nonce}:{place}".encode(), hashlib.sha256).hexdigest()


def _get(url: str, path: str) -> tuple[dict[str, Any] | None, str]:
    """Return the JSON object that answers a GET request and the address that answered. The object is empty if the
    answer is something else, and None if no connection is possible."""
    from http.client import HTTPConnection, HTTPException

    place = urlsplit(url)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=_PATIENCE)
    try:
        connection.connect()
        address: str = connection.sock.getpeername()[0]
    except OSError:
        return None, ""
    try:
        connection.request("GET", path)
        answer = json.loads(connection.getresponse().read(_MAX_ANSWER_BYTES))
    except (OSError, HTTPException, ValueError):
        return {}, address
    finally:
        connection.close()
    return answer if isinstance(answer, dict) else {}, address
