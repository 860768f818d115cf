"""Converts an answer, or a failed call, into the outcome of the run that made the call."""

from __future__ import annotations

import json
import logging
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from duetime.engine.clock import DAY, SECOND
from duetime.engine.outcome import Completed, Delay, Failed, Outcome, Retry, Returned
from duetime.net.calls import retry_after, status_name
from duetime.net.client import CallFailed, Http, HttpAnswer, HttpCall
from duetime.net.host_limits import Sign, Tried

NOT_RETRIED = "it will not be retried"
_TRY_AGAIN = frozenset({408, 425, 429})


def outcome_of(answer: HttpAnswer, result: Mapping[str, Any], host: str) -> Outcome:
    """Return the outcome: 2xx completes with `result` and the status; 408, 425, 429 and 5xx are retried."""
    status = answer.status
    if 200 <= status < 300:
        return Completed(json.dumps({**result, "status": status}))
    reason = f"{host} answered {status_name(status)}"
    if status in _TRY_AGAIN or status >= 500:
        return Retry(reason, after=retry_after(answer.headers))
    if 300 <= status < 400:
        return Failed(f"{reason}; redirects are not followed, so give the address that it leads to", permanent=True)
    return Failed(f"{reason}; {NOT_RETRIED}: check the address, its credentials and the content", permanent=True)


def outcome_of_failure(failed: CallFailed, after: Delay = 0) -> Outcome:
    """Return the outcome of a call without an answer; `after` is the minimum delay of a retry in microseconds."""
    if failed.untried:
        return not_tried(failed.reason)
    return Failed(failed.reason, permanent=True) if failed.permanent else Retry(failed.reason, after)


def not_tried(reason: str) -> Returned:
    """Return the outcome of a run that found no thread for its call; for a day, that does not count as an attempt."""
    return Returned(reason, random.randint(SECOND, 5 * SECOND), patience=DAY)


def sign_of(answer: HttpAnswer) -> Sign:
    """Return what an answer shows about the host: 429 comes from a host that is up; 5xx counts as no answer."""
    return Sign.FAILED if answer.status >= 500 else Sign.ANSWERED


def sign_of_failure(failed: CallFailed) -> Sign:
    """Return what a failure shows about the host: nothing if the call was refused before it was sent."""
    if failed.permanent or failed.untried:
        return Sign.NONE
    return Sign.SILENT if failed.timed_out else Sign.FAILED


# Calls to the operator's addresses: the run shows the answer, but not the address.

IDEMPOTENCY_KEY = "Idempotency-Key"
"""Header with the id of an outgoing message, the same on every attempt so that a receiver can recognize a
repetition."""


def post(
    http: Http,
    call: HttpCall,
    receiver: str,
    result: Callable[[HttpAnswer], Mapping[str, Any]],
    hidden: Sequence[str] = (),
) -> Tried:
    """Make one attempt. `receiver` is the name that people see in place of everything in `hidden`. `result` raises
    CallFailed if it is not the receiver that has answered."""
    try:
        with silence_logs():
            answer = http.send(call)
        details = result(answer)
    except CallFailed as failed:
        reason = failed.reason
        for each in hidden:
            reason = re.sub(rf"(?<![\w.-]){re.escape(each)}(?![\w-])", lambda _: receiver, reason)
        failure = CallFailed(reason, permanent=failed.permanent, timed_out=failed.timed_out, untried=failed.untried)
        return Tried(outcome_of_failure(failure), sign_of_failure(failure))
    return Tried(outcome_of(answer, details, receiver), sign_of(answer))


# Logs of packages that would show addresses and answers, including any credentials in them.

_is_silenced: ContextVar[bool] = ContextVar("duetime_silenced", default=False)
_reached = 0


@contextmanager
def silence_logs() -> Iterator[None]:
    """Suppress logs in this thread only, so that other users of the same packages still get theirs."""
    before = _is_silenced.set(True)
    try:
        _filter_every_logger()
        yield
        _filter_every_logger()  # loggers that were created meanwhile
    finally:
        _is_silenced.reset(before)


def _filter_every_logger() -> None:
    """Add the filter to every logger, because a filter applies to its own logger only; adding it twice changes
    nothing."""
    global _reached  # noqa: PLW0603 - loggers are never removed, so that their number tells whether there are new ones
    known = logging.root.manager.loggerDict
    if len(known) == _reached:
        return
    _reached = len(known)
    for name in ("", *known):
        logging.getLogger(name).addFilter(_may_pass)


def _may_pass(_record: logging.LogRecord) -> bool:
    return not _is_silenced.get()
