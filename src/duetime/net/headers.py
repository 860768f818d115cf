"""HTTP helpers: which headers may be sent, Retry-After, and the names of statuses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus

from duetime.engine.clock import DAY, SECOND, instant_of

OURS = frozenset({"connection", "content-length", "host", "te", "trailer", "transfer-encoding", "upgrade"})
"""Headers that define the target and the end of a message: other values would allow request smuggling."""

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_LONGEST_SECONDS = len(str(DAY // SECOND))


def is_header_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def is_header_value(value: str) -> bool:
    """Return whether a value has no control characters: a line break would end the header and begin another."""
    return _UNSENDABLE.search(value) is None


def retry_after(headers: Mapping[str, str]) -> int:
    """Return the microseconds that the receiver asked to wait, a day at most; 0 if it did not, or not readably."""
    asked = headers.get("retry-after", "").strip()
    if asked.isascii() and asked.isdigit():
        return DAY if len(asked) > _LONGEST_SECONDS else min(int(asked) * SECOND, DAY)
    until, answered = _date(asked), _date(headers.get("date", ""))
    if until is None or answered is None:
        return 0
    # Both times are by the receiver's clock, so that it need not agree with ours.
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
