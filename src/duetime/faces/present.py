"""One shape of a schedule and of a run for every face: plain data, instants in the reader's zone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from typing import Any

from duetime.core.clock import SECOND, Instant
from duetime.core.errors import DuetimeError
from duetime.core.model import Attempt, Run, Schedule, WorkerRow, lane_of, status_of
from duetime.core.times import iso_local
from duetime.core.triggers import describe, trigger_from_json
from duetime.faces.masked import masked


def instant_view(instant: Instant | None, zone: str) -> str | None:
    return None if instant is None else iso_local(instant, zone)


def schedule_view(schedule: Schedule, zone: str) -> dict[str, Any]:
    definition, progress = schedule
    stored = json.loads(definition.policy)
    policy = stored if isinstance(stored, dict) else {}  # as somebody wrote it by hand
    return {
        "id": definition.public_id,
        "kind": definition.kind,
        "owner": definition.owner,
        "name": masked(definition.name),
        "status": status_of(progress),
        "trigger": _trigger_view(definition.trigger),
        "reads_as": reads_as(definition.trigger),
        "payload": json.loads(definition.payload),
        "policy": policy,
        "created_at": instant_view(definition.created, zone),
        "next_run": instant_view(progress.next, zone),
        "last_run": instant_view(progress.last_run, zone),
        "last_status": progress.last_status,
        "last_error": masked(progress.last_error),
        "run_count": progress.run_count,
        "max_runs": policy.get("max_runs"),
        "failures_in_a_row": progress.failures,
        "note": masked(progress.note),
        "version": definition.version,
    }


def _trigger_view(text: str) -> dict[str, Any]:
    view: dict[str, Any] = json.loads(text)
    return view


@lru_cache(maxsize=4096)
def reads_as(text: str) -> str:
    """A stored trigger in plain English. One that cannot be read any more must still be shown, and why."""
    try:
        return describe(trigger_from_json(text))
    except DuetimeError as error:
        return f"cannot be read: {error.message}"
    except (ValueError, KeyError, TypeError):
        return "cannot be read"


def run_view(run: Run, zone: str) -> dict[str, Any]:
    view: dict[str, Any] = {
        "run_id": run.id,
        "cause": run.cause,
        "due": instant_view(run.due, zone),
        "status": run.status,
        "attempt": run.attempt,
        "started": instant_view(run.started, zone),
        "finished": instant_view(run.finished, zone),
        "result": None if run.result is None else json.loads(run.result),
        "error": masked(run.error),
        "report": masked(run.report),
    }
    if run.last is not None:
        view |= {"last": instant_view(run.last, zone), "occurrences": abs(run.number), "at_least": run.number < 0}
    return view


def attempt_view(attempt: Attempt, zone: str) -> dict[str, Any]:
    return {
        "attempt": attempt.number,
        "started": instant_view(attempt.started, zone),
        "finished": instant_view(attempt.finished, zone),
        "status": attempt.status,
        "error": masked(attempt.error),
    }


def preview_view(english: str, instants: Sequence[Instant], warnings: Sequence[str], zone: str) -> dict[str, Any]:
    return {
        "reads_as": english,
        "timezone": zone,
        "next": [{"local": iso_local(instant, zone), "utc": iso_local(instant, "UTC")} for instant in instants],
        "warnings": list(warnings),
    }


_SILENCE = 30 * SECOND
"""A worker is believed alive this long after its last beat, whatever its lease: more patience than any beat needs."""


def is_alive(worker: WorkerRow, now: Instant) -> bool:
    return now - worker.seen < _SILENCE


def living(workers: Sequence[WorkerRow], now: Instant, kind: str | None = None) -> list[WorkerRow]:
    """Those that would take what is due of this kind, or of any."""
    alive = [worker for worker in workers if is_alive(worker, now)]
    return alive if kind is None else [worker for worker in alive if lane_of(kind) in worker.lanes.split(",")]


class Idle(Enum):
    """Why nothing would fire what was created."""

    NOBODY = "no worker is running"
    OTHERS = "no worker takes what is of this kind"
    SESSIONS = "those that do live only as long as some client is open, which is no promise"


def idleness(workers: Sequence[WorkerRow], now: Instant, kind: str | None = None) -> Idle | None:
    if not living(workers, now):
        return Idle.NOBODY
    alive = living(workers, now, kind)
    if not alive:
        return Idle.OTHERS
    return Idle.SESSIONS if all(worker.session for worker in alive) else None


def idle_warnings(workers: Sequence[WorkerRow], kind: str, now: Instant, how: str) -> list[str]:
    """`how` says what starts a worker."""
    match idleness(workers, now, kind):
        case Idle.NOBODY:
            return [f"no worker is running, so nothing fires yet; start one: {how}"]
        case Idle.OTHERS:
            return [f"no worker that is running takes a {kind}, so it does not fire yet; start one that does: {how}"]
        case Idle.SESSIONS:
            return [f"the only worker lives as long as some client is open; one that stays: {how}"]
        case None:
            return []
