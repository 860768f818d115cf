"""What an answer, or the lack of one, means for the run that made the call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from duetime.core.clock import DAY, SECOND, instant_of
from duetime.core.outcome import Completed, Failed, Outcome, Retry
from duetime.delivery.calls import Answer, CallFailed
from duetime.delivery.hosts import Sign

_TRY_AGAIN = frozenset({408, 425, 429})
_LONGEST_SECONDS = len(str(DAY // SECOND))


def outcome_of(answer: Answer, result: Mapping[str, Any], host: str) -> Outcome:
    """2xx is done, with `result` and the status as what the run shows; 408, 425, 429 and 5xx are tried again."""
    status = answer.status
    if 200 <= status < 300:
        return Completed(json.dumps({**result, "status": status}))
    said = f"{host} answered {named(status)}"
    if status in _TRY_AGAIN or status >= 500:
        return Retry(said, after=retry_after(answer.headers))
    if 300 <= status < 400:
        return Failed(f"{said}; redirects are not followed, so give the address that it leads to", permanent=True)
    return Failed(f"{said}; it is not tried again: check the address, its credentials and what is sent", permanent=True)


def outcome_of_failure(failed: CallFailed) -> Outcome:
    return Failed(failed.reason, permanent=True) if failed.permanent else Retry(failed.reason)


def sign_of(answer: Answer) -> Sign:
    """429 is an answer of a host that lives; 5xx is as good as none."""
    return Sign.FAILED if answer.status >= 500 else Sign.ANSWERED


def sign_of_failure(failed: CallFailed) -> Sign:
    """What was refused before it left says nothing of the host."""
    return Sign.NONE if failed.permanent else Sign.FAILED


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
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def named(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
