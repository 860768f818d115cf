"""The history of runs, of one schedule or of all kinds, including deleted schedules; and the details of one run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from duetime.engine.clock import SECOND, Instant
from duetime.engine.kind import Caller
from duetime.engine.model import (
    LIVE,
    LOCAL,
    Attempt,
    Cause,
    Definition,
    Run,
    RunStatus,
    Schedule,
    ScheduleId,
    first_start,
    status_of,
)
from duetime.engine.policy.follow_ups import message_key
from duetime.engine.result import Err, Ok, Result
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import FAILED_OR_LOST, RunQuery
from duetime.service.errors import unwrap
from duetime.service.masking import LONGEST, masked, masked_payload, shortened
from duetime.service.presenters import (
    View,
    actor_view,
    attempt_view,
    instant_view,
    message_shape,
    moment_view,
    run_shape,
    run_shapes,
)
from duetime.settings.sections import INBOX

STATUSES: Final = (*(status.value for status in RunStatus), "live")
"""Statuses by which runs can be selected. `live`: all that may still change."""
MOST: Final = 100
MOST_BYTES: Final = 256 * 1024
"""Maximum size of the results of one page."""
BRIEF: Final = 1000
"""Maximum length of a text within a result in a list, in characters."""
LISTED: Final = 200
"""Maximum length of a result in a list of schedules, in characters."""
_COUNTED: Final = 1000
_DELIVERED = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.LOST})
"""Statuses about which a message may have been sent."""


class HistoryQuery(NamedTuple):
    """Selects the runs to return."""

    schedule: ScheduleId | None = None
    kinds: Sequence[str] | None = None
    """None: all kinds."""
    status: str | None = None
    """One of STATUSES; `failed` includes lost ones."""
    since: Instant | None = None
    until: Instant | None = None
    """Both are compared with the instants at which runs were due."""
    owner: str | None = None
    limit: int = 20
    cursor: str | None = None


class History(NamedTuple):
    """Runs with their outcomes, latest first."""

    rows: list[View]
    cursor: str | None
    total: int
    total_exact: bool


def history(scheduler: Scheduler, caller: Caller, asked: HistoryQuery, zone: str) -> Result[History]:
    query = RunQuery(
        owner=asked.owner,
        kinds=() if asked.kinds is None else tuple(asked.kinds),
        schedule=asked.schedule,
        status=FAILED_OR_LOST if asked.status == RunStatus.FAILED else asked.status,
        due_from=asked.since,
        due_to=asked.until,
        limit=min(asked.limit, MOST),
        cursor=asked.cursor,
        count_to=_COUNTED,
        most_bytes=MOST_BYTES,
    )
    found = scheduler.runs(caller, query)
    if isinstance(found, Err):
        return found
    page = found.value
    ids = scheduler.store.public_ids([run.schedule for run in page.items])
    rows = [outcome(scheduler, run, ids, zone, BRIEF) for run in page.items]
    return Ok(History(rows, page.cursor, page.total, page.total_exact))


def outcome_of(scheduler: Scheduler, run: Run, zone: str) -> View:
    """Return one run with its outcome."""
    return outcome(scheduler, run, scheduler.store.public_ids([run.schedule]), zone, LONGEST)


def outcome(scheduler: Scheduler, run: Run, ids: Mapping[ScheduleId, str], zone: str, longest: int) -> View:
    """Return a run with its result, error, duration, attempts, cost and deliveries."""
    view = run_shape(run, ids, zone, brief=True)
    earlier = scheduler.earlier_attempts(run)
    kept = ("run_id", "kind", "owner", "name", "cause", "status", "state_detail", "due", "started", "finished")
    row: View = {
        "id": view["schedule"],
        **{name: view[name] for name in kept},
        "due": instant_view(run.due, zone),
        "duration_seconds": view["duration_seconds"],
        "attempts": run.attempt,
        "earlier_attempts": [attempt_view(each, zone) for each in earlier],
        "result": shortened(_text_of(view["result"]), longest),
        "error": shortened(view["error"], longest),
        "report": view["report"] if run.status in LIVE else None,
        "cost": view["cost"],
        "deliveries": deliveries_of(scheduler, run),
    }
    if run.stop and run.status in LIVE:
        row["stop_requested"] = True
    if run.last is not None:
        row |= {"last": instant_view(run.last, zone), **{name: view[name] for name in ("occurrences", "at_least")}}
    return row


def latest_results(scheduler: Scheduler, caller: Caller, schedules: Sequence[Schedule]) -> dict[ScheduleId, Any]:
    """Return the results of the latest completed runs of these schedules."""
    done = [each for each in schedules if each.progress.last_status == RunStatus.COMPLETED]
    found: dict[ScheduleId, Any] = {}
    for definition, _ in done:
        query = RunQuery(schedule=definition.id, status=RunStatus.COMPLETED, limit=1, count_to=0)
        for run in unwrap(scheduler.runs(caller, query)).items:
            hidden = masked(None if run.result is None else json.loads(run.result))
            found[definition.id] = shortened(_text_of(hidden), LISTED)
    return found


def _text_of(result: Any) -> Any:
    """Return the text within a result, without anything else that was recorded with it, or the result itself."""
    text = result.get("text") if isinstance(result, dict) else None
    return text if isinstance(text, str) else result


def deliveries_of(scheduler: Scheduler, run: Run) -> list[View]:
    """Return the message about the end of a run, if one was created and is still stored."""
    messenger = scheduler.store.messenger
    if messenger is None or run.kind == messenger.kind or run.status not in _DELIVERED:
        return []
    message = scheduler.store.by_key(run.owner, message_key(run))
    if message is None:
        return []
    definition, progress = message
    view = {"topic": definition.subject, "message_id": definition.public_id, "status": status_of(progress)}
    if view["status"] == RunStatus.COMPLETED:
        view["reached"] = _reached(scheduler, definition.id)
    return [view if progress.last_error is None else {**view, "error": masked(progress.last_error)}]


def _reached(scheduler: Scheduler, message: ScheduleId) -> str:
    """Return `phone` if a message was sent through a channel, and `inbox` if it is only stored here."""
    sent = scheduler.store.runs(RunQuery(schedule=message, limit=1, count_to=0)).items
    channel = message_shape(sent[0], "UTC")["channel"] if sent else INBOX
    return INBOX if channel == INBOX else "phone"


def run_details(scheduler: Scheduler, caller: Caller, run: Run, zone: str) -> View:
    """Return a run with all details, for programs and pages. The caller must be allowed to see the run. Only an
    operator sees its worker. Only operators and `local` itself, not its agents' runs, see tracebacks, which show source
    code and paths."""
    sees_code = caller.operator or (caller.owner == LOCAL and caller.depth == 0)
    [shape] = run_shapes(scheduler, [run], zone)
    attempts, own = scheduler.attempts(caller, run.id), scheduler.own_input(run)
    schedule = scheduler.schedule_of(caller, run)
    previous, following = scheduler.store.neighbours(run)
    return shape | {
        "traceback": masked(scheduler.traceback(run)) if sees_code else None,
        "attempts": [attempt_details(each if sees_code else each._replace(traceback=None), zone) for each in attempts],
        "payload": None if schedule is None else payload_shown(schedule.definition),
        "own_payload": own.payload is not None,
        "started_by": actor_view(own.actor),
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
    """Return whether the schedule was edited after the run began, so that its input may be different now."""
    if schedule is None or run.started is None:
        return False
    return schedule.definition.written > run.started


def late_seconds(run: Run, attempts: list[Attempt]) -> float | None:
    """Return how long after its due time the first attempt began; None for a run that was started manually."""
    started = first_start(run, attempts)
    if started is None or run.cause != Cause.TRIGGER:
        return None
    return round(max(0, started - run.due) / SECOND, 3)


def next_attempt(scheduler: Scheduler, run: Run) -> Instant | None:
    """Return the earliest time at which a waiting run, including one that failed before, starts."""
    return scheduler.store.starts_at(run) if run.status == RunStatus.PENDING else None


def _worker_name(scheduler: Scheduler, run: Run) -> str | None:
    """Return the name of the worker that has the run or had it last, as long as that worker is registered."""
    return next((each.name for each in scheduler.workers() if each.id == run.worker), None)
