"""HTTP calls and their answers as values, with the checks that precede a call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import NamedTuple

from duetime.engine.clock import DAY, SECOND, instant_of
from duetime.engine.model import LOCAL
from duetime.engine.urls import BadAddress, UrlParts, read_url

OURS = frozenset({"connection", "content-length", "host", "te", "trailer", "transfer-encoding", "upgrade"})
"""Headers that define the target and the end of a message: other values would allow request smuggling."""

PAGES = frozenset({"text/html", "application/xhtml+xml"})
"""Media types of pages for people, such as a login. No program that was called as intended answers with one."""
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_LONGEST_SECONDS = len(str(DAY // SECOND))


def is_header_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def is_header_value(value: str) -> bool:
    """Return whether a value has no control characters, because a line break would end the header and begin another."""
    return _UNSENDABLE.search(value) is None


def media_type_of(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def retry_after(headers: Mapping[str, str]) -> int:
    """Return for how many microseconds the receiver asked the caller to wait, at most a day; 0 if it did not ask or the
    value is unreadable."""
    header = headers.get("retry-after", "").strip()
    if header.isascii() and header.isdigit():
        return DAY if len(header) > _LONGEST_SECONDS else min(int(header) * SECOND, DAY)
    until, answered = _date(header), _date(headers.get("date", ""))
    if until is None or answered is None:
        return 0
    # Both times are from the receiver's clock, so that it need not agree with ours.
    return min(max(instant_of(until) - instant_of(answered), 0), DAY)


def _date(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime  # imports sockets and more, which most commands never need

    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def status_name(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_WITHOUT_BODY = frozenset({"DELETE", "GET", "HEAD", "OPTIONS"})


class HttpCall(NamedTuple):
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""
    patience: float = 5.0
    """Timeout in seconds for everything together: lookup, connection, TLS, sending and the answer."""
    once: bool = False
    """True if it must never reach the receiver twice: it is sent over a new connection and never repeated."""
    owner: str = LOCAL
    """The owner whose share of name lookups the call uses."""


class HttpAnswer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """Names are in lower case. There is always a `date`: the time of the answer if the receiver sent none."""
    body: bytes
    cut: bool
    """True if the body exceeded the limit or broke off; `body` is then the part that arrived."""


class CallFailed(Exception):
    """There is no answer. The reason may be shown: it names the host, but never a query, a user name or a header."""

    def __init__(self, reason: str, *, permanent: bool = False, timed_out: bool = False, untried: bool = False) -> None:
        """`timed_out`: the time ran out, which may be due to the caller's timeout as well as to the receiver.
        `untried`: the call was not sent, for a reason that says nothing about the receiver."""
        super().__init__(reason)
        self.untried = untried
        self.reason = reason
        self.permanent = permanent
        self.timed_out = timed_out


class CheckedCall(NamedTuple):
    method: bytes
    target: UrlParts
    headers: list[tuple[bytes, bytes]]
    body: bytes
    once: bool = False
    owner: str = LOCAL


def checked(call: HttpCall) -> CheckedCall:
    """Check a call. Raise a permanent CallFailed if it could be interpreted as more than one request, or as none."""
    try:
        target = read_url(call.url)
    except BadAddress as error:
        raise CallFailed(str(error), permanent=True) from None
    if call.method not in _METHODS:
        raise CallFailed(f"the method must be one of {', '.join(sorted(_METHODS))}", permanent=True)
    headers = [_header(name, value) for name, value in call.headers.items()]
    if not any(name.lower() == b"user-agent" for name, _ in headers):
        headers.append((b"User-Agent", b"duetime"))
    if call.body or call.method not in _WITHOUT_BODY:
        headers.append((b"Content-Length", b"%d" % len(call.body)))
    headers.insert(0, (b"Host", target.authority.encode("ascii")))
    return CheckedCall(call.method.encode("ascii"), target, headers, call.body, call.once, call.owner)


def _header(name: str, value: str) -> tuple[bytes, bytes]:
    if not is_header_name(name):
        raise CallFailed("a header name holds characters that no header may have", permanent=True)
    if name.lower() in OURS:
        raise CallFailed(f"the header {name} is set by Duetime itself; leave it out", permanent=True)
    if not is_header_value(value):
        raise CallFailed(f"the header {name} contains a line break or invalid characters; remove it", permanent=True)
    return name.encode("ascii"), value.strip(" \t").encode()
