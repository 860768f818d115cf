"""Schedules that a run's end creates: the message about it, the callbacks that were asked for, an alert."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from duetime.engine.clock import Instant
from duetime.engine.delivery import ALERTS, ATTEMPTS
from duetime.engine.model import Definition, Progress, Run, RunStatus, ScheduleId, ScheduleState
from duetime.engine.outcome import Alert
from duetime.engine.policy.create import Draft
from duetime.engine.policy.options import Callback, NotifyOn, Policy, callback_policy, make_policy, policy_to_json
from duetime.engine.triggers import OnceTrigger, trigger_to_json

LONGEST = 4000
"""Maximum characters of a result or an error that a message quotes; a channel may cut it further."""

GONE = "~gone-"
"""Key prefix of deleted schedules."""
NO_PAYLOAD = "null"
"""What is usually kept of a deleted schedule's payload."""

_HEARD = {
    RunStatus.COMPLETED: (NotifyOn.SUCCESS, NotifyOn.ALWAYS),
    RunStatus.FAILED: (NotifyOn.FAILURE, NotifyOn.ALWAYS),
    RunStatus.LOST: (NotifyOn.FAILURE, NotifyOn.ALWAYS),
}
"""Endings that somebody may want to hear of; whoever cancelled a run knows about it."""


def is_failing(policy: Policy, progress: Progress, failures: int) -> bool:
    """Return whether a recurring schedule has failed so often in a row that its next occurrence should not run."""
    recurs = progress.state == ScheduleState.ACTIVE and progress.next is not None
    return recurs and 0 < policy.pause_after <= failures


def follow_ups(definition: Definition, policy: Policy, run: Run, now: Instant) -> Iterator[Draft]:
    heard = _HEARD.get(RunStatus(run.status), ())
    if policy.deliver_to is not None and policy.notify_on in heard:
        went_well = run.status == RunStatus.COMPLETED
        title, text, tag = _headline(run), _told(run), _tag(run)
        yield _message(definition.owner, _key(run), policy.deliver_to, title, text, now, tag, went_well=went_well)
    for number, callback in enumerate(policy.callbacks):
        if callback.on in heard and not definition.key.startswith(GONE):  # the payload that it would report is not kept
            yield _callback(definition, run, f"{_key(run)}:{number}", callback, now)


def failing(definition: Definition, run: Run, note: str) -> Alert:
    text = f"{definition.public_id} is {note}. The latest error: {run.error or run.status}"
    return Alert(f"run:{run.id}.{run.fence}:paused", f"{run.name} is paused", text)


def alert(owner: str, told: Alert, now: Instant, topic: str | None = None) -> Draft:
    """Draft an alert: it goes to the owner's topic for alerts unless a schedule names another."""
    return _message(owner, f"~{told.key}", topic or ALERTS, told.title, told.text, now, went_well=False)


def _key(run: Run) -> str:
    """Return the key of a run's end. A run that is retried manually ends again, under another fence."""
    return f"~run:{run.id}.{run.fence}"


def _tag(run: Run) -> str:
    """Return the tag by which a reader of the message can look up the run: channels show tags, or pass them on."""
    return f"run-{run.id}"


def _headline(run: Run) -> str:
    if run.status != RunStatus.COMPLETED:
        return f"{run.name} failed"
    own = _parsed(run.result)
    title = own.get("title") if isinstance(own, dict) else None
    return title if isinstance(title, str) else f"{run.name} completed"


def _told(run: Run) -> str:
    if run.status != RunStatus.COMPLETED:
        return run.error or f"It ended as {run.status}."
    return result_text(run.result) or "It completed."


def result_text(result: str | None) -> str:
    """Return a result as people read it: the text itself if there is one."""
    value = _parsed(result)
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        value = value["text"]
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _parsed(result: str | None) -> Any:
    try:
        return json.loads(result or "null")
    except (ValueError, RecursionError):
        return result


def _message(
    owner: str, key: str, topic: str, title: str, text: str, now: Instant, *tags: str, went_well: bool
) -> Draft:
    payload = {
        "message": text if len(text) <= LONGEST else f"{text[:LONGEST]} …",
        "topic": topic,
        "title": title[:200],
        "tags": ["white_check_mark" if went_well else "rotating_light", *tags],
        "priority": 3 if went_well else 4,
    }
    policy = make_policy({"max_attempts": ATTEMPTS})
    return _draft(owner, 0, key, "notification", title[:200], topic, payload, policy, now)


def _callback(definition: Definition, run: Run, key: str, callback: Callback, now: Instant) -> Draft:
    about = {
        "run": run.id,
        "schedule": definition.public_id,
        "status": run.status,
        "attempt": run.attempt,
        "due": run.due,
        "created": definition.created,
        "payload": definition.payload,
        "result": run.result,
        "error": run.error,
    }
    payload = {**callback.payload, "about": about}
    name, policy = f"callback of {run.name}"[:200], callback_policy(callback)
    return _draft(definition.owner, definition.depth, key, callback.kind, name, "", payload, policy, now)


def _draft(
    owner: str,
    depth: int,
    key: str,
    kind: str,
    name: str,
    subject: str,
    payload: Mapping[str, Any],
    policy: Policy,
    now: Instant,
) -> Draft:
    """Draft a one-off. Keys that begin with ~ are reserved: no owner can have one. Ids are unguessable."""
    definition = Definition(
        id=ScheduleId(0),
        public_id=f"msg_{secrets.token_hex(16)}",
        kind=kind,
        owner=owner,
        name=name,
        subject=subject,
        trigger=trigger_to_json(OnceTrigger(at=now, timezone="UTC")),
        payload=json.dumps(payload, ensure_ascii=False, separators=(",", ":")),
        policy=policy_to_json(policy),
        depth=depth,
        version=1,
        key=key,
        fingerprint="",
        created=now,
        updated=now,
    )
    return Draft(definition, now)
