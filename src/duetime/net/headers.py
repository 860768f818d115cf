"""What HTTP says, for all who speak it: which headers may be sent, how long to wait, what a status is called."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus

from duetime.engine.clock import DAY, SECOND, instant_of

OURS = frozenset({"connection", "content-length", "host", "te", "trailer", "transfer-encoding", "upgrade"})
"""Headers that say whom a message is for and where it ends: another value would smuggle in a second one."""

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_LONGEST_SECONDS = len(str(DAY // SECOND))


def is_header_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def is_header_value(value: str) -> bool:
    """Neither a line break nor another control character, which would end the header or begin the next."""
    return _UNSENDABLE.search(value) is None


def retry_after(headers: Mapping[str, str]) -> int:
    """Microseconds that the receiver asked to be left alone, a day at most; 0 where it asked for nothing readable."""
    asked = headers.get("retry-after", "").strip()
    if asked.isascii() and asked.isdigit():
        return DAY if len(asked) > _LONGEST_SECONDS else min(int(asked) * SECOND, DAY)
    until, answered = _date(asked), _date(headers.get("date", ""))
    if until is None or answered is None:
        return 0
    # Both by the receiver's own clock, so that it need not agree with ours.
    return min(max(instant_of(until) - instant_of(answered), 0), DAY)


def _date(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime  # brings sockets and more, which most commands never need

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
