"""The prompt tools as agents see them: schemas and hints; their descriptions are the docstrings of the functions."""

from __future__ import annotations

from duetime.kinds.prompts.mcp.inbox import finish_prompt, is_finish_early, take_prompt
from duetime.kinds.prompts.mcp.results import prompt_result
from duetime.kinds.prompts.mcp.schedules import schedule, schedule_cancel, schedule_edit, schedule_list
from duetime.kinds.prompts.mcp.text import TASK_ID, TIME
from duetime.kinds.prompts.payload import LIMITS, PromptPayload
from duetime.mcp.definitions import Schema, number, text, tool
from duetime.mcp.schemas import (
    DELIVERY,
    ERROR,
    FOLLOWERS,
    KEY,
    LIMITS_IN_FORCE,
    LOOKUP,
    NAME,
    NULLABLE_TIME,
    OPTIONS_SET,
    POLICY,
    READS_AS,
    STATE_DETAIL,
    STATUSES,
    WARNINGS,
    ZONE,
    new_time_arguments,
    options_argument,
    payload_arguments,
    time_arguments,
)

STOP_RUNNING = "Also one that runs or was taken."
AUTHOR = text("Who stored the text; an agent's run is not a person.")
TASK: dict[str, Schema] = {
    "id": {"type": "integer"},
    "name": text("If it has one besides its text."),
    "fire_at": NULLABLE_TIME,
    "status": text(", ".join(STATUSES)),
    "state_detail": STATE_DETAIL,
    "prompt": text("At most its first 1000 characters."),
    "author": AUTHOR,
    "agent": {"type": "string"},
    "remind": {"type": "boolean", "description": "Instead of an agent: a mere reminder."},
    "repeats": text("The rule of a recurring one, in words."),
    "deliver_to": {"type": "string"},
    "last_run": text("When it last ran, if it did; prompt_result tells what came of it."),
    "last_status": text("How that ended."),
    "last_error": {"type": "string"},
    "allow": {"type": "object", "description": "What its runs may use at most, where that was narrowed."},
    "held": text("Why it does not go on just now: a limit, a pause, what broke it."),
    "paused_until": text("When its pause ends by itself."),
    "options": OPTIONS_SET,
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
TIME_LIMITS: dict[str, Schema] = {
    **POLICY,
    "timeout_seconds": {"type": "number", "minimum": 1, "description": "Seconds to finish it; default 900."},
}

USAGE_LIMITS = {
    name: each for name, each in payload_arguments(PromptPayload).items() if name in ("remind", "allow", *LIMITS)
}

EDITABLE: dict[str, tuple[str, Schema]] = {
    "prompt": ("prompt", text("New instructions.")),
    "agent": ("agent", text("New agent, by name.")),
}

TOOLS = [
    tool(
        schedule,
        "Schedule a prompt",
        {
            "prompt": text("Instructions, clear without this conversation."),
            "name": NAME,
            **time_arguments("at", "cron", "rrule", "every", "when"),
            "agent": text("Agent to wake; inbox: it waits for take_prompt."),
            **DELIVERY,
            **USAGE_LIMITS,
            "timezone": ZONE,
            **TIME_LIMITS,
            **options_argument(*DELIVERY, *TIME_LIMITS),
            "idempotency_key": KEY,
        },
        {**TASK_RESULT, "wakes": WAKES, **WARNINGS},
        ("prompt",),
    ),
    tool(
        schedule_list,
        "List prompts",
        {
            "status": text("Only this status; default pending.", enum=[*STATUSES, "all"]),
            "from": text("Fires from: today."),
            "to": text("Fires until; a day counts."),
            "tagged": text("With a tag."),
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
        "Edit a prompt",
        {
            "id": TASK_ID,
            **new_time_arguments("at"),
            "prompt": text("New instructions."),
            "agent": text("Agent to wake from now on."),
            **new_time_arguments("cron", "rrule", "every"),
            "timezone": ZONE,
        },
        {**TASK_RESULT, **WARNINGS},
        ("id",),
        destructive=True,
    ),
    tool(
        schedule_cancel,
        "Cancel a prompt",
        {"id": TASK_ID, "stop_running": {"type": "boolean", "description": STOP_RUNNING}},
        {"id": {"type": "integer"}, "status": {"type": "string"}, **FOLLOWERS, "error": ERROR, **LOOKUP},
        ("id",),
        destructive=True,
        idempotent=True,
    ),
    tool(
        prompt_result,
        "What came of a prompt",
        {"id": TASK_ID, "run_id": number("One run: 12 from the tag run-12."), "timezone": ZONE},
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
            "next_run": NULLABLE_TIME,
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
        "Take a prompt",
        {
            "agent": text("Only prompts for this agent."),
            "from_agents": {"type": "boolean", "description": "false: none that agents' runs stored."},
            "timezone": ZONE,
        },
        {
            "id": {"type": "integer"},
            "run_id": number("What finish_prompt takes."),
            "prompt": {"type": "string"},
            "author": AUTHOR,
            "due": TIME,
            "expires_at": TIME,
            "message": text("Instead of the rest, when nothing is due."),
            "error": ERROR,
        },
    ),
    tool(
        finish_prompt,
        "Finish a prompt",
        {
            "run_id": number("Of take_prompt or a heartbeat; not the id."),
            "result": text("What was done or found."),
            "error": text("Why it could not be done."),
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
