"""Logs of what happened to messages, derived from their runs and attempts, latest first."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from duetime.engine.clock import Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.model import Attempt, Run, RunStatus, Schedule, ScheduleState
from duetime.engine.scopes import WRITE
from duetime.engine.store import Page
from duetime.kinds.requests.qstash_api.call import PREFIX, ApiResponse, Asking, is_changed, not_found, not_offered
from duetime.kinds.requests.qstash_api.lookup import (
    FailedMessage,
    Filter,
    QStashMessage,
    Source,
    chosen,
    failure_of,
    find_failure,
    find_message,
    find_runs,
    find_schedules,
    message_of,
    walk,
)
from duetime.kinds.requests.qstash_api.views import (
    View,
    answer_of,
    dlq_view,
    message_view,
    milliseconds,
    payload_of,
    shown_to,
    without_nulls,
)
from duetime.kinds.requests.wire import ONCE, body_of, message_id
from duetime.service.masking import masked

# Log rows of one message, latest first.

_LARGEST_BODY = 4096
"""Maximum bytes of a body that a log row repeats; larger ones are only in the message itself."""
_CALLED_OFF = frozenset({RunStatus.CANCELLED, RunStatus.MISSED, RunStatus.SKIPPED})


def log_rows(message: QStashMessage, attempts: Sequence[Attempt], depth: int) -> list[View]:
    view = message_view(*message, depth)
    payload = payload_of(message.schedule)
    body = body_of(shown_to(depth, payload))
    common = {name: view.get(name) for name in _REPEATED}
    common["body"] = base64.b64encode(body).decode() if len(body) <= _LARGEST_BODY else None
    common["callbackHeaders"] = view.get("callbackHeader")
    common["failureCallbackHeaders"] = view.get("failureCallbackHeader")
    common["retryDelayExpr"] = common["retryDelayExpression"] = view.get("retryDelayExpression")
    common["timeout"] = payload["timeout"] * 1000 if "timeout" in payload else None
    common = without_nulls(common)
    created = _row("CREATED", view["createdAt"], nextDeliveryTime=view["notBefore"])
    rows = [created, *_tried(attempts), *_state(message, view["createdAt"], depth)]
    return [{**common, **row} for row in reversed(rows)]


_REPEATED = (
    "messageId", "url", "method", "header", "scheduleId", "maxRetries", "callback", "failureCallback", "label",
    "labels",
)  # fmt: skip


def _row(state: str, at: Instant | int, **more: Any) -> View:
    return without_nulls({"state": state, "time": at, **more})


def _tried(attempts: Sequence[Attempt]) -> Iterator[View]:
    """Yield the rows of attempts that were followed by another one."""
    for attempt in attempts:
        if attempt.started is not None:
            yield _row("ACTIVE", milliseconds(attempt.started))
        ended = milliseconds(attempt.finished)
        yield _row("ERROR", ended, error=masked(attempt.error))
        yield _row("RETRY", ended)


def _state(message: QStashMessage, created: int, depth: int) -> Iterator[View]:
    run = message.run
    if run is None:
        if message.schedule.progress.state == ScheduleState.CANCELLED:
            yield _row("CANCELED", created)  # the time of cancellation is not stored
        return
    ended = created if run.finished is None else milliseconds(run.finished)
    if run.status in _CALLED_OFF:
        yield _row("CANCELED", ended, error=masked(run.error))
    elif run.status != RunStatus.PENDING and run.started is not None:
        yield _row("ACTIVE", milliseconds(run.started))
        if run.status == RunStatus.COMPLETED:
            yield _row("DELIVERED", ended)
        elif run.status in (RunStatus.FAILED, RunStatus.LOST):
            yield _row("ERROR", ended, error=masked(run.error), **answer_of(run, depth))
            yield _row("FAILED", ended, error=masked(run.error))
        elif run.stop:
            yield _row("CANCEL_REQUESTED", milliseconds(run.started))


MOST = 1000
_IN_PROGRESS = frozenset({"ACTIVE", "RETRY", "ERROR"})


def list_events(asking: Asking) -> ApiResponse:
    filter_ = Filter(asking.query)
    states = filter_.values("state")
    states |= _IN_PROGRESS if "IN_PROGRESS" in states else set()

    def fits(row: View) -> bool:
        return (not states or row["state"] in states) and filter_.fits(row)

    rows, cursor = walk(_sources(asking, filter_), filter_.last("cursor"), filter_.count(MOST), fits)
    rows.sort(key=lambda row: -row["time"])
    return ApiResponse(without_nulls({"events": rows, "cursor": cursor}))


def _sources(asking: Asking, filter_: Filter) -> list[Source[Any]]:
    named = filter_.values("messageId") | filter_.values("messageIds")
    if named:
        messages = [each for id in sorted(named) if (each := find_message(asking, id)) is not None]
        return [Source(lambda _at, _limit: Page(messages, None, len(messages)), partial(_of_message, asking))]
    # A message that has not started, or never will, has no run.
    unbegun = [
        Source(partial(find_schedules, asking, status), partial(_of_unbegun, asking))
        for status in ("pending", "cancelled")
    ]
    begun = Source(lambda at, limit: find_runs(asking, cursor=at, limit=limit), partial(_of_run, asking))
    return [*unbegun, begun]


def _of_run(asking: Asking, run: Run) -> list[View]:
    message = message_of(asking, run)
    return [] if message is None else _of_message(asking, message)


def _of_message(asking: Asking, message: QStashMessage) -> list[View]:
    attempts = [] if message.run is None else asking.scheduler.store.attempts(message.run.id)
    return log_rows(message, attempts, asking.caller.depth)


def _of_unbegun(asking: Asking, schedule: Schedule) -> list[View]:
    is_message = schedule.definition.public_id.startswith(ONCE) and not schedule.progress.run_count
    return log_rows(QStashMessage(schedule, None), [], asking.caller.depth) if is_message else []


# The dead letter queue: messages whose attempts are used up, until somebody retries or removes them.

MOST_LETTERS = 100
MOST_AT_ONCE = 1000
"""Maximum messages removed or retried by a filter in one call; clients with more repeat the call."""
_NOT_SETTINGS = (f"{PREFIX}telemetry-",)


def list_failures(asking: Asking) -> ApiResponse:
    filter_ = Filter(asking.query)
    rows, cursor = _failures(asking, filter_, filter_.count(MOST_LETTERS))
    return ApiResponse(without_nulls({"messages": rows, "cursor": cursor}))


def _failures(asking: Asking, filter_: Filter, count: int) -> tuple[list[View], str | None]:
    oldest_first = filter_.last("order") != "latestFirst"

    def failed(at: str | None, limit: int) -> Page[Run]:
        return find_runs(asking, status=str(RunStatus.FAILED), oldest_first=oldest_first, cursor=at, limit=limit)

    def view(run: Run) -> list[View]:
        failure = failure_of(asking, run)
        return [] if failure is None else [dlq_view(*failure, asking.caller.depth)]

    return walk([Source(failed, view)], filter_.last("cursor"), count, filter_.fits)


def get_failure(asking: Asking) -> ApiResponse:
    return ApiResponse(dlq_view(*_failure(asking), asking.caller.depth))


def _failure(asking: Asking) -> FailedMessage:
    id: str = asking.path["dlq_id"]
    failure = find_failure(asking, id)
    if failure is None:
        raise not_found("DLQ message", id)
    return failure


def delete_failure(asking: Asking) -> ApiResponse:
    asking.scheduler.dismiss(asking.caller, _failure(asking).run.id)
    return ApiResponse()


def delete_failures(asking: Asking) -> ApiResponse:
    failures, cursor = _chosen(asking)
    number = sum(is_changed(partial(asking.scheduler.dismiss, asking.caller, each.run.id)) for each in failures)
    return ApiResponse(without_nulls({"deleted": number, "cursor": cursor}))


def retry_failure(asking: Asking) -> ApiResponse:
    _refuse_settings(asking)
    failure = _failure(asking)
    asking.scheduler.retry(asking.caller, failure.run.id)
    return ApiResponse(_retried(failure))


def retry_failures(asking: Asking) -> ApiResponse:
    _refuse_settings(asking)
    failures, cursor = _chosen(asking)
    done = [each for each in failures if is_changed(partial(asking.scheduler.retry, asking.caller, each.run.id))]
    return ApiResponse(without_nulls({"responses": [_retried(each) for each in done], "cursor": cursor}))


def _chosen(asking: Asking) -> tuple[Sequence[FailedMessage], str | None]:
    """Return the failures that are named or match the filter, and a cursor if there are more; selecting all requires
    `all=true`."""
    cursor = None
    asking.scheduler.check_scopes(asking.caller, WRITE)
    ids, filter_ = chosen(asking, "dlqIds", "cursor", "order")
    if ids is None:
        if filter_.is_empty and asking.query.get("all") != ["true"]:
            raise InvalidInput("give dlqIds, a filter, or all=true")
        rows, cursor = _failures(asking, filter_, filter_.count(MOST_AT_ONCE))
        ids = [row["dlqId"] for row in rows]
    failures = [find_failure(asking, each) for each in dict.fromkeys(ids)]
    return [each for each in failures if each is not None], cursor


def _retried(failure: FailedMessage) -> View:
    """Return the id of the message, which a retry keeps so that a receiver can recognize repeats."""
    return {"messageId": message_id(failure.schedule.definition.public_id, failure.run.id)}


def _refuse_settings(asking: Asking) -> None:
    for name in asking.headers:
        if name.startswith(PREFIX) and not name.startswith(_NOT_SETTINGS):
            raise not_offered(f"{name}: changing a message while it is retried is")
