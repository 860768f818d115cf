"""The prompt tools as agents see them: descriptions, schemas and hints."""

from __future__ import annotations

from duetime.kinds.prompts.mcp.inbox import finish_prompt, is_finish_early, take_prompt
from duetime.kinds.prompts.mcp.results import RESULT_TOOL
from duetime.kinds.prompts.mcp.schedules import schedule, schedule_cancel, schedule_edit, schedule_list
from duetime.kinds.prompts.mcp.text import TASK_ID, TIME
from duetime.mcp.definitions import Schema, Tool, number, object_schema, result_schema, text
from duetime.mcp.schemas import DELIVERY, ERROR, KEY, NULLABLE_TIME, POLICY, STATUSES, WARNINGS, ZONE

AT = (
    "When: 2026-02-10T15:00, '2026-02-10 3:00 PM', 'Feb 10, 2026 3:00 PM', '15:30', 'in 2 hours', 'tomorrow 9am'; "
    "read in the time zone. The answer shows how it was understood; a past time is refused."
)
CRON = "Five fields: minute hour day_of_month month day_of_week, such as '0 9 * * 1-5'; wall-clock time in the zone."
RRULE = "An iCalendar recurrence rule such as 'FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9;BYMINUTE=0;BYSECOND=0'."
EVERY = "An interval such as '30m', '2h30m' or '1 day', counted from now, or from `at` as its first time."
TASK: dict[str, Schema] = {
    "id": {"type": "integer"},
    "fire_at": NULLABLE_TIME,
    "status": {"type": "string", "description": f"{', '.join(STATUSES)}. running: it is due and waits, or was taken."},
    "prompt": {"type": "string", "description": "At most its first 1000 characters."},
    "agent": {"type": "string"},
    "remind": {"type": "boolean", "description": "Instead of an agent: a mere reminder."},
    "repeats": {"type": "string", "description": "The rule of a recurring one, in words."},
    "deliver_to": {"type": "string"},
    "last_run": {"type": "string", "description": "When it last ran, if it did; prompt_result tells what came of it."},
    "last_status": {"type": "string", "description": "How that ended."},
    "last_error": {"type": "string"},
    "held": {"type": "string", "description": "Why it does not go on just now: a limit, a pause, what broke it."},
}
TASK_RESULT: dict[str, Schema] = {
    **TASK,
    "timezone": {"type": "string"},
    "note": {"type": "string", "description": "What had to be assumed to read the time. Tell the user."},
    "error": ERROR,
}
WAKES: Schema = {
    "type": "string",
    "description": "The agent that is woken when it is due; absent for what waits in an inbox, and for a reminder.",
}
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
    "max_runs_per_day": number("How often an agent may be woken for it in a day.", minimum=1),
    "max_tokens_per_day": number("Tokens that its runs may use in a day.", minimum=1),
    "max_dollars_per_day": {
        "type": "number",
        "description": "What its runs may cost in a day, in dollars, where the agent reports it.",
    },
}

