"""What an answer, or the lack of one, means for the run that made the call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from duetime.core.http_words import retry_after, status_name
from duetime.core.outcome import Completed, Failed, Outcome, Retry
from duetime.delivery.calls import Answer, CallFailed
from duetime.delivery.hosts import Sign

_TRY_AGAIN = frozenset({408, 425, 429})


def outcome_of(answer: Answer, result: Mapping[str, Any], host: str) -> Outcome:
    """2xx is done, with `result` and the status as what the run shows; 408, 425, 429 and 5xx are tried again."""
    status = answer.status
    if 200 <= status < 300:
        return Completed(json.dumps({**result, "status": status}))
    said = f"{host} answered {status_name(status)}"
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
