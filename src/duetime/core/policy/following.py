"""What begins when a run ends: the message that tells about it, the callbacks that its maker asked for, an alert."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from duetime.core.clock import Instant
from duetime.core.delivering import ALERTS, ATTEMPTS
from duetime.core.model import Definition, Progress, Run, RunStatus, ScheduleId, ScheduleState
from duetime.core.policy.creating import Draft
from duetime.core.policy.values import Callback, NotifyOn, Policy, make_policy, policy_to_json
from duetime.core.triggers import OnceTrigger, trigger_to_json

LONGEST = 4000
"""Characters of a result or an error that a message quotes; a channel may cut it further."""

_HEARD = {
    RunStatus.COMPLETED: (NotifyOn.SUCCESS, NotifyOn.ALWAYS),
    RunStatus.FAILED: (NotifyOn.FAILURE, NotifyOn.ALWAYS),
    RunStatus.LOST: (NotifyOn.FAILURE, NotifyOn.ALWAYS),
}
"""Endings that somebody may want to hear of; what a person cancelled is known to them."""


def is_failing(policy: Policy, progress: Progress, failures: int) -> bool:
    """Nothing speaks for the next occurrence of a recurring schedule after so many failures in a row."""
    recurs = progress.state == ScheduleState.ACTIVE and progress.next is not None
    return recurs and 0 < policy.pause_after <= failures


def follow_ups(definition: Definition, policy: Policy, run: Run, now: Instant) -> Iterator[Draft]:
    heard = _HEARD.get(RunStatus(run.status), ())
    if policy.deliver_to is not None and policy.notify_on in heard:
        yield _message(definition, run, _key(run), policy.deliver_to, _headline(run), _told(run), now)
    for number, callback in enumerate(policy.callbacks):
        if callback.on in heard:
            yield _callback(definition, run, f"{_key(run)}:{number}", callback, now)


def alert(definition: Definition, policy: Policy, run: Run, note: str, now: Instant) -> Draft:
    text = f"{definition.public_id} is {note}. The latest error: {run.error or run.status}"
    topic = policy.deliver_to or ALERTS
    return _message(definition, run, f"{_key(run)}:paused", topic, f"{run.name} is paused", text, now)


def _key(run: Run) -> str:
    """A run that is tried again by hand ends again, under another fence."""
    return f"~run:{run.id}.{run.fence}"


def _headline(run: Run) -> str:
    return f"{run.name} {'completed' if run.status == RunStatus.COMPLETED else 'failed'}"


def _told(run: Run) -> str:
    if run.status != RunStatus.COMPLETED:
        return run.error or f"It ended as {run.status}."
    return result_text(run.result) or "It completed."


def result_text(result: str | None) -> str:
    """A result as a person reads it: the text itself where there is one."""
    try:
        value = json.loads(result or "null")
    except ValueError:
        value = result
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        value = value["text"]
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _message(definition: Definition, run: Run, key: str, topic: str, title: str, text: str, now: Instant) -> Draft:
    went_well = run.status == RunStatus.COMPLETED
    payload = {
        "message": text if len(text) <= LONGEST else f"{text[:LONGEST]} …",
        "topic": topic,
        "title": title[:200],
        "tags": ["white_check_mark" if went_well else "rotating_light"],
        "priority": 3 if went_well else 4,
    }
    policy = make_policy({"max_attempts": ATTEMPTS})
    return _draft(definition, key, "notification", title[:200], topic, payload, policy, now)


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
    policy = make_policy({"max_attempts": ATTEMPTS, **callback.policy})
    return _draft(definition, key, callback.kind, f"callback of {run.name}"[:200], "", payload, policy, now)


def _draft(
    about: Definition,
    key: str,
    kind: str,
    name: str,
    subject: str,
    payload: Mapping[str, Any],
    policy: Policy,
    now: Instant,
) -> Draft:
    """Keys that begin with ~ are ours: no owner can have taken one. Ids are unguessable, like all of their kind."""
    definition = Definition(
        id=ScheduleId(0),
        public_id=f"msg_{secrets.token_hex(16)}",
        kind=kind,
        owner=about.owner,
        name=name,
        subject=subject,
        trigger=trigger_to_json(OnceTrigger(at=now, timezone="UTC")),
        payload=json.dumps(payload, ensure_ascii=False, separators=(",", ":")),
        policy=policy_to_json(policy),
        depth=about.depth,
        version=1,
        key=key,
        fingerprint="",
        created=now,
        updated=now,
    )
    return Draft(definition, now)
