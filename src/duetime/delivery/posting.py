"""A call to an address of the operator's: what its answer says goes into the run, what its address says does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from duetime.delivery.calls import Answer, Call, CallFailed
from duetime.delivery.hosts import Tried
from duetime.delivery.http import Http
from duetime.delivery.judging import outcome_of, outcome_of_failure, sign_of, sign_of_failure
from duetime.delivery.muffling import muffled

IDEMPOTENCY_KEY = "Idempotency-Key"
"""Carries a parcel's id, the same on every attempt, so that a receiver can tell a repeat."""


def posted(
    http: Http,
    call: Call,
    receiver: str,
    result: Callable[[Answer], Mapping[str, Any]],
    hidden: Sequence[str] = (),
) -> Tried:
    """One attempt. `receiver` is how it is named where people read it, in place of whatever is `hidden`."""
    try:
        with muffled():
            answer = http.send(call)
    except CallFailed as failed:
        shown = CallFailed(_without(failed.reason, hidden, receiver), permanent=failed.permanent)
        return Tried(outcome_of_failure(shown), sign_of_failure(shown))
    return Tried(outcome_of(answer, result(answer), receiver), sign_of(answer))


def _without(reason: str, hidden: Sequence[str], receiver: str) -> str:
    for each in hidden:
        reason = re.sub(rf"(?<![\w.-]){re.escape(each)}(?![\w-])", lambda _: receiver, reason)
    return reason