TOOLS = [
    Tool(
        name="schedule",
        title="Schedule a prompt",
        description=(
            "Have an agent do something later: at that time the prompt wakes an agent with your instructions. Use "
            "it for work that needs an agent (check, decide, write); to message a person at a time use "
            "schedule_notification, to run a registered function use schedule_job. Write the prompt so that an "
            "agent without this conversation understands it. Give exactly one of at, cron, rrule, every; every "
            "may also have at as its first time. Answers with the task's number and the local time that was "
            "understood, and with the agent that is woken: tell the user these, and any warning. Each call creates a "
            "new task unless an idempotency_key is given."
        ),
        input=object_schema(
            {
                "prompt": text("The instructions, complete in themselves."),
                "at": text(AT),
                "cron": text(CRON),
                "rrule": text(RRULE),
                "every": text(EVERY),
                "agent": text(
                    "Which agent is woken, by name; the one that the settings choose if absent, and the answer "
                    "says which. inbox: none is woken, it waits until an agent takes it with take_prompt."
                ),
                **DELIVERY,
                **USAGE_LIMITS,
                "timezone": ZONE,
                **LIMITS,
                "idempotency_key": KEY,
            },
            ("prompt",),
        ),
        output=result_schema({**TASK_RESULT, "wakes": WAKES, "warnings": WARNINGS}),
        answer=schedule,
    ),
    Tool(
        name="schedule_list",
        title="List scheduled prompts",
        description=(
            "The caller's scheduled prompts in the order in which they fire, one row each: number, local time, "
            "status, beginning of the prompt. Only pending ones unless another status is asked for; 'all' shows "
            "every one. Use it to find the number that schedule_edit, schedule_cancel and prompt_result take. For "
            "everything that fires next, jobs and notifications included, use list_upcoming."
        ),
        input=object_schema(
            {
                "status": text(f"{', '.join(STATUSES)} or all; pending if absent.", enum=[*STATUSES, "all"]),
                "from": text("Only those that fire at or after this time, such as 'today' or 2026-02-10."),
                "to": text("Only those that fire until this time; a day without a time is included whole."),
                "timezone": ZONE,
            }
        ),
        output=result_schema(
            {
                "tasks": {"type": "array", "items": {"type": "object", "properties": TASK}},
                "total": {"type": "integer", "description": "All that match, also those not shown."},
                "from": TIME,
                "to": TIME,
                "timezone": {"type": "string"},
                "error": ERROR,
            }
        ),
        answer=schedule_list,
        read_only=True,
        idempotent=True,
        lists_schedules=True,
    ),
    Tool(
        name="schedule_edit",
        title="Change a scheduled prompt",
        description=(
            "Change the time, the rule, the text or the agent of a pending prompt; what is not given stays. at moves "
            "the next time: a recurring prompt goes on by its rule after that. cron, rrule or every (with at as its "
            "first time) replace the rule. A prompt that is due, done or cancelled cannot be changed: schedule a "
            "new one. Only one that waits because its agent is not there (held says so) can be given another agent."
        ),
        input=object_schema(
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
            ("id",),
        ),
        output=result_schema(TASK_RESULT),
        answer=schedule_edit,
        destructive=True,
    ),
    Tool(
        name="schedule_cancel",
        title="Cancel a scheduled prompt",
        description=(
            "Cancel a pending prompt for good, with all its coming times. Ask the user which one is meant when "
            "several could be; schedule_list shows the numbers."
        ),
        input=object_schema({"id": TASK_ID}, ("id",)),
        output=result_schema({"id": {"type": "integer"}, "status": {"type": "string"}, "error": ERROR}),
        answer=schedule_cancel,
        destructive=True,
        idempotent=True,
    ),
    RESULT_TOOL,
    Tool(
        name="take_prompt",
        title="Take a due prompt",
        description=(
            "Take the oldest prompt that is due and waits for an agent, and do what it says. It is yours alone "
            "until expires_at; then another agent may take it. End it with finish_prompt. prompts://due shows "
            "what waits; a run that Duetime woke is not given what runs like itself have scheduled. The prompt was "
            "stored by its owner: follow it as you would follow that user, not as a message of this server."
        ),
        input=object_schema(
            {"agent": text("Only prompts for this agent; any of the caller's if absent."), "timezone": ZONE}
        ),
        output=result_schema(
            {
                "id": {"type": "integer"},
                "run_id": {"type": "integer", "description": "What finish_prompt takes."},
                "prompt": {"type": "string"},
                "due": TIME,
                "expires_at": TIME,
                "message": {"type": "string", "description": "Instead of the rest, when nothing is due."},
                "error": ERROR,
            }
        ),
        answer=take_prompt,
    ),
    Tool(
        name="finish_prompt",
        title="Finish a taken prompt",
        description=(
            "Say what became of a prompt that you took: result if it is done, or error if it could not be done, "
            "which counts as a failed attempt and is tried again where the task allows for it. Only whoever took "
            "it can finish it, and only until it expires. The result is kept: prompt_result shows it."
        ),
        input=object_schema(
            {
                "run_id": number("The run_id that take_prompt or a heartbeat's message gave; not the task's id."),
                "result": text("What was done or found; beyond 64 KiB it is cut."),
                "error": text("Why it could not be done; beyond 2000 characters it is cut."),
            },
            ("run_id",),
        ),
        output=result_schema(
            {
                "id": {"type": "integer"},
                "run_id": {"type": "integer"},
                "status": {"type": "string", "description": "completed, failed, or pending when it is tried again."},
                "error": ERROR,
            }
        ),
        answer=finish_prompt,
        is_early=is_finish_early,
    ),
]
