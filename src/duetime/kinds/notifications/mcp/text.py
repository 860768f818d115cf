"""Schemas of the arguments and results of the notification tools, with the descriptions that agents read."""

from __future__ import annotations

from duetime.kinds.notifications.delivery import ATTEMPTS
from duetime.kinds.notifications.payload import PushMessage
from duetime.mcp.definitions import FLAG, TEXT, Schema, number, text
from duetime.mcp.schemas import (
    KEY,
    LIMITS_IN_FORCE,
    NAME,
    OPTIONS_SET,
    READS_AS,
    WARNINGS,
    ZONE,
    option_arguments,
    options_argument,
    payload_arguments,
)

TOPIC = text("The person's topic: home-alerts; ask, never invent it.")
ONLY_TOPIC = text("Only this topic, such as home-alerts.")
CRON: dict[str, Schema] = {
    "cron": text("Minute hour day month weekday: 0 9 * * 1-5."),
    "timezone": ZONE,
    "label": text("Name, such as weekly-report."),
}
TIMES: dict[str, Schema] = {
    "datetime": text("2026-02-10T15:00+01:00, or words: tomorrow at 9."),
    "time": text("In timezone, such as 15:30."),
    "date": text("Day of time: 2026-02-10; default today."),
    "delay": text("From now: 2h30m or 1d."),
    "timezone": text("User's: Asia/Tokyo; time needs it."),
}
RRULE = text("FREQ=MONTHLY;BYDAY=-1FR.")
CRON_WHEN = text("Instead of cron: every weekday at 8:30.")
_LISTED = option_arguments("max_attempts", "timeout", "catch_up", "overlap", max_attempts=ATTEMPTS, overlap="allow")
CRON_POLICY = _LISTED | {"options": {"type": "object", "description": "As in schedule_notification."}}
RETRIES = {"max_attempts": _LISTED["max_attempts"]}
ONCE_POLICY = {name: _LISTED[name] for name in ("max_attempts", "timeout_seconds", "catch_up")}
ONCE_POLICY |= options_argument(*_LISTED, "untaken", "expire_after")  # no agent takes notifications
WHEN = text(
    "In words: every weekday at 8:30; on deploy.done; after backup fails. The message takes in {text}, {error}."
)
IDEMPOTENCY = {"idempotency_key": KEY}
TO: dict[str, Schema] = {"message": text("What the person reads."), "notification_topic": TOPIC}

LOOKS = {
    name: each for name, each in payload_arguments(PushMessage).items() if name not in ("message", "topic", "label")
}

NAMED: dict[str, Schema] = {"name": NAME, "priority": LOOKS["priority"]}


EDITABLE: dict[str, tuple[str, Schema]] = {
    "message": ("message", text("The new text.")),
    "notification_topic": ("topic", text("The new topic.")),
    "label": ("label", text("The new label.")),
}
"""Arguments of edit_schedule with their payload fields; the other fields go into its payload argument."""


def _item(properties: dict[str, Schema]) -> Schema:
    return {"type": "object", "properties": properties}


_TIME: Schema = {"type": ["string", "null"], "description": "ISO 8601 with offset, in the caller's zone."}
_FURTHER: dict[str, Schema] = {
    **dict.fromkeys(("name", "note", "paused_until", "state_detail", "reads_as"), TEXT),
    "options": OPTIONS_SET,
}
_SCHEDULE: dict[str, Schema] = {
    "schedule_id": TEXT,
    "cron_expression": {"type": ["string", "null"]},
    "timezone": text("The zone that the cron expression is read in."),
    "notification_topic": TEXT,
    "label": {"type": ["string", "null"]},
    "paused": FLAG,
    "next_occurrence": {**_TIME, "description": "Null while it is paused."},
    "last_occurrence": _TIME,
    "notification_body": TEXT,
    **_FURTHER,
}
_MESSAGE: dict[str, Schema] = {
    **dict.fromkeys(("message_id", "notification_topic", "notification_body"), TEXT),
    "scheduled_time": {**_TIME, "description": "After its pause; null if that has no end."},
    "paused": FLAG,
    **_FURTHER,
}
_RESULTS: dict[str, Schema] = {
    "success": {"type": "boolean", "description": "Whether it worked."},
    "message_id": TEXT,
    "schedule_id": TEXT,
    "scheduled_time": text("When datetime or time was given."),
    "delay": text("When delay was given."),
    "cron": text("CRON_TZ=<zone> <cron>"),
    "confirmation": text("What was done, for the user to read (success only)."),
    "error": text("Why not, and what to do about it (failure only)."),
    **WARNINGS,
    "reached": text("phone, inbox (the built-in one only) or nobody.", enum=["phone", "inbox", "nobody"]),
    "next_run": _TIME,
    "reads_as": READS_AS,
    "limits": LIMITS_IN_FORCE,
    "options": OPTIONS_SET,
    "schedules": {"type": "array", "description": "Notifications that recur.", "items": _item(_SCHEDULE)},
    "count": number("Number of schedules."),
    "messages": {
        "type": "array",
        "description": "One-off notifications that have not gone out, by time.",
        "items": _item(_MESSAGE),
    },
    "datetime": text("ISO 8601 with offset."),
    "date": text("YYYY-MM-DD"),
    "time": text("HH:MM:SS"),
    "timezone": TEXT,
    "timestamp_ms": number("Milliseconds since 1970-01-01T00:00:00Z."),
}


def results(*names: str) -> dict[str, Schema]:
    return {name: _RESULTS[name] for name in names}
