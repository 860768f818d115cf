"""The notification tools: messages to a person, now, later or recurring."""

from __future__ import annotations

from duetime.kinds.notifications.mcp import handlers, text
from duetime.mcp.definitions import tool
from duetime.mcp.schemas import BRIEF_WHEN, LIMITS, WARNINGS, ZONE

_NOW = ("datetime", "date", "time", "timezone", "timestamp_ms")
_FACTS = ("next_run", "reads_as", "limits", *WARNINGS)

TOOLS = [
    tool(
        handlers.send_push_notification,
        "Notify now",
        text.TO | text.LOOKS | text.RETRIES | text.IDEMPOTENCY,
        text.results("success", "message_id", "reached", "confirmation", "error", *WARNINGS),
        ("message", "notification_topic"),
        always=("success",),
        open_world=True,
    ),
    tool(
        handlers.schedule_notification,
        "Notify later",
        text.TO | text.NAMED | text.TIMES | {"when": BRIEF_WHEN} | LIMITS | text.ONCE_POLICY | text.IDEMPOTENCY,
        text.results("success", "message_id", "schedule_id", "scheduled_time", "delay", "confirmation", *_FACTS),
        ("message", "notification_topic"),
        always=("success", "message_id", "confirmation"),
        open_world=True,
    ),
    tool(
        handlers.schedule_cron_notification,
        "Notify regularly",
        text.TO | text.CRON | {"when": text.CRON_WHEN} | LIMITS | text.CRON_POLICY | text.IDEMPOTENCY,
        text.results("success", "schedule_id", "cron", "confirmation", *_FACTS),
        ("message", "notification_topic", "cron", "timezone"),
        always=("success", "schedule_id", "cron", "confirmation"),
        open_world=True,
    ),
    tool(
        handlers.list_scheduled_notifications,
        "List notifications",
        {"notification_topic": text.ONLY_TOPIC, "timezone": ZONE},
        text.results("schedules", "count", "messages"),
        always=("schedules", "count", "messages"),
        read_only=True,
        idempotent=True,
        lists_schedules=True,
    ),
    tool(
        handlers.get_current_time,
        "What time is it?",
        {"timezone": ZONE},
        text.results(*_NOW),
        always=_NOW,
        read_only=True,
    ),
]
