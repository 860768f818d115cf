"""The prompt tools as agents see them: schemas and hints; their descriptions are the docstrings of the functions."""

from __future__ import annotations

from duetime.kinds.prompts.mcp.inbox import finish_prompt, is_finish_early, take_prompt
from duetime.kinds.prompts.mcp.results import prompt_result
from duetime.kinds.prompts.mcp.schedules import schedule, schedule_cancel, schedule_edit, schedule_list
from duetime.kinds.prompts.mcp.text import TASK_ID, TIME
from duetime.mcp.definitions import Schema, number, text, tool
from duetime.mcp.schemas import (
    DELIVERY,
    ERROR,
    KEY,
    LIMITS_IN_FORCE,
    LOOKUP,
    NULLABLE_TIME,
    POLICY,
    READS_AS,
    STATE_DETAIL,
    STATUSES,
    UNTAKEN,
    WARNINGS,
    ZONE,
)
from duetime.mcp.schemas import LIMITS as BOUNDS

AT = (
    "When: 2026-02-10T15:00, 'Feb 10, 2026 3:00 PM', '15:30', 'in half an hour', 'tomorrow at 9', 'friday morning'; "
    "read in the time zone. The answer shows how it was understood; a past time is refused."
)
CRON = "Five fields: minute hour day_of_month month day_of_week, such as '0 9 * * 1-5'; wall-clock time in the zone."
RRULE = "An iCalendar recurrence rule such as 'FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9;BYMINUTE=0;BYSECOND=0'."
EVERY = "An interval such as '30m', '2h30m' or '1 day', counted from now, or from `at` as its first time."
STOP_RUNNING = "True: also cancel one that is running or taken; its agent is asked to stop."
WHEN = (
    "Any of these in words: 'tonight', 'every weekday at 8:30', 'last friday of the month 5pm', "
    "'every 90 minutes between 9:00 and 17:00 on weekdays'."
)
TASK: dict[str, Schema] = {
    "id": {"type": "integer"},
    "fire_at": NULLABLE_TIME,
    "status": text(", ".join(STATUSES)),
    "state_detail": STATE_DETAIL,
    "prompt": text("At most its first 1000 characters."),
    "agent": {"type": "string"},
    "remind": {"type": "boolean", "description": "Instead of an agent: a mere reminder."},
    "repeats": text("The rule of a recurring one, in words."),
    "deliver_to": {"type": "string"},
    "last_run": text("When it last ran, if it did; prompt_result tells what came of it."),
    "last_status": text("How that ended."),
    "last_error": {"type": "string"},
    "allow": {"type": "object", "description": "What its runs may use at most, where that was narrowed."},
    "held": text("Why it does not go on just now: a limit, a pause, what broke it."),
}
TASK_RESULT: dict[str, Schema] = {
    **TASK,
    "timezone": {"type": "string"},
    "next_run": NULLABLE_TIME,
    "reads_as": READS_AS,
    "limits": LIMITS_IN_FORCE,
    "note": text("What had to be assumed to read the time. Tell the user."),
    "error": ERROR,
    **LOOKUP,
}
WAKES = text("The agent that is woken when it is due; absent for what waits in an inbox, and for a reminder.")
LIMITS: dict[str, Schema] = {
    **POLICY,
    "timeout_seconds": {
        "type": "number",
        "minimum": 1,
        "description": "Seconds that whoever takes it has to finish it; 900 if absent. Then another agent may.",
    },
}

USAGE_LIMITS: dict[str, Schema] = {
    "remind": {
        "type": "boolean",
        "description": "True: a mere reminder. No agent runs; the text goes to deliver_to (reminders if absent).",
    },
    "allow": {
        "type": "object",
        "description": 'Narrows what its agent may use, such as {"tools": ["github.get_*"], "web": false}.',
    },
    "max_runs_per_day": number("How often an agent may be woken for it in a day.", minimum=1),
    "max_tokens_per_day": number("Tokens that its runs may use in a day.", minimum=1),
    "max_dollars_per_day": {
        "type": "number",
        "description": "What its runs may cost in a day, in dollars, where the agent reports it.",
    },
}

EDITABLE: dict[str, tuple[str, Schema]] = {
    "prompt": ("prompt", text("New instructions for the agent.")),
    "agent": ("agent", text("The agent that is woken, by name.")),
    **{name: (name, schema) for name, schema in USAGE_LIMITS.items() if name != "remind"},
}

