"""Schedules, runs and messages as programs and pages see them: whole, in the words in which they are asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from duetime.core.clock import SECOND, Instant
from duetime.core.delivering import INBOX
from duetime.core.errors import DuetimeError
from duetime.core.kind import Caller
from duetime.core.model import Run, Schedule, ScheduleId, ScheduleState, WorkerRow
from duetime.core.policy.values import Policy, policy_from_json
from duetime.core.reading import upcoming
from duetime.core.requesting import KIND as REQUEST
from duetime.core.scheduler import Scheduler
from duetime.core.triggers import trigger_from_json
from duetime.core.triggers.step_budget import LIST_STEPS, step_budget
from duetime.faces.masked import masked, masked_payload, masked_result
from duetime.faces.present import instant_view, is_alive, reads_as, run_view, schedule_view
from duetime.faces.short_texts import shortened

View = dict[str, Any]

IN_SECONDS = {"backoff", "backoff_limit", "timeout", "grace"}
"""Parts of a policy that the core counts in microseconds; people say `timeout_seconds`."""
_UNSAID = {"callbacks"}
_RENAMED = {"at": "run_at", "period_us": "seconds", "jitter_us": "jitter"}


def schedule_shape(schedule: Schedule, zone: str, *, brief: bool = False) -> View:
    """`brief`: for a list, which shows only the beginnings of long texts."""
    definition = schedule.definition
    trigger = trigger_shape(definition.trigger)
    payload, hidden = json.loads(definition.payload), partial(masked_payload, definition.kind)
    return schedule_view(schedule, zone) | {
        "subject": definition.subject,
        "trigger": trigger,
        "timezone": trigger.get("timezone"),
        "payload": briefly(definition.kind, payload, hidden) if brief else hidden(payload),
        "policy": policy_shape(definition.policy),
        "updated_at": instant_view(definition.updated, zone),
    }


def briefly(kind: str, value: Any, hidden: Callable[[Any], Any]) -> Any:
    """Cut before it is looked through; but a request has texts that are whole or nothing, such as base64."""
    return shortened(hidden(value)) if kind == REQUEST else hidden(shortened(value))


def trigger_shape(text: str) -> View:
    """In the words in which a trigger is given, so that what was read can be sent back."""
    stored = json.loads(text)
    if not isinstance(stored, dict):
        return {"type": "unknown"}
    view: View = {"type": "unknown"}
    for name, value in stored.items():
        view[_RENAMED.get(name) or name] = _seconds(value) if name.endswith("_us") else value
    return view


def _seconds(microseconds: Any) -> Any:
    if not isinstance(microseconds, int):
        return microseconds
    whole, rest = divmod(microseconds, SECOND)
    return microseconds / SECOND if rest else whole


def policy_shape(text: str) -> View | None:
    """Every part, the usual ones too; None where what is stored cannot be read."""
    try:
        policy = policy_from_json(text)
    except DuetimeError:
        return None
    return dict(_policy_part(policy, part.name) for part in fields(Policy) if part.name not in _UNSAID)


def _policy_part(policy: Policy, name: str) -> tuple[str, Any]:
    value = getattr(policy, name)
    return (f"{name}_seconds", _seconds(value)) if name in IN_SECONDS else (name, value)


def policy_given(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The other way round: what somebody asks for, in the core's words. Its own checks say what is out of range."""
    given = {}
    for name, value in asked.items():
        core = name.removesuffix("_seconds")
        in_seconds = name != core and core in IN_SECONDS and value is not None
        given[core] = int(min(value, 10**12) * SECOND) if in_seconds else value
    return given


def next_instants(schedule: Schedule, now: Instant, count: int) -> list[Instant]:
    """The instant that is next, moved by hand or not, and those that the trigger has after it."""
    progress = schedule.progress
    if progress.next is None or progress.state != ScheduleState.ACTIVE:
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


def run_shapes(scheduler: Scheduler, runs: Sequence[Run], zone: str, *, brief: bool = False) -> list[View]:
    """Runs know their schedule by its number; people by its id, which is asked for once for all of them."""
    ids = scheduler.store.public_ids([run.schedule for run in runs])
    return [run_shape(run, ids, zone, brief=brief) for run in runs]


def run_shape(run: Run, ids: Mapping[ScheduleId, str], zone: str, *, brief: bool = False) -> View:
    view, hidden = run_view(run, zone), partial(masked_result, run.kind)
    return view | {
        "schedule": ids.get(run.schedule),
        "kind": run.kind,
        "owner": run.owner,
        "name": masked(run.name),
        "result": briefly(run.kind, view["result"], hidden) if brief else hidden(view["result"]),
        "stopping": bool(run.stop) and run.finished is None,
        "taken_until": instant_view(run.expires if run.holder is not None else None, zone),
    }


def message_shape(run: Run, zone: str) -> View:
    """A notification that arrived, as the run that delivered it tells."""
    kept = json.loads(run.result) if run.result else None
    kept = kept if isinstance(kept, dict) else {}
    return {
        "id": kept.get("notification_id"),
        "arrived": instant_view(run.finished, zone),
        "topic": kept.get("topic", ""),
        "channel": kept.get("channel", INBOX),
        "receipt": kept.get("receipt"),
        "title": kept.get("title"),
        "message": kept.get("message", ""),
        "tags": kept.get("tags", []),
    }


def worker_shape(worker: WorkerRow, now: Instant, zone: str) -> View:
    return {
        "id": worker.id,
        "name": worker.name,
        "lanes": worker.lanes.split(","),
        "session": bool(worker.session),
        "started": instant_view(worker.started, zone),
        "seen": instant_view(worker.seen, zone),
        "alive": is_alive(worker, now),
        "lease_seconds": worker.lease / SECOND,
    }


# -- what fires next ----------------------------------------------------------------------------------------------

EACH = 3
"""Occurrences of one schedule: a frequent one must not hide the others."""


def coming(
    scheduler: Scheduler, caller: Caller, until: Instant | None, count: int, owner: str | None = None
) -> list[tuple[Instant, Schedule]]:
    found = scheduler.coming(caller, until, count, owner)
    with step_budget(LIST_STEPS):  # beyond it, each schedule shows the instant that is stored with it
        pairs = [(instant, schedule) for schedule in found for instant in _soon(schedule, until, min(count, EACH))]
    return sorted(pairs, key=lambda pair: pair[0])[:count]


def _soon(schedule: Schedule, until: Instant | None, count: int) -> list[Instant]:
    """Its own next instant first, since an edit may have moved it off its rule, or it is late."""
    first = schedule.progress.next
    instants = [] if first is None else next_instants(schedule, first, count)
    return [each for each in instants if until is None or each <= until]


def coming_shape(instant: Instant, schedule: Schedule, zone: str) -> View:
    definition = schedule.definition
    return {
        "at": instant_view(instant, zone),
        "kind": definition.kind,
        "id": definition.public_id,
        "name": masked(definition.name),
        "reads_as": reads_as(definition.trigger),
    }
