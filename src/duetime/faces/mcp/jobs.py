"""What the jobs family answers: registered functions, scheduled by name. Its errors are results."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from duetime.core.drafting import NewSchedule
from duetime.core.errors import StoreUnavailable
from duetime.core.model import Run, Schedule, status_of
from duetime.core.notifications import STORE_ERRORS
from duetime.core.policy.values import policy_for_ending
from duetime.core.result import Err
from duetime.core.store import EVERY_ONE, RunQuery, ScheduleQuery
from duetime.faces.mcp.shared import (
    STATUSES,
    policy_of,
    with_owner,
    with_warnings,
    zone_of,
)
from duetime.faces.mcp.tool import (
    Arguments,
    Call,
    Reply,
    ToolProblem,
)
from duetime.faces.present import instant_view
from duetime.faces.views import trigger_shape

FAMILY = "jobs"


def _failed(err: Err) -> Reply:
    """A store's own words may name files: those are for the operator's log."""
    if err.code in STORE_ERRORS:
        raise StoreUnavailable(err.message)
    if err.details.get("field") == "timeout":  # the core counts in microseconds, and calls it otherwise
        return Reply({"error": "timeout_seconds: must be more than 0 and at most 2592000, such as 60"})
    return Reply({"error": err.message})


def _told(answer: Callable[[Call, Arguments], Reply]) -> Callable[[Call, Arguments], Reply]:
    """A zone that does not exist is a result in this family, as every other error is."""

    @wraps(answer)
    def answered(call: Call, given: Arguments) -> Reply:
        try:
            return answer(call, given)
        except ToolProblem as problem:
            return Reply({"error": str(problem)})

    return answered


def summary(schedule: Schedule, zone: str) -> dict[str, Any]:
    definition, progress = schedule
    return {
        "job_id": definition.public_id,
        "name": definition.name,
        "status": status_of(progress),
        "trigger_type": trigger_shape(definition.trigger)["type"],  # also where it cannot be used any more
        "next_run": instant_view(progress.next, zone),
        "run_count": progress.run_count,
        "last_run": instant_view(progress.last_run, zone),
        "last_status": progress.last_status,
    }


def detail(schedule: Schedule, zone: str) -> dict[str, Any]:
    definition, progress = schedule
    short = summary(schedule, zone)
    return {
        **{name: short[name] for name in ("job_id", "name", "status", "trigger_type")},
        "created_at": instant_view(definition.created, zone),
        **{name: short[name] for name in ("last_run", "next_run", "run_count")},
        "max_runs": policy_for_ending(definition.policy).max_runs,
        "error": progress.last_error,
        "last_status": short["last_status"],
    }


def history_row(run: Run, zone: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "run_id": run.id,
        "due": instant_view(run.due, zone),
        "started": instant_view(run.started, zone),
        "finished": instant_view(run.finished, zone),
        "status": run.status,
        "attempt": run.attempt,
        "error": run.error,
    }
    if run.last is not None:
        row |= {"last": instant_view(run.last, zone), "occurrences": abs(run.number)}
    return row


@_told
def schedule_job(call: Call, given: Arguments) -> Reply:
    zone = zone_of(call, given)
    new = NewSchedule(
        kind="job",
        name=given["name"],
        trigger_type=given["trigger_type"],
        trigger_config=given["trigger_config"],
        payload={"task": given["task"], "args": given.get("args", []), "kwargs": given.get("kwargs", {})},
        policy=policy_of(given),
        timezone=zone,
        idempotency_key=given.get("idempotency_key"),
    )
    made = call.scheduler.create(call.caller, new)
    if isinstance(made, Err):
        return _failed(made)
    view = summary(made.value, zone)
    answer = {name: view[name] for name in ("job_id", "name", "next_run", "status")}
    return Reply(with_warnings(call, answer, made.value.definition))


@_told
def list_jobs(call: Call, given: Arguments) -> Reply:
    zone = zone_of(call, given)
    status = given.get("status")
    if status is not None and status not in STATUSES:
        return Reply({"error": f"Unknown status: {status}"})
    query = ScheduleQuery(
        kind="job", status=status, limit=given.get("limit", 100), cursor=given.get("cursor"), count_to=EVERY_ONE
    )
    page = call.scheduler.search(call.caller, query)
    if isinstance(page, Err):
        return _failed(page)
    found = page.value
    rows = [with_owner(call, summary(item, zone), item.definition.owner) for item in found.items]
    answer: dict[str, Any] = {"jobs": rows, "total": found.total}
    return Reply(answer if found.cursor is None else {**answer, "next_cursor": found.cursor})


def cancel_job(call: Call, given: Arguments) -> Reply:
    job_id = given["job_id"]
    result = call.scheduler.cancel(call.caller, job_id, "job")
    if not isinstance(result, Err):
        return Reply({"cancelled": True, "job_id": job_id})
    if result.code == "not_found":
        return Reply({"cancelled": False})
    if result.code == "not_possible":
        found = call.scheduler.find(call.caller, job_id, "job")
        status = "finished" if found is None else status_of(found.progress)
        return Reply({"cancelled": False, "job_id": job_id, "error": f"Job already {status}: {job_id}"})
    return _failed(result)


@_told
def job_status(call: Call, given: Arguments) -> Reply:
    zone = zone_of(call, given)
    found = call.scheduler.find(call.caller, given["job_id"], "job")
    if found is None:
        return Reply({"error": f"Job not found: {given['job_id']}"})
    page = call.scheduler.runs(call.caller, RunQuery(schedule=found.definition.id, limit=10))
    runs = [] if isinstance(page, Err) else page.value.items
    return Reply({**detail(found, zone), "history": [history_row(run, zone) for run in runs]})


def list_tasks(call: Call, given: Arguments) -> Reply:
    tasks = call.desk.tasks(call.caller)
    return Reply({"tasks": tasks, "total": len(tasks)})


@_told
def preview_schedule(call: Call, given: Arguments) -> Reply:
    zone = zone_of(call, given)
    shown = call.scheduler.preview(
        given["trigger_type"], given["trigger_config"], timezone=zone, count=given.get("count", 5)
    )
    if isinstance(shown, Err):
        return _failed(shown)
    preview = shown.value
    instants = [{"utc": instant_view(each, "UTC"), "local": instant_view(each, zone)} for each in preview.instants]
    return Reply({"reads_as": preview.english, "next": instants, "timezone": zone, "warnings": preview.warnings})
