"""MCP tools and resources for jobs, which schedule registered functions by name. Errors are returned as results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duetime.engine.encoding import json_object
from duetime.engine.errors import DuetimeError, Refused
from duetime.kinds.jobs.kind import JobKind, refuse_seconds
from duetime.kinds.jobs.payload import TaskCall
from duetime.mcp.definitions import (
    Arguments,
    Reply,
    Resource,
    Schema,
    error_result,
    errors_as_results,
    id_or_name,
    number,
    text,
    tool,
)
from duetime.mcp.schemas import (
    BRIEF_WHEN,
    DELIVERY,
    ERROR,
    KEY,
    LIMITS_IN_FORCE,
    LOOKUP,
    MAX_RUNS,
    OPTIONS,
    POLICY,
    TRIGGER_CONFIG,
    TRIGGER_TYPE,
    WHEN,
    ZONE,
    lookup_fields,
    payload_arguments,
    time_arguments,
)
from duetime.mcp.standard_tools import (
    CREATED,
    cancel_tool,
    create,
    create_request,
    list_tool,
    requested_when,
    summary,
    summary_schema,
)
from duetime.service.lookup import find_schedule
from duetime.service.masking import masked, masking_of
from duetime.service.operations.history import History, stop_requests_of
from duetime.service.operations.history import history as read_history
from duetime.service.operations.schedules import PreviewTimes, detail_of, preview
from duetime.service.presenters import instant_view, policy_shape, run_view, trigger_shape
from duetime.service.services import Call
from duetime.service.vocabulary import LIVE, Run, Schedule
from duetime.service.when import about_option


def extras(schedule: Schedule, zone: str, *, brief: bool = True) -> dict[str, Any]:
    """Return what a job runs and its rule, in the form in which they were given."""
    definition = schedule.definition
    payload, masking = json_object(definition.payload) or {}, masking_of(JobKind.name)
    view = masking.brief(payload, masking.hide) if brief else masking.show(payload, len(definition.payload))
    rule = {name: value for name, value in trigger_shape(definition.trigger, zone).items() if name not in _UNSAID}
    return {**{name: view.get(name) for name in ("task", "args", "kwargs")}, "trigger_config": rule}


def detail(call: Call, schedule: Schedule, zone: str) -> dict[str, Any]:
    definition = schedule.definition
    return {
        **summary(schedule, zone, "job_id", detail_of(call, schedule)),
        **extras(schedule, zone, brief=False),
        **_description(call, schedule),
        "created_at": instant_view(definition.created, zone),
        "max_runs": (policy_shape(definition.policy) or {}).get("max_runs"),
        "limits": call.services.limits(schedule),
    }


def _description(call: Call, schedule: Schedule) -> dict[str, str]:
    """Return what the task does, in the words of its author; of a pipeline, what each step does."""
    payload = json_object(schedule.definition.payload) or {}
    try:
        tasks = call.services.kind(JobKind).tasks_of(str(payload.get("task")), call.caller)
    except DuetimeError:  # it is not registered here
        return {}
    texts = [f"{task.name}: {task.description}" if len(tasks) > 1 else task.description for task in tasks]
    return {"task_description": "\n".join(texts)} if any(task.description for task in tasks) else {}


_UNSAID = ("type", "timezone", "anchor")
_HISTORY = (
    "run_id", "due", "started", "finished", "status", "attempt", "result", "error", "last", "occurrences",
)  # fmt: skip


def history_row(run: Run, zone: str, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
    view = run_view(run, zone)
    view["result"] = masked(view["result"])
    row = {name: view[name] for name in _HISTORY if name in view}
    return row if request is None else {**row, "stop_requested": request}


@errors_as_results
def schedule_job(call: Call, arguments: Arguments) -> Reply:
    """Run a registered task later: once, at intervals, by cron or by a rule. list_tasks names the tasks. To wake an
    agent use schedule, to message a person schedule_notification."""
    payload = {"task": arguments["task"], "args": arguments.get("args", []), "kwargs": arguments.get("kwargs", {})}
    return create(call, arguments, "job", payload, "job_id")


@errors_as_results
def job_status(call: Call, arguments: Arguments) -> Reply:
    """What one job does and when, and its latest runs with results, errors and stop requests."""
    zone = call.in_zone(arguments.get("timezone")).zone
    try:
        job = find_schedule(call, arguments["job_id"], "job")
    except DuetimeError as error:
        missing = {"error": f"Job not found: {arguments['job_id']}"}
        facts = missing if error.code == "not_found" else error_result(error).structured
        return Reply({**facts, **lookup_fields(error, "history")})
    runs = read_history(call, History(schedule=job, limit=10, count_to=0)).value.items
    requests = stop_requests_of(call, runs)
    history = [history_row(run, zone, requests.get(run.id)) for run in runs]
    view = detail(call, job, zone)
    if view["error"] is None:  # a failed attempt that waits for its retry also counts as the latest error
        retried = (row for run, row in zip(runs, history, strict=True) if run.status in LIVE and run.attempt)
        view["error"] = next((row["error"] for row in retried if row["error"] is not None), None)
    return Reply({**view, "history": history})


def list_tasks(call: Call, arguments: Arguments) -> Reply:
    """The registered tasks for schedule_job and only_if, with descriptions and argument schemas."""
    tasks = call.services.kind(JobKind).registry.describe(call.caller)
    return Reply({"tasks": tasks, "total": len(tasks)})


@errors_as_results
def preview_schedule(call: Call, arguments: Arguments) -> Reply:
    """What a trigger means, creating nothing: in words, its next times (UTC and local) and warnings. Use it where the
    timing could be misread."""
    when = requested_when(call, arguments)
    try:
        refuse_seconds(str(when.config.get("expression", "")))
    except Refused as error:
        raise about_option(error, "when" if "when" in arguments else None) from None
    call, request = call.in_zone(arguments.get("timezone")), create_request(arguments, "", {})
    preview_request = PreviewTimes(times=request.times, trigger=request.trigger, count=arguments.get("count", 5))
    times, warnings, _ = preview(call, preview_request)
    return Reply(times.facts(call.zone, warnings))


# The tools; the docstrings of the functions describe them to agents.

JOB_ID = id_or_name("Its job_id or name.")
KNOWN_TASKS: Schema = {"type": "array", "items": {"type": "string"}, "description": "If the task is unknown."}
RUNS: dict[str, Schema] = {
    "task": {"type": ["string", "null"]}, "args": {}, "kwargs": {}, "trigger_config": {"type": "object"},
}  # fmt: skip
TASK = payload_arguments(TaskCall)
EDITABLE = {name: (name, schema) for name, schema in {**TASK, "task": text("New task or pipeline.")}.items()}

TOOLS = [
    tool(
        schedule_job,
        "Schedule a job",
        {
            "name": text("For people, such as nightly_backup."),
            "task": TASK["task"],
            "trigger_type": TRIGGER_TYPE,
            "trigger_config": TRIGGER_CONFIG,
            "when": WHEN,
            **TASK,
            **MAX_RUNS,
            "timezone": ZONE,
            **POLICY,
            **DELIVERY,
            **OPTIONS,
            "idempotency_key": KEY,
        },
        {"job_id": {"type": "string"}, **CREATED, "known_tasks": KNOWN_TASKS, "hint": LOOKUP["hint"]},
        ("name", "task"),
    ),
    list_tool("job", "jobs", "job_id", extras, RUNS),
    cancel_tool("job", "cancel_job", "job_id", JOB_ID),
    tool(
        job_status,
        "Show a job",
        {"job_id": JOB_ID, "timezone": ZONE},
        {
            **summary_schema("job_id"),
            **RUNS,
            "task_description": text("What the task does."),
            "created_at": {"type": "string"},
            "max_runs": {"type": ["integer", "null"]},
            "limits": LIMITS_IN_FORCE,
            "error": {"type": ["string", "null"], "description": "Last error, or why there is no answer."},
            "history": {"type": "array", "items": {"type": "object"}, "description": "Latest runs first."},
            **LOOKUP,
        },
        ("job_id",),
        read_only=True,
        idempotent=True,
    ),
    tool(
        list_tasks,
        "List tasks",
        {},
        {"tasks": {"type": "array", "items": {"type": "object"}}, "total": {"type": "integer"}},
        read_only=True,
        idempotent=True,
    ),
    tool(
        preview_schedule,
        "Preview a trigger",
        {
            "trigger_type": TRIGGER_TYPE,
            "trigger_config": {"type": "object", "description": "As in schedule_job: {hours: 1}."},
            "when": BRIEF_WHEN,
            **time_arguments("start", "end"),
            "count": number("How many times; default 5.", minimum=1, maximum=100),
            "timezone": ZONE,
        },
        {
            "reads_as": {"type": "string"},
            "next": {"type": "array", "items": {"type": "object"}},
            "timezone": {"type": "string"},
            "warnings": {"type": "array", "items": {"type": "string"}},
            "error": ERROR,
            "hint": LOOKUP["hint"],
        },
        read_only=True,
        idempotent=True,
    ),
]


# Resource `jobs://{job_id}`: one job, to read and subscribe to.


def _read(call: Call, job_id: str) -> dict[str, Any] | None:
    if call.scheduler.find(call.caller, job_id, "job") is None:
        return None
    return dict(job_status(call, {"job_id": job_id}).structured)


def _digest(call: Call, job_id: str) -> object:
    job = call.scheduler.find(call.caller, job_id, "job")
    return None if job is None else (job.definition.version, job.progress)


RESOURCES = [
    Resource(
        uri="jobs://{job_id}",
        title="A job",
        description="One job with its latest runs, as in job_status. Subscribe to be notified of every change and run.",
        read=_read,
        digest=_digest,
    )
]
