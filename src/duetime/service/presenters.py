"""Views of schedules, runs and workers for all interfaces: plain data with instants in the reader's time zone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from duetime.engine.actor import actor_from, actor_phrase, declared_by, is_agents
from duetime.engine.clock import NEVER, SECOND, Instant
from duetime.engine.encoding import json_object
from duetime.engine.errors import DuetimeError
from duetime.engine.model import (
    Attempt,
    Definition,
    Progress,
    Run,
    Schedule,
    ScheduleId,
    ScheduleState,
    WorkerRow,
    executed,
    status_of,
)
from duetime.engine.policy.options import policy_from_json, tags_in
from duetime.engine.queries import upcoming
from duetime.engine.times import iso_local
from duetime.engine.triggers import OnceTrigger, describe, trigger_from_json
from duetime.engine.triggers.base import instant_from
from duetime.engine.triggers.build import readable
from duetime.service.kind_spec import known_specs, load
from duetime.service.masking import masked, masking_of
from duetime.service.options import TIME_LIMITS, policy_options
from duetime.service.state_details import run_detail, shown_status
from duetime.service.warnings import ScheduleWarning, declare, warning
from duetime.service.workers import is_alive, labels_of
from duetime.settings.sections import INBOX

declare(declared_elsewhere="It may be changed back by what declares it: also change it in {source}.")
_FRACTION = re.compile(r"\.\d+")
_REPORT = re.compile(r"~[a-z]+:")
_decode = json.JSONDecoder().decode  # the function that `json.loads` calls after checking its argument


def instant_view(instant: Instant | None, zone: str) -> str | None:
    """Return an instant to the second, because nobody reads or plans microseconds."""
    return None if instant is None or instant >= NEVER else _second_view(instant // SECOND, zone)


@lru_cache(maxsize=4096)
def _second_view(second: int, zone: str) -> str:
    return iso_local(Instant(second * SECOND), zone)


def moment_view(instant: Instant | None, zone: str) -> str | None:
    """Return a measured instant to the millisecond, from which durations can be computed."""
    return None if instant is None else iso_local(instant, zone, "milliseconds" if instant % SECOND else "seconds")


@lru_cache(maxsize=1024)
def actor_view(stored: str | None) -> str | None:
    """Return a stored actor as people read it; None if it is unknown. Every answer to a create has it."""
    return None if stored is None else str(masked(actor_phrase(actor_from(stored))))


def author_view(definition: Definition) -> str | None:
    """Return who wrote a payload last; None if a person did in an older version, which did not store who."""
    return actor_view(definition.author) or ("an agent's run" if is_agents(None, definition.depth) else None)


def is_report(definition: Definition) -> bool:
    """Return whether a schedule is a message about a run or an incident, or another alert, which nobody created."""
    return _REPORT.match(definition.key) is not None


def source_view(key: str) -> str | None:
    """Return the file or module that declares the schedule with a key; None if none does."""
    source = declared_by(key) if key.startswith("duetime") else None
    return None if source is None else str(masked(actor_phrase(source)))


def source_warnings(definition: Definition) -> list[ScheduleWarning]:
    """Return a warning for whoever edits a schedule that is declared elsewhere."""
    source = source_view(definition.key)
    return [] if source is None else [warning("declared_elsewhere", source=source)]


def brief_view(schedule: Schedule, zone: str) -> dict[str, Any]:
    """Return the part of a schedule that the answer about a change contains. A paused schedule has no next time."""
    definition, progress = schedule
    view: dict[str, Any] = {
        "kind": definition.kind,
        "name": masked(definition.name),
        "next_run": instant_view(next_of(progress), zone),
        "reads_as": reads_as(definition.trigger),
    }
    further = {"paused_until": instant_view(definition.resume_at, zone), "note": masked(progress.note)}
    further["source"] = source_view(definition.key)
    return view | {name: value for name, value in further.items() if value is not None}


def next_of(progress: Progress) -> Instant | None:
    """Return when a schedule fires next; None while it is paused or broken, or if it waits for an event."""
    return progress.next if progress.state == ScheduleState.ACTIVE and progress.next != NEVER else None


@lru_cache(maxsize=4096)
def reads_as(text: str, zone: str | None = None) -> str:
    """Describe a stored trigger in plain English; in `zone` if it is a single instant, whose own zone means nothing for
    an alert. An unreadable one must still be shown, with the reason and advice."""
    try:
        trigger = trigger_from_json(text)
        if zone is not None and isinstance(trigger, OnceTrigger):  # the times of a rule are those of its own zone
            trigger = replace(trigger, timezone=zone)
        return describe(trigger)
    except DuetimeError as error:
        return f"cannot be read: {error.message.rstrip('.')}; edit it to give it a new rule, or delete it"


def run_view(run: Run, zone: str) -> dict[str, Any]:
    view: dict[str, Any] = {
        "run_id": run.id,
        "cause": run.cause,
        "due": instant_view(run.due, zone),
        "status": shown_status(run),
        "state_detail": run_detail(run),
        "attempt": run.attempt,
        "started": moment_view(run.started, zone),
        "finished": moment_view(run.finished, zone),
        "result": None if run.result is None else json.loads(run.result),
        "error": masked(run.error),
        "report": masked(run.report),
    }
    if run.last is not None:
        view |= {"last": instant_view(run.last, zone), "occurrences": abs(run.number), "at_least": run.number < 0}
    return view


def duration_seconds(run: Run) -> float | None:
    """Return how long the latest attempt took, or None if it has not begun or not ended."""
    if run.started is None or run.finished is None:
        return None
    return round(max(0, run.finished - run.started) / SECOND, 3)


def _cost(kind: str, result: Any) -> View | None:
    """Return what a run used, such as tokens and dollars, if its kind records that."""
    spec = known_specs().get(kind)
    return load(spec.cost)(result) if spec is not None and spec.cost and result is not None else None


def result_text(kind: str, result: Any) -> str | None:
    """Return a result as a text for people; None if there is none, or if only its JSON describes it."""
    spec = known_specs().get(kind)
    if spec is not None and spec.outcome and isinstance(result, dict):
        text: str | None = load(spec.outcome)(result)
        return text
    text = result.get("text") if isinstance(result, dict) else result
    return text if isinstance(text, str) else None


def attempt_view(attempt: Attempt, zone: str) -> dict[str, Any]:
    return {
        "attempt": attempt.number,
        "started": moment_view(attempt.started, zone),
        "finished": moment_view(attempt.finished, zone),
        "status": attempt.status,
        "error": masked(attempt.error),
        "retried": moment_view(attempt.retried, zone),
        "retried_by": actor_view(attempt.actor),
    }


def preview_view(english: str, instants: Sequence[Instant], warnings: Sequence[str], zone: str) -> dict[str, Any]:
    return {
        "reads_as": english,
        "timezone": zone,
        "next": [{"local": instant_view(instant, zone), "utc": instant_view(instant, "UTC")} for instant in instants],
        "warnings": list(warnings),
    }


# -- complete views of schedules, runs and messages, in the terms that requests use ----------------------------------

View = dict[str, Any]


def schedule_shape(
    schedule: Schedule, zone: str, detail: str | None = None, *, brief: bool = False, hidden: bool = True
) -> View:
    """Return the full view of a schedule. `details_of` returns the detail; `brief` cuts long texts, for a list;
    `hidden` masks credentials."""
    definition, progress = schedule
    trigger = trigger_shape(definition.trigger, zone)
    payload = _decode(definition.payload)
    if hidden:
        masking = masking_of(definition.kind)
        size = len(definition.payload)
        payload = masking.brief(payload, masking.hide) if brief else masking.show(payload, size)
    created, policy = instant_view(definition.created, zone), policy_shape(definition.policy)
    unchanged = definition.updated == definition.created
    return {
        "id": definition.public_id,
        "short_id": definition.short_id,
        "kind": definition.kind,
        "owner": definition.owner,
        "name": masked(definition.name),
        "status": status_of(progress),
        "state_detail": detail,
        "trigger": trigger,
        "reads_as": reads_as(definition.trigger, zone if is_report(definition) else None),
        "payload": payload,
        "author": author_view(definition),
        "source": source_view(definition.key),
        "policy": policy,
        "created_at": created,
        "next_run": instant_view(next_of(progress), zone),
        "last_run": instant_view(progress.last_run, zone),
        "last_status": progress.last_status,
        "last_error": progress.last_error and masked(progress.last_error),
        "run_count": executed(progress),
        "max_runs": None if policy is None else policy["max_runs"],
        "failures_in_a_row": progress.failures,
        "note": progress.note and masked(progress.note),
        "paused_until": instant_view(definition.resume_at, zone),
        "version": definition.version,
        "subject": definition.subject,
        "timezone": trigger.get("timezone"),
        "updated_at": created if unchanged else instant_view(definition.updated, zone),
    }


_INSTANTS = ("at", "start", "end", "anchor")
_DURATIONS = {"period_us": "seconds", "jitter_us": "jitter", "cooldown_us": "at_most_every"}


def trigger_shape(text: str, zone: str | None = None) -> View:
    """Return a trigger in the form of a request, so that a client can send back what it read; with instants in a zone,
    if one is given."""
    return dict(_trigger_shape(text, zone))


@lru_cache(maxsize=1024)
def _trigger_shape(text: str, zone: str | None) -> View:
    once = None if zone is None else _once_shape(text, zone)
    if once is not None:
        return once
    view: View = {"type": "unknown", **(json_object(text) or {})}
    if zone is not None:
        view |= {name: _in_zone(view[name], zone) for name in _INSTANTS if name in view}
    if "at" in view:
        view["run_at"] = view.pop("at")
    for field, name in _DURATIONS.items():
        if field in view:
            view[name] = _seconds(view.pop(field))
    if "outcome" in view:
        rest: View = {name: view[name] for name in ("timezone", "at_most_every") if name in view}
        return {"type": "after", "schedule": view["id"], "name": view["label"], "outcome": view["outcome"], **rest}
    return view


def _once_shape(text: str, zone: str) -> View | None:
    """Return the view of a single instant without limits, which most schedules have; None for every other trigger."""
    read = readable(text)
    if not isinstance(read, OnceTrigger) or read.jitter or read.start is not None or read.end is not None:
        return None
    run_at = iso_local(read.at, zone) if read.at % SECOND else instant_view(read.at, zone)
    return {"type": "once", "timezone": read.timezone, "run_at": run_at}


def _in_zone(stored: Any, zone: str) -> Any:
    """Return a stored instant in a zone, or unchanged if it cannot be read."""
    try:
        return iso_local(instant_from(stored, "at"), zone)
    except DuetimeError:
        return stored


def _seconds(microseconds: Any) -> Any:
    if not isinstance(microseconds, int):
        return microseconds
    whole, rest = divmod(microseconds, SECOND)
    return microseconds / SECOND if rest else whole


def policy_shape(text: str) -> View | None:
    """Return every part of a policy, including defaults, or None if the stored policy is unreadable."""
    shape = _policy_shape(text)
    return None if shape is None else dict(shape)


@lru_cache(maxsize=1024)
def _policy_shape(text: str) -> View | None:
    try:
        policy = policy_from_json(text)
    except DuetimeError:
        return None
    return {
        option.argument: _seconds(value) if option.rule.type == "duration" else masked(value)
        for option in policy_options().values()
        for value in [getattr(policy, option.name)]
    } | {"tagged": masked(tags_in(policy.tagged))}


def options_view(policy: str, trigger: str, zone: str, defaults: Mapping[str, Any] = MappingProxyType({})) -> View:
    """Return the options of a stored policy that differ from the defaults, which may be those of a kind, and the limits
    of the times, so that whoever set them can read them back."""
    stored = json_object(policy) or {}
    shape = _policy_shape(policy) or {}
    options = {
        option.argument: shape[option.argument]
        for option in policy_options().values()
        if shape and option.name in stored and stored[option.name] != defaults.get(option.name)
    }
    times = _trigger_shape(trigger, zone)
    return options | {name: _to_the_second(times[name]) for name in TIME_LIMITS if name in times}


def _to_the_second(limit: Any) -> Any:
    """Return the limit of a time without the fraction of a second that the end of a day has."""
    return _FRACTION.sub("", limit) if isinstance(limit, str) else limit


def next_instants(schedule: Schedule, now: Instant, count: int) -> list[Instant]:
    """Return the next instant, which an edit may have moved, and the trigger's instants after it."""
    progress = schedule.progress
    if next_of(progress) is None or progress.next is None:
        return []
    try:
        policy = policy_from_json(schedule.definition.policy)
        trigger = trigger_from_json(schedule.definition.trigger)
    except DuetimeError:
        return []
    if policy.max_runs is not None:
        count = min(count, policy.max_runs - progress.run_count)
    try:
        following = upcoming(trigger, max(now, progress.next), count - 1) if count > 1 else []
    except DuetimeError:
        following = []
    return [progress.next, *following][: max(count, 0)]


