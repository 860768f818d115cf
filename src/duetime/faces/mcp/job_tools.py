"""The jobs family as agents see it: its tools with their words, schemas and hints."""

from __future__ import annotations

from duetime.faces.mcp.jobs import (
    FAMILY,
    cancel_job,
    job_status,
    list_jobs,
    list_tasks,
    preview_schedule,
    schedule_job,
)
from duetime.faces.mcp.shared import DELIVERY, ERROR, KEY, NULLABLE_TIME, POLICY, STATUSES, WARNINGS, ZONE
from duetime.faces.mcp.tool import Schema, Tool, number, object_schema, optional, result_schema, text

JOB_ID = text("The job_id that schedule_job returned; list_jobs shows it too.")
SUMMARY: dict[str, Schema] = {
    "job_id": {"type": "string"},
    "name": {"type": "string"},
    "status": {"type": "string", "description": ", ".join(STATUSES)},
    "trigger_type": {"type": "string"},
    "next_run": NULLABLE_TIME,
    "run_count": {"type": "integer", "description": "Executed occurrences; retries, missed and skipped do not count."},
    "last_run": NULLABLE_TIME,
    "last_status": {"type": ["string", "null"], "description": "How the latest run ended."},
}
TRIGGER_TYPE = text(
    "once, interval, cron or rrule. Use once for a single time, interval for 'every N', cron for wall-clock times.",
    enum=["once", "interval", "cron", "rrule"],
)
TRIGGER_CONFIG: Schema = {
    "type": "object",
    "description": (
        'By type. once: {"run_at": "2026-02-05T15:00:00"} (ISO 8601; without offset it is read in the time zone). '
        'interval: {"hours": 1} (seconds, minutes, hours, days, weeks; their sum). '
        'cron: {"expression": "0 */2 * * *"} (minute hour day_of_month month day_of_week). '
        'rrule: {"rrule": "FREQ=MONTHLY;BYDAY=-1FR", "dtstart": "2026-02-05T15:00:00"}. '
        "All take start, end (ISO 8601) and jitter (seconds)."
    ),
}

TOOLS = [
    Tool(
        name="schedule_job",
        family=FAMILY,
        title="Schedule a job",
        description=(
            "Create a scheduled job that runs a registered task once, at intervals, by cron or by a recurrence rule. "
            "Use it for work that a function does without an agent (backups, checks, clean-ups); to wake an agent use "
            "`schedule`, to message a person use `schedule_notification`. Call list_tasks first to see which tasks "
            "exist and what arguments they take, and preview_schedule when unsure about the times. `task` may also be "
            "a pipeline of registered tasks with literal arguments, such as echo('a long text') | shorten(words=5). "
            "Returns the job_id that cancel_job and job_status take. Each call creates a new job unless an "
            "idempotency_key is given."
        ),
        input=object_schema(
            {
                "name": text("Human-readable name, for example nightly_backup."),
                "task": text("Name of a registered task, or a pipeline of them."),
                "trigger_type": TRIGGER_TYPE,
                "trigger_config": TRIGGER_CONFIG,
                "args": optional({"type": "array", "description": "Positional arguments for the task."}),
                "kwargs": optional({"type": "object", "description": "Keyword arguments for the task."}),
                "max_runs": optional(number("Ends the job after so many runs; without it there is no end.")),
                "timezone": ZONE,
                **POLICY,
                **DELIVERY,
                "idempotency_key": KEY,
            },
            ("name", "task", "trigger_type", "trigger_config"),
        ),
        output=result_schema(
            {
                "job_id": {"type": "string"},
                "name": {"type": "string"},
                "next_run": NULLABLE_TIME,
                "status": {"type": "string"},
                "warnings": WARNINGS,
                "error": ERROR,
            }
        ),
        answer=schedule_job,
    ),
    Tool(
        name="list_jobs",
        family=FAMILY,
        title="List jobs",
        description=(
            "List the caller's scheduled jobs, newest last, optionally by status. A recurring job between two runs is "
            "pending; the status failed also matches a recurring job whose latest run failed."
        ),
        input=object_schema(
            {
                "status": optional(text(f"One of: {', '.join(STATUSES)}.", enum=list(STATUSES))),
                "limit": optional(number("How many at most; 100 if absent.", minimum=1, maximum=1000)),
                "cursor": optional(text("next_cursor of the previous page.")),
                "timezone": ZONE,
            }
        ),
        output=result_schema(
            {
                "jobs": {"type": "array", "items": {"type": "object", "properties": SUMMARY}},
                "total": {"type": "integer", "description": "All that match, not only this page."},
                "next_cursor": {"type": "string", "description": "Present when there is more."},
                "error": ERROR,
            }
        ),
        answer=list_jobs,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        name="cancel_job",
        family=FAMILY,
        title="Cancel a job",
        description=(
            "Cancel a job for good: it will not run again, and a run in progress is asked to stop. Ask the user which "
            "one is meant when several could be; list_jobs shows the ids. Cancelling twice is no error."
        ),
        input=object_schema({"job_id": JOB_ID}, ("job_id",)),
        output=result_schema(
            {"cancelled": {"type": "boolean"}, "job_id": {"type": "string"}, "error": ERROR}, ("cancelled",)
        ),
        answer=cancel_job,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="job_status",
        family=FAMILY,
        title="Show a job",
        description="Status, next run, last error and the latest runs of one job: use it to tell whether a job worked.",
        input=object_schema({"job_id": JOB_ID, "timezone": ZONE}, ("job_id",)),
        output=result_schema(
            {
                **SUMMARY,
                "created_at": {"type": "string"},
                "max_runs": {"type": ["integer", "null"]},
                "error": {"type": ["string", "null"], "description": "Last error, or why there is no answer."},
                "history": {"type": "array", "items": {"type": "object"}, "description": "Latest runs first."},
            }
        ),
        answer=job_status,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        name="list_tasks",
        family=FAMILY,
        title="List tasks",
        description="The registered tasks that schedule_job can run, with their descriptions and argument schemas.",
        input=object_schema({}),
        output=result_schema(
            {
                "tasks": {"type": "array", "items": {"type": "object"}},
                "total": {"type": "integer"},
            }
        ),
        answer=list_tasks,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        name="preview_schedule",
        family=FAMILY,
        title="Preview a trigger",
        description=(
            "What a trigger means, without creating anything: plain English, the next instants in UTC and local time, "
            "and warnings (never fires, day-of-month or day-of-week, daylight saving). Use it before scheduling "
            "anything whose timing could be misunderstood."
        ),
        input=object_schema(
            {
                "trigger_type": TRIGGER_TYPE,
                "trigger_config": TRIGGER_CONFIG,
                "count": optional(number("How many instants; 5 if absent.", minimum=1, maximum=100)),
                "timezone": ZONE,
            },
            ("trigger_type", "trigger_config"),
        ),
        output=result_schema(
            {
                "reads_as": {"type": "string"},
                "next": {"type": "array", "items": {"type": "object"}},
                "timezone": {"type": "string"},
                "warnings": {"type": "array", "items": {"type": "string"}},
                "error": ERROR,
            }
        ),
        answer=preview_schedule,
        read_only=True,
        idempotent=True,
    ),
]