TOOLS = [
    tool(
        schedule,
        "Schedule a prompt",
        {
            "prompt": text("The instructions, complete in themselves."),
            "at": text(AT),
            "cron": text(CRON),
            "rrule": text(RRULE),
            "every": text(EVERY),
            "when": text(WHEN),
            "agent": text(
                "Which agent is woken, by name; the one that the settings choose if absent, and the answer "
                "says which. inbox: none is woken, it waits until an agent takes it with take_prompt."
            ),
            **DELIVERY,
            **USAGE_LIMITS,
            "timezone": ZONE,
            **BOUNDS,
            **LIMITS,
            **UNTAKEN,
            "idempotency_key": KEY,
        },
        {**TASK_RESULT, "wakes": WAKES, **WARNINGS},
        ("prompt",),
    ),
    tool(
        schedule_list,
        "List scheduled prompts",
        {
            "status": text(f"{', '.join(STATUSES)} or all; pending if absent.", enum=[*STATUSES, "all"]),
            "from": text("Only those that fire at or after this time, such as 'today' or 2026-02-10."),
            "to": text("Only those that fire until this time; a day without a time is included whole."),
            "timezone": ZONE,
        },
        {
            "tasks": {"type": "array", "items": {"type": "object", "properties": TASK}},
            "total": number("All that match, also those not shown."),
            "from": TIME,
            "to": TIME,
            "timezone": {"type": "string"},
            "error": ERROR,
        },
        read_only=True,
        idempotent=True,
        lists_schedules=True,
    ),
    tool(
        schedule_edit,
        "Change a scheduled prompt",
        {
            "id": TASK_ID,
            "at": text(AT),
            "prompt": text("The new instructions; they replace the old ones."),
            "agent": text("Which agent is woken from now on, by name; inbox: none, it waits for one."),
            "cron": text(CRON),
            "rrule": text(RRULE),
            "every": text(EVERY),
            "timezone": ZONE,
        },
        TASK_RESULT,
        ("id",),
        destructive=True,
    ),
    tool(
        schedule_cancel,
        "Cancel a scheduled prompt",
        {"id": TASK_ID, "stop_running": {"type": "boolean", "description": STOP_RUNNING}},
        {"id": {"type": "integer"}, "status": {"type": "string"}, "error": ERROR, **LOOKUP},
        ("id",),
        destructive=True,
        idempotent=True,
    ),
    tool(
        prompt_result,
        "What came of a prompt",
        {"id": TASK_ID, "run_id": number("The number of one run, instead of id."), "timezone": ZONE},
        {
            "id": {"type": "integer"},
            "run_id": {"type": "integer"},
            "status": text(
                "completed, failed, cancelled, lost; running, waiting (for an agent to take or finish it), pending, "
                "queued; missed, skipped."
            ),
            "state_detail": STATE_DETAIL,
            "due": TIME,
            "finished": TIME,
            "result": text("What the agent answered."),
            "outcome": {"description": "The same as data, where the agent gave such."},
            "agent": text("Who answered, where it was woken."),
            "reason": text("Why it failed, did not run, or is to be tried again."),
            "report": text("How far it has come, while it is under way."),
            "name": {"type": "string"},
            "prompt": text("Absent where it was edited since, or deleted."),
            "edited_since": TIME,
            "earlier": {
                "type": "array",
                "description": "The runs before it, the newest first.",
                "items": {
                    "type": "object",
                    "properties": {"run_id": {"type": "integer"}, "due": TIME, "status": {"type": "string"}},
                },
            },
            "not_run_since": {
                "type": "array",
                "description": "Later occurrences that were skipped or missed.",
                "items": {"type": "object"},
            },
            "timezone": {"type": "string"},
            "error": ERROR,
            **LOOKUP,
        },
        read_only=True,
        idempotent=True,
    ),
    tool(
        take_prompt,
        "Take a due prompt",
        {"agent": text("Only prompts for this agent; any of the caller's if absent."), "timezone": ZONE},
        {
            "id": {"type": "integer"},
            "run_id": number("What finish_prompt takes."),
            "prompt": {"type": "string"},
            "due": TIME,
            "expires_at": TIME,
            "message": text("Instead of the rest, when nothing is due."),
            "error": ERROR,
        },
    ),
    tool(
        finish_prompt,
        "Finish a taken prompt",
        {
            "run_id": number("The run_id that take_prompt or a heartbeat's message gave; not the task's id."),
            "result": text("What was done or found; beyond 64 KiB it is cut."),
            "error": text("Why it could not be done; beyond 2000 characters it is cut."),
        },
        {
            "id": {"type": "integer"},
            "run_id": {"type": "integer"},
            "status": text("completed, failed, or pending when it is tried again."),
            "error": ERROR,
        },
        ("run_id",),
        is_early=is_finish_early,
    ),
]