def run_shape(run: Run, ids: Mapping[ScheduleId, str], zone: str, *, brief: bool = False) -> View:
    """Return the view for programs, which identify an occurrence by its exact instant."""
    view, masking = run_view(run, zone), masking_of(run.kind)
    result = view["result"]
    if run.last is not None:
        view["last"] = iso_local(run.last, zone)
    return view | {
        "due": iso_local(run.due, zone),
        "schedule": ids.get(run.schedule),
        "schedule_short_id": run.schedule_short_id,
        "kind": run.kind,
        "owner": run.owner,
        "name": masked(run.name),
        "result": masking.brief(result, masked) if brief else masked(result),
        "duration_seconds": duration_seconds(run),
        "cost": _cost(run.kind, result),
        "stopping": bool(run.stop) and run.finished is None,
        "taken_until": instant_view(run.expires if run.holder is not None else None, zone),
    }


def message_shape(run: Run, zone: str, depth: int = 0) -> View:
    """Return the view of a delivered notification, read from the result of its run. An agent's run (`depth` above 0)
    sees no credentials in it."""
    message = json.loads(run.result) if run.result else None
    message = message if isinstance(message, dict) else {}
    message = masked(message) if depth else message
    return {
        "id": message.get("notification_id"),
        "arrived": instant_view(run.finished, zone),
        "topic": message.get("topic", ""),
        "channel": message.get("channel", INBOX),
        "receipt": message.get("receipt"),
        "title": message.get("title"),
        "message": message.get("message", ""),
        "tags": message.get("tags", []),
        "priority": message.get("priority"),
        "click": message.get("click"),
    }


def worker_shape(worker: WorkerRow, now: Instant, zone: str) -> View:
    return {
        "id": worker.id,
        "name": worker.name,
        "lanes": [lane for lane in worker.lanes.split(",") if ":knows:" not in lane],
        "labels": labels_of(worker),
        "session": bool(worker.session),
        "started": instant_view(worker.started, zone),
        "seen": instant_view(worker.seen, zone),
        "alive": is_alive(worker, now),
        "lease_seconds": worker.lease / SECOND,
    }


def coming_shape(instant: Instant, schedule: Schedule, zone: str) -> View:
    definition = schedule.definition
    return {
        "at": instant_view(instant, zone),
        "kind": definition.kind,
        "id": definition.public_id,
        "short_id": definition.short_id,
        "name": masked(definition.name),
        "reads_as": reads_as(definition.trigger),
    }
