"""Tokens that must not be accepted: wrong signatures, algorithms, claims and headers, made from one good token."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from typing import Any

import jwt

DAY = 24 * 3600


def forgeries(secret: str) -> Iterator[tuple[str, str]]:
    """Yield what is wrong and the token."""
    yield from _algorithms(secret)
    yield from _keys(secret)
    yield from _claims(secret)
    yield from _headers(secret)
    yield from _shapes(secret)


def _good(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    claims = {"iss": "duetime", "aud": "duetime", "sub": "mallory", "jti": "forged", "iat": now - 5, "exp": now + DAY}
    return {name: value for name, value in {**claims, **changes}.items() if value is not None}


def _signed(claims: dict[str, Any], secret: str, header: dict[str, Any] | None = None) -> str:
    """Sign by hand: a library refuses some of these headers and claims."""
    head = {"alg": "HS512", "typ": "JWT"} | (header or {})
    body = ".".join(_base64(json.dumps(part).encode()) for part in (head, claims))
    return f"{body}.{_base64(hmac.new(secret.encode(), body.encode(), hashlib.sha512).digest())}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _algorithms(secret: str) -> Iterator[tuple[str, str]]:
    for name in ("none", "None", "NONE", "nOnE", "", "HS512 ", "RS512", "ES512", "PS512", "EdDSA", "dir"):
        body = ".".join(_base64(json.dumps(part).encode()) for part in ({"alg": name, "typ": "JWT"}, _good()))
        yield f"algorithm {name!r} without a signature", f"{body}."
        yield f"algorithm {name!r} with a good signature", _signed(_good(), secret, {"alg": name})
    for name in ("HS256", "HS384"):
        yield f"algorithm {name}", jwt.encode(_good(), secret, name)


def _keys(secret: str) -> Iterator[tuple[str, str]]:
    others = [
        "",
        "secret",
        "duetime",
        secret[:-1],
        secret + "x",
        secret.swapcase(),
        secret[::-1],
        "\x00" * 64,
        "x" * 64,
    ]
    for number, key in enumerate(others):
        yield f"key {number}", _signed(_good(), key)
    good = _signed(_good(), secret)
    for place in range(0, 80, 8):
        flipped = "A" if good[-place - 1] != "A" else "B"
        yield f"signature changed at {place}", good[: len(good) - place - 1] + flipped + good[len(good) - place :]


def _claims(secret: str) -> Iterator[tuple[str, str]]:
    now = int(time.time())
    for name in ("iss", "aud", "sub", "jti", "iat", "exp"):
        yield f"no {name}", _signed(_good(**{name: None}), secret)
    wrong: dict[str, list[Any]] = {
        "iss": ["", "duetime ", "Duetime", ["duetime"], 1, {}],
        "aud": ["", "duetime#browser", "duetime#calendar", "other", ["other"], 1],
        "sub": ["", 1, [], {}, "x" * 5000, "a\x00b"],
        "exp": [now - 3600, 0, -1, "tomorrow", [], "9" * 400],
        "iat": [now + DAY, "now", [], -1e308],
        "nbf": [now + DAY, "later"],
        "jti": ["", 1, [], {}, "x" * 5000],
        "scope": [1, {}, ["operator"], {"operator": True}],
        "owner": [1, [], {}, "", "a\x00b"],
        "depth": ["0", -1, [], 1.5, "x"],
        "run": ["x", -1, []],
    }
    for name, values in wrong.items():
        for value in values:
            if value is not None:
                yield f"{name} = {str(value)[:30]!r}", _signed(_good(**{name: value}), secret)


def _headers(secret: str) -> Iterator[tuple[str, str]]:
    for header in (
        {"crit": ["b64"], "b64": False},
        {"crit": ["exp"]},
        {"zip": "DEF"},
        {"typ": "JWE", "enc": "A256GCM", "crit": ["enc"]},
    ):
        yield f"header {header}", _signed(_good(), secret, header)
    pointing: tuple[dict[str, Any], ...] = (
        {"jku": "http://127.0.0.1:9/keys"},
        {"jwk": {"kty": "oct", "k": "eA"}},
        {"kid": "../../dev/null"},
    )
    for named in pointing:
        yield f"header {named} with its own key", _signed(_good(), "x", named)


def _shapes(secret: str) -> Iterator[tuple[str, str]]:
    good = _signed(_good(), secret)
    head, body, signature = good.split(".")
    yield "no signature", f"{head}.{body}"
    yield "two dots at the end", f"{head}.{body}.."
    yield "swapped parts", f"{body}.{head}.{signature}"
    yield "four parts", f"{good}.{signature}"
    yield "another body", f"{head}.{_base64(json.dumps(_good(scope='operator')).encode())}.{signature}"
    yield "a list as claims", _signed([_good()], secret)  # type: ignore[arg-type]
    yield "a text as claims", _signed("mallory", secret)  # type: ignore[arg-type]
    for text in ("", "null", "Bearer", "x.y.z", "." * 50, "e30.e30.", "A" * 9000, "%00", "\\u0000"):
        yield f"not a token: {text[:20]!r}", text
