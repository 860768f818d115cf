"""Schemas of the arguments and results of the notification tools, with the descriptions that agents read."""

from __future__ import annotations

from duetime.engine.policy.options import TOPIC as TOPIC_PATTERN
from duetime.kinds.notifications.delivery import ATTEMPTS
from duetime.mcp.definitions import Schema, number, text
from duetime.mcp.schemas import KEY, LIMITS_IN_FORCE, POLICY, READS_AS, WARNINGS

TOPIC = text(
    "Where it goes: the topic that the person's phone listens to, such as home-alerts (lowercase letters and digits "
    "joined by single hyphens). Ask the user when you do not know it; never make one up.",
    pattern=TOPIC_PATTERN,
)
CRON: dict[str, Schema] = {
    "cron": text(
        "Cron expression of 5 fields: minute hour day-of-month month day-of-week, such as '0 9 * * 1-5' for 09:00 on "
        "weekdays. It is read in timezone; no seconds, no CRON_TZ prefix. The resource cron://examples has more."
    ),
    "timezone": text(
        "IANA time zone in which the cron expression is read, such as Europe/Berlin. Use the user's zone: from the "
        "conversation or your environment, else ask. The resource timezones://valid lists all."
    ),
    "label": text(
        "A name to find the schedule by, such as weekly-report: letters, digits, dots, underscores, hyphens."
    ),
}
TIMES: dict[str, Schema] = {
    "datetime": text(
        "ISO 8601 with offset, such as 2026-02-10T15:00:00+01:00, or words in timezone: 'tomorrow at 9', 'tonight'."
    ),
    "time": text(
        "Wall-clock time in 24 hours, such as 15:30, read in timezone (required with it). Use it for 'at 3pm'."
    ),
    "date": text("The day for time, as YYYY-MM-DD; today in timezone when it is left out."),
    "delay": text(
        "How long from now: 30m, 1d, 2h30m, 1d10h30m50s (units in the order d h m s). Use it for 'in 2 hours'."
    ),
    "timezone": text(
        "IANA time zone such as Europe/Berlin: required with time, otherwise only how the answer shows times. "
        "Give the user's zone: from the conversation or your environment, else ask."
    ),
}
WHEN: Schema = text(
    "Instead of the other times, one time or what recurs, in words: 'friday at nine', 'every weekday at 8:30', "
    "'last friday of the month 5pm', 'every 90 minutes between 9:00 and 17:00'; read in timezone."
)
CRON_WHEN: Schema = text("Instead of cron, in words: 'every weekday at 8:30'.")
CRON_POLICY = {
    **POLICY,
    "max_attempts": number(f"How often it is tried in all, with growing waits; {ATTEMPTS} if absent."),
    "overlap": text(
        "When due while an earlier one is still being tried: allow (default: each goes out), skip, queue.",
        enum=["skip", "queue", "allow"],
    ),
}
RETRIES = {"max_attempts": CRON_POLICY["max_attempts"]}
ONCE_POLICY = {name: CRON_POLICY[name] for name in ("max_attempts", "timeout_seconds", "catch_up")}
IDEMPOTENCY = {"idempotency_key": KEY}
TO: dict[str, Schema] = {
    "message": text("The notification's text, as the person will read it."),
    "notification_topic": TOPIC,
}

ACTIONS: Schema = {
    "type": "array",
    "maxItems": 3,
    "description": (
        'At most 3 buttons. view opens a link: {"action": "view", "label": "Open", "url": "https://example.org"}. '
        'http sends a request: {"action": "http", "label": "Close door", "url": "https://example.org/door", '
        '"method": "PUT", "headers": {}, "body": ""}. broadcast tells an Android app: {"action": "broadcast", '
        '"label": "Snooze", "intent": "io.app.SNOOZE", "extras": {}}. Each may have clear (true: the notification '
        "goes away when it is tapped)."
    ),
    "items": {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["view", "http", "broadcast"]},
            "label": {"type": "string"},
            "url": {"type": "string"},
            "method": {"type": "string"},
            "headers": {"type": "object"},
            "body": {"type": "string"},
            "intent": {"type": "string"},
            "extras": {"type": "object"},
            "clear": {"type": "boolean"},
        },
        "required": ["action", "label"],
    },
}
LOOKS: dict[str, Schema] = {
    "title": text("Title above the message."),
    "priority": number(
        "1 (lowest) to 5 (highest, keeps ringing); 3 is usual. Use 4 or 5 only for what cannot wait.",
        minimum=1,
        maximum=5,
    ),
    "tags": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Tags; names of emojis such as warning or tada are shown as such.",
    },
    "markdown": {"type": "boolean", "description": "True: the message is formatted as Markdown."},
    "click": text("Link that opens when the notification is tapped, such as https://example.org/ticket/7."),
    "actions": ACTIONS,
    "icon": text("URL of a picture to show as icon (http or https)."),
    "attach": text("URL of a file to attach (http or https)."),
    "filename": text("Name of the attached file, such as report.pdf."),
}


EDITABLE: dict[str, tuple[str, Schema]] = {
    "message": ("message", text("A new text of the notification.")),
    "notification_topic": ("topic", text("The topic that receives it from now on.")),
    "title": ("title", LOOKS["title"]),
    "label": ("label", text("A new label, such as weekly-report.")),
}
"""Arguments of edit_schedule with their payload fields; the other fields go into its payload argument."""


def _item(properties: dict[str, Schema]) -> Schema:
    return {"type": "object", "properties": properties}


_STRING: Schema = {"type": "string"}
_BOOLEAN: Schema = {"type": "boolean"}
_TIME: Schema = {"type": ["string", "null"], "description": "ISO 8601 with offset, in the caller's zone."}
_SCHEDULE: dict[str, Schema] = {
    "schedule_id": _STRING,
    "cron_expression": {"type": ["string", "null"]},
    "timezone": text("The zone that the cron expression is read in."),
    "notification_topic": _STRING,
    "label": {"type": ["string", "null"]},
    "paused": _BOOLEAN,
    "next_occurrence": {**_TIME, "description": "Null while it is paused."},
    "last_occurrence": _TIME,
    "notification_body": _STRING,
}
_MESSAGE = dict.fromkeys(("message_id", "scheduled_time", "notification_topic", "notification_body"), _STRING)
_RESULTS: dict[str, Schema] = {
    "success": {"type": "boolean", "description": "Whether it worked."},
    "message_id": _STRING,
    "schedule_id": _STRING,
    "scheduled_time": text("When datetime or time was given."),
    "delay": text("When delay was given."),
    "cron": text("CRON_TZ=<zone> <cron>"),
    "confirmation": text("What was done, for the user to read (success only)."),
    "error": text("Why not, and what to do about it (failure only)."),
    **WARNINGS,
    "reached": text("phone, inbox (on no phone) or nobody.", enum=["phone", "inbox", "nobody"]),
    "next_run": _TIME,
    "reads_as": READS_AS,
    "limits": LIMITS_IN_FORCE,
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
    "timezone": _STRING,
    "timestamp_ms": number("Milliseconds since 1970-01-01T00:00:00Z."),
}


def results(*names: str) -> dict[str, Schema]:
    return {name: _RESULTS[name] for name in names}
