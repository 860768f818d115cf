"""Details of one run: its input, traceback, attempts, lateness, worker, next attempt and neighbours."""

from __future__ import annotations

import json
from typing import Any

from duetime.engine.clock import SECOND, Instant
from duetime.engine.kind import Caller
from duetime.engine.model import LOCAL, Attempt, Cause, Definition, Run, RunStatus, Schedule
from duetime.engine.scheduler import Scheduler
from duetime.service.masking import masked, masked_payload
from duetime.service.presenters import View, attempt_view, moment_view, run_shapes


def run_details(scheduler: Scheduler, caller: Caller, run: Run, zone: str) -> View:
    """Return a run as programs and pages read it. The caller may see the run. Only an operator sees its worker, and
    only those to whom the tasks belong see tracebacks, which show source code and paths."""
    sees_code = caller.operator or (caller.owner == LOCAL and caller.depth == 0)
    [shape] = run_shapes(scheduler, [run], zone)
    attempts = scheduler.attempts(caller, run.id)
    schedule = scheduler.schedule_of(caller, run)
    previous, following = scheduler.store.neighbours(run)
    return shape | {
        "traceback": masked(scheduler.traceback(run)) if sees_code else None,
        "attempts": [attempt_details(each if sees_code else each._replace(traceback=None), zone) for each in attempts],
        "payload": None if schedule is None else payload_shown(schedule.definition),
        "own_payload": scheduler.own_payload(run) is not None,
        "payload_changed": _changed_since(schedule, run),
        "late_seconds": late_seconds(run, attempts),
        "next_attempt": moment_view(next_attempt(scheduler, run), zone),
        "worker": _worker_name(scheduler, run) if caller.operator else None,
        "previous_run": previous,
        "following_run": following,
    }


def attempt_details(attempt: Attempt, zone: str) -> View:
    return attempt_view(attempt, zone) | {"traceback": masked(attempt.traceback)}


def payload_shown(definition: Definition) -> Any:
    """Return the input of a schedule or of its run, with credentials masked."""
    return masked_payload(definition.kind, json.loads(definition.payload))


def _changed_since(schedule: Schedule | None, run: Run) -> bool:
    """Return whether the schedule was edited after the run began, so that its input may be another one now."""
    if schedule is None or run.started is None:
        return False
    return schedule.definition.written > run.started


def late_seconds(run: Run, attempts: list[Attempt]) -> float | None:
    """Return how long after its time the first attempt began; None for one that was started by hand."""
    started = attempts[0].started if attempts else run.started
    if started is None or run.cause != Cause.TRIGGER:
        return None
    return round(max(0, started - run.due) / SECOND, 3)


def next_attempt(scheduler: Scheduler, run: Run) -> Instant | None:
    """Return when a run that waits, also one that failed before, starts at the earliest."""
    return scheduler.store.starts_at(run) if run.status == RunStatus.PENDING else None


def _worker_name(scheduler: Scheduler, run: Run) -> str | None:
    """Return the name of the worker that has the run, or had it last, as long as that worker is registered."""
    return next((each.name for each in scheduler.workers() if each.id == run.worker), None)
