"""The story of one message, as the rows of a log: created, tried, answered, ended. Latest first."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any

from duetime.core.clock import Instant
from duetime.core.model import Attempt, Run, RunStatus, ScheduleState
from duetime.core.requesting import body_of
from duetime.faces.http.qstash.finding import Message
from duetime.faces.http.qstash.views import (
    View,
    answer_of,
    message_view,
    milliseconds,
    payload_of,
    shown_to,
    without_nothing,
)
from duetime.faces.masked import masked

_LARGEST_BODY = 4096
"""Bytes of a body that a log repeats; the message itself has the whole of it."""
_CALLED_OFF = frozenset({RunStatus.CANCELLED, RunStatus.MISSED, RunStatus.SKIPPED})


def told(message: Message, attempts: Sequence[Attempt], depth: int) -> list[View]:
    view = message_view(*message, depth)
    common = _common(message, view, depth)
    created = _row("CREATED", view["createdAt"], nextDeliveryTime=view["notBefore"])
    rows = [created, *_tried(attempts), *_state(message, view["createdAt"], depth)]
    return [{**common, **row} for row in reversed(rows)]


def _common(message: Message, view: View, depth: int) -> View:
    payload = payload_of(message.schedule)
    shown = body_of(shown_to(depth, payload))
    common = {name: view.get(name) for name in _REPEATED}
    common["body"] = base64.b64encode(shown).decode() if len(shown) <= _LARGEST_BODY else None
    common["callbackHeaders"] = view.get("callbackHeader")
    common["failureCallbackHeaders"] = view.get("failureCallbackHeader")
    common["retryDelayExpr"] = common["retryDelayExpression"] = view.get("retryDelayExpression")
    common["timeout"] = payload["timeout"] * 1000 if "timeout" in payload else None
    return without_nothing(common)


_REPEATED = (
    "messageId", "url", "method", "header", "scheduleId", "maxRetries", "callback", "failureCallback", "label",
    "labels",
)  # fmt: skip


def _row(state: str, at: Instant | int, **more: Any) -> View:
    return without_nothing({"state": state, "time": at, **more})


def _tried(attempts: Sequence[Attempt]) -> Iterator[View]:
    """Attempts that were followed by another one."""
    for attempt in attempts:
        if attempt.started is not None:
            yield _row("ACTIVE", milliseconds(attempt.started))
        ended = milliseconds(attempt.finished)
        yield _row("ERROR", ended, error=masked(attempt.error))
        yield _row("RETRY", ended)


def _state(message: Message, created: int, depth: int) -> Iterator[View]:
    run = message.run
    if run is None:
        if message.schedule.progress.state == ScheduleState.CANCELLED:
            yield _row("CANCELED", created)  # when it was taken back is not kept
        return
    ended = created if run.finished is None else milliseconds(run.finished)
    if run.status in _CALLED_OFF:
        yield _row("CANCELED", ended, error=masked(run.error))
    elif run.status != RunStatus.PENDING and run.started is not None:
        yield _row("ACTIVE", milliseconds(run.started))
        yield from _outcome(run, ended, depth)


def _outcome(run: Run, ended: int, depth: int) -> Iterator[View]:
    if run.status == RunStatus.COMPLETED:
        yield _row("DELIVERED", ended)
    elif run.status in (RunStatus.FAILED, RunStatus.LOST):
        yield _row("ERROR", ended, error=masked(run.error), **answer_of(run, depth))
        yield _row("FAILED", ended, error=masked(run.error))
    elif run.stop:
        yield _row("CANCEL_REQUESTED", milliseconds(run.started or 0))
