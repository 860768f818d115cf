"""HTTP calls and their answers; a call is checked before any of it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from duetime.net.headers import OURS, is_header_name, is_header_value
from duetime.net.urls import BadAddress, Target, read_url

RawHeaders: TypeAlias = list[tuple[bytes, bytes]]

_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_WITHOUT_BODY = frozenset({"DELETE", "GET", "HEAD", "OPTIONS"})


class Call(NamedTuple):
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""
    patience: float = 5.0
    """Timeout in seconds for everything together: lookup, connect, TLS, sending and the answer."""


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """Names are in lower case. There is always a `date`: the time of the answer if the receiver sent none."""
    body: bytes
    cut: bool
    """True if the body exceeded the limit or broke off; `body` is then what arrived."""


class CallFailed(Exception):
    """There is no answer. The reason may be shown: it names the host, never a query, a user name or a header."""

    def __init__(self, reason: str, *, permanent: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.permanent = permanent


class CheckedCall(NamedTuple):
    method: bytes
    target: Target
    headers: RawHeaders
    body: bytes


def checked(call: Call) -> CheckedCall:
    """Check a call. Raise a permanent CallFailed if it could be read as more than one request, or as none."""
    try:
        target = read_url(call.url)
    except BadAddress as error:
        raise CallFailed(str(error), permanent=True) from None
    if call.method not in _METHODS:
        raise CallFailed(f"the method has to be one of {', '.join(sorted(_METHODS))}", permanent=True)
    headers = [_header(name, value) for name, value in call.headers.items()]
    if not any(name.lower() == b"user-agent" for name, _ in headers):
        headers.append((b"User-Agent", b"duetime"))
    if call.body or call.method not in _WITHOUT_BODY:
        headers.append((b"Content-Length", b"%d" % len(call.body)))
    headers.insert(0, (b"Host", target.authority.encode("ascii")))
    return CheckedCall(call.method.encode("ascii"), target, headers, call.body)


def _header(name: str, value: str) -> tuple[bytes, bytes]:
    if not is_header_name(name):
        raise CallFailed("a header name holds characters that no header may have", permanent=True)
    if name.lower() in OURS:
        raise CallFailed(f"the header {name} is set by Duetime itself; leave it out", permanent=True)
    if not is_header_value(value):
        raise CallFailed(f"the header {name} holds a line break or what is no text; remove it", permanent=True)
    return name.encode("ascii"), value.strip(" \t").encode()
