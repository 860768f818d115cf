"""Schedules that the end of a run creates: the message about it, the requested callbacks, and alerts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from duetime.engine.clock import Instant
from duetime.engine.encoding import parse_json
from duetime.engine.model import ENDED, Definition, EventRow, Run, RunStatus, ScheduleId
from duetime.engine.outcome import Alert
from duetime.engine.policy.options import (
    ALERTS,
    MAX_TAGS,
    Callback,
    NotifyOn,
    Policy,
    callback_policy,
    make_policy,
    policy_to_json,
)
from duetime.engine.policy.rows import Draft, FollowUp, OwnerMessage
from duetime.engine.triggers import OnceTrigger, trigger_to_json
from duetime.engine.value_class import dataclass

GONE = "~gone-"
"""Key prefix of deleted schedules."""
MESSAGE_KEY = "~run:"
"""Key prefix of the messages about the ends of runs."""
NO_PAYLOAD = "null"
"""What is kept of the payload by default when a schedule is deleted: nothing."""

_LONGEST_NAME = 200
_RUN = "run-"

_HEARD = {
    RunStatus.COMPLETED: (NotifyOn.SUCCESS, NotifyOn.ALWAYS, NotifyOn.CHANGE),
    RunStatus.FAILED: (NotifyOn.FAILURE, NotifyOn.ALWAYS, NotifyOn.CHANGE),
    RunStatus.LOST: (NotifyOn.FAILURE, NotifyOn.ALWAYS, NotifyOn.CHANGE),
}
"""Final statuses to report; whoever cancelled a run already knows about it."""


@dataclass(frozen=True, slots=True)
class Messenger:
    """The kind that delivers messages to people: how it builds a payload from a message, and its policy."""

    kind: str
    payload: Callable[[OwnerMessage], Mapping[str, Any]]
    policy: Mapping[str, Any]
    topics: Mapping[str, str] = field(default_factory=dict)
    """The topics of alerts about schedules with a tag, by tag."""

    def topic_of_alerts(self, tags: Iterable[str]) -> str:
        return next((self.topics[tag] for tag in tags if tag in self.topics), ALERTS)


def message_key(run: Run) -> str:
    """Return the key of the message about the end of a run: a run that is retried manually ends again under another
    fence."""
    return f"{MESSAGE_KEY}{run.id}.{run.fence}"


def follow_ups(
    definition: Definition, policy: Policy, run: Run, now: Instant, *, is_old: bool = False
) -> Iterator[FollowUp]:
    """Yield the message and the callbacks about the end of a run. `is_old`: this was told before."""
    key = message_key(run)
    conditions = _HEARD.get(RunStatus(run.status), ())
    if policy.deliver_to is not None and policy.notify_on in conditions and not is_old and not is_silent(run):
        went_well = run.status == RunStatus.COMPLETED
        title, text = _describe_end(run)
        yield OwnerMessage(definition.owner, key, policy.deliver_to, title[:_LONGEST_NAME], text, went_well, _tags(run))
    for number, callback in enumerate(policy.callbacks):
        if callback.on in conditions and not definition.key.startswith(GONE):  # the payload to report is not kept
            yield _callback(definition, run, f"{key}:{number}", callback, now)


NOTHING_TO_TELL = "[nothing]"
"""An answer that says only this is kept and not sent."""


def is_silent(run: Run) -> bool:
    """Return whether a run succeeded and says that there is nothing to tell."""
    return run.status == RunStatus.COMPLETED and result_text(run.result).strip().lower() == NOTHING_TO_TELL


def told_text(run: Run) -> str | None:
    """Return what a message about the end of a run would tell, without the name of the run; None if it tells
    nothing."""
    if run.status not in _HEARD or is_silent(run):
        return None
    return f"{run.status}: {_describe_end(run)[1]}"


def alert(
    owner: str, news: Alert, topic: str | None = None, run: Run | None = None, tags: Iterable[str] = ()
) -> OwnerMessage:
    """Return the message of an alert, about a run if there is one. It goes to the owner's topic for alerts unless the
    schedule names another; `tags` are those of the schedule."""
    title, all_tags = news.title[:_LONGEST_NAME], (*(() if run is None else _tags(run)), *shown_tags(tags))
    return OwnerMessage(owner, f"~{news.key}", topic or ALERTS, title, news.text, went_well=False, tags=all_tags)


def shown_tags(tags: Iterable[str]) -> list[str]:
    """Return the tags of schedules that a message has, without those that would name a run."""
    return sorted({tag for tag in tags if not tag.startswith(_RUN)})[:MAX_TAGS]


def _tags(run: Run) -> tuple[str, ...]:
    return (f"{_RUN}{run.id}",)


def drafts_of(follow_ups: Sequence[FollowUp], messenger: Messenger | None, now: Instant) -> list[Draft]:
    """Draft all follow-ups. Without a messenger, messages are left out, because no kind could deliver them."""
    drafts = []
    for each in follow_ups:
        if isinstance(each, Draft):
            drafts.append(each)
        elif messenger is not None:
            if each.topic == ALERTS:
                each = each._replace(topic=messenger.topic_of_alerts(each.tags))  # noqa: PLW2901
            payload, policy = messenger.payload(each), make_policy(messenger.policy)
            drafts.append(_draft(each.owner, 0, each.key, messenger.kind, each.title, each.topic, payload, policy, now))
    return drafts


def _describe_end(run: Run) -> tuple[str, str]:
    """Return the title and the text of the message about a run's end."""
    if run.status != RunStatus.COMPLETED:
        return f"{run.name} failed", run.error or f"It ended as {run.status}."
    own = _parse_result(run.result)
    title = own.get("title") if isinstance(own, dict) else None
    text = result_text(run.result) or "It completed."
    return (title if isinstance(title, str) else f"{run.name} completed"), text


def result_text(result: str | None) -> str:
    """Return a result in the form that people read: the text itself if the result is a text."""
    value = _parse_result(result)
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        value = value["text"]
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _parse_result(result: str | None) -> Any:
    return parse_json(result or "null", otherwise=result)


END_FIELDS: Final = ("run", "schedule", "status", "due", "error", "name", "result", "text")
"""The fields of the event that the end of a run is."""


def end_event(definition: Definition, run: Run, now: Instant, depth: int) -> EventRow:
    """Return the event that the end of a run is for the schedules that follow. `depth` is that of the event that
    started the run. A run that is retried manually ends again under another fence, which is another event."""
    data = _about(definition, run) | {"name": run.name}
    data |= {"result": _parse_result(run.result), "text": result_text(run.result)}
    text, name = json.dumps(data, ensure_ascii=False, separators=(",", ":")), f"{ENDED}{definition.id}"
    return EventRow(0, definition.owner, name, f"{run.id}.{run.fence}", now, max(definition.depth, depth), text)


def _about(definition: Definition, run: Run) -> dict[str, Any]:
    return {"run": run.id, "schedule": definition.public_id, "status": run.status, "due": run.due, "error": run.error}


def _callback(definition: Definition, run: Run, key: str, callback: Callback, now: Instant) -> Draft:
    about = {"attempt": run.attempt, "created": definition.created, "payload": definition.payload, "result": run.result}
    payload = {**callback.payload, "about": _about(definition, run) | about}
    name, policy = f"callback of {run.name}"[:_LONGEST_NAME], callback_policy(callback)
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
    """Draft a one-off schedule. Keys that begin with ~ are reserved, so no owner can use one. Ids are unguessable."""
    definition = Definition(
        id=ScheduleId(0),
        public_id=f"msg_{os.urandom(16).hex()}",
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
