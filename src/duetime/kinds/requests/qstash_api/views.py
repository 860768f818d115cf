"""Schedules and messages in QStash's format, with redacted parts shown as digests.

For the run of an agent (`depth` above 0), anything that looks like a credential is masked as well.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from duetime.engine.clock import NEVER, SECOND, Instant
from duetime.engine.encoding import json_object
from duetime.engine.model import Run, RunStatus, Schedule, ScheduleState
from duetime.engine.triggers import OnceTrigger, trigger_from_json
from duetime.kinds.requests.masking import redact
from duetime.kinds.requests.wire import RETRIES, body_of, callback_body, dlq_id, header_lists, message_id, schedule_id
from duetime.service.masking import masked

View = dict[str, Any]


def payload_of(schedule: Schedule) -> Mapping[str, Any]:
    payload: Mapping[str, Any] = json.loads(schedule.definition.payload)
    return payload


def milliseconds(instant: Instant | int) -> int:
    return instant // 1000


def schedule_view(schedule: Schedule, depth: int) -> View:
    definition, progress = schedule
    payload = shown_to(depth, payload_of(schedule))
    view = {
        "scheduleId": schedule_id(definition.public_id, payload),
        "destination": payload["url"],
        "cron": payload.get("cron") or (json_object(definition.trigger) or {}).get("expression", ""),
        "createdAt": milliseconds(definition.created),
        **_sent(payload),
        "retries": payload.get("retries", RETRIES),
        "delay": payload.get("delay"),
        "timeout": payload.get("timeout"),
        "isPaused": progress.state == ScheduleState.PAUSED,
        "lastScheduleTime": None if progress.last_run is None else milliseconds(progress.last_run),
        "nextScheduleTime": None if progress.next in (None, NEVER) else milliseconds(progress.next),
        "error": masked(progress.note if progress.state == ScheduleState.BROKEN else progress.last_error),
    }
    return without_nulls(view)


_STATES = {RunStatus.COMPLETED: "SUCCESS", RunStatus.FAILED: "FAIL", RunStatus.LOST: "FAIL"}


def last_states(schedule: Schedule, run: Run | None) -> dict[str, str]:
    if run is None or run.status in (RunStatus.MISSED, RunStatus.SKIPPED):
        return {}
    state = _STATES.get(RunStatus(run.status), "IN_PROGRESS")
    return {message_id(schedule.definition.public_id, run.id): state}


def shown_to(depth: int, payload: Mapping[str, Any]) -> View:
    """Return the part of a request that a caller may see. An owner's program has the owner's permissions; a woken agent
    may act on text from strangers and could pass on what it reads."""
    view = redact(payload)
    if not depth:
        return view
    if "about" in view:  # contains JSON within JSON, which has to be decoded before masking
        view["body"] = json.dumps(callback_body(view.pop("about")), separators=(",", ":"))
    hidden: View = masked(view)
    return hidden


def message_view(schedule: Schedule, run: Run | None, depth: int) -> View:
    """Return the view of a message: a one-off, or one run of a recurring schedule."""
    definition = schedule.definition
    payload = shown_to(depth, payload_of(schedule))
    trigger = trigger_from_json(definition.trigger) if run is None else None
    starts = trigger.at if isinstance(trigger, OnceTrigger) else definition.created
    due = starts if run is None else run.due
    recurs = schedule_id(definition.public_id, payload)
    view = {
        "messageId": message_id(definition.public_id, 0 if run is None else run.id),
        "url": payload["url"],
        **_sent(payload),
        "maxRetries": payload.get("retries", RETRIES),
        "notBefore": milliseconds(due + payload.get("delay", 0) * SECOND),
        "createdAt": milliseconds(definition.created if recurs is None else due),
        "scheduleId": recurs,
    }
    return without_nulls(view)


def _sent(payload: Mapping[str, Any]) -> View:
    """Return what is sent, from a payload that is already redacted."""
    label = payload.get("label")
    return {
        "method": payload["method"],
        "header": header_lists(payload.get("headers", {})),
        **text_or_base64("body", body_of(payload)),
        "callback": payload.get("callback"),
        "callbackHeader": header_lists(payload.get("callback_headers", {})) or None,
        "failureCallback": payload.get("failure_callback"),
        "failureCallbackHeader": header_lists(payload.get("failure_callback_headers", {})) or None,
        "retryDelayExpression": payload.get("retry_delay"),
        "label": label,
        "labels": [each.strip() for each in label.split(",")] if label else None,
    }


def text_or_base64(name: str, body: bytes) -> View:
    try:
        return {name: body.decode()}
    except UnicodeDecodeError:
        return {f"{name}Base64": base64.b64encode(body).decode()}


def answer_of(run: Run, depth: int) -> View:
    """Return the receiver's last answer. If there was none, the status is 0 and the body is the reason."""
    answer = json.loads(run.result or "null") or {}
    if depth:
        answer = masked(answer)
    body = base64.b64decode(answer["body"]) if answer.get("status") else str(masked(run.error or "")).encode()
    return {
        "responseStatus": answer.get("status", 0),
        "responseHeader": answer.get("header", {}),
        **text_or_base64("responseBody", body),
    }


def dlq_view(schedule: Schedule, run: Run, depth: int) -> View:
    return {**message_view(schedule, run, depth), "dlqId": dlq_id(run.id), **answer_of(run, depth)}


def without_nulls(view: Mapping[str, Any]) -> View:
    return {name: value for name, value in view.items() if value is not None}
