"""The notification tools; `cron://examples`, `timezones://valid` and `schedules://{topic}`, to which clients can
subscribe; and the MCP prompt by which a person asks for a reminder."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from duetime.engine.errors import StoreUnavailable, UnknownZone
from duetime.engine.policy.options import is_topic
from duetime.kinds.notifications.mcp import handlers, text
from duetime.kinds.notifications.mcp.handlers import listing_view, service_of
from duetime.kinds.notifications.result import Err
from duetime.mcp.definitions import Recipe, Resource, quoted, tool
from duetime.mcp.schemas import WARNINGS, ZONE
from duetime.service.services import Call
from duetime.service.vocabulary import known_zone

_NOW = ("datetime", "date", "time", "timezone", "timestamp_ms")
_FACTS = ("next_run", "reads_as", "limits", "options", *WARNINGS)

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
        text.TO
        | text.NAMED
        | text.TIMES
        | {"when": text.WHEN, "rrule": text.RRULE}
        | text.ONCE_POLICY
        | text.IDEMPOTENCY,
        text.results("success", "message_id", "schedule_id", "scheduled_time", "delay", "confirmation", *_FACTS),
        ("message", "notification_topic"),
        always=("success", "message_id", "confirmation"),
        open_world=True,
    ),
    tool(
        handlers.schedule_cron_notification,
        "Notify regularly",
        text.TO | text.CRON | {"when": text.CRON_WHEN} | text.CRON_POLICY | text.IDEMPOTENCY,
        text.results("success", "schedule_id", "cron", "confirmation", *_FACTS),
        ("message", "notification_topic", "timezone"),
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


EXAMPLES = {
    "* * * * *": "every minute",
    "*/15 * * * *": "every 15 minutes",
    "0 * * * *": "every hour, on the hour",
    "0 */2 * * *": "every two hours",
    "0 9 * * *": "every day at 09:00",
    "30 8 * * 1-5": "at 08:30 on weekdays, Monday to Friday",
    "0 10 * * 6,0": "at 10:00 on Saturdays and Sundays",
    "0 9,17 * * *": "every day at 09:00 and at 17:00",
    "0 18 * * 5": "every Friday at 18:00",
    "0 9 1 * *": "at 09:00 on the first day of every month",
    "0 9 L * *": "at 09:00 on the last day of every month",
    "0 9 * * 1#1": "at 09:00 on the first Monday of every month",
    "0 9 1 1,4,7,10 *": "at 09:00 on the first day of every quarter",
    "0 0 1 1 *": "at midnight as the year begins",
}
FORMAT_HELP = (
    "Five fields: minute (0-59) hour (0-23) day-of-month (1-31, L for the last) month (1-12 or JAN-DEC) day-of-week "
    "(0-7 or SUN-SAT; 0 and 7 are Sunday). * is every value, a-b a range, a,b a list, */n every n-th, and in "
    "day-of-week 5#2 is the second Friday and 5L the last. When both day fields are given, either one matching is "
    "enough. The expression is read in the schedule's time zone; a time that clocks jump over runs right after the "
    "jump, and one that comes twice runs once."
)


def _cron_examples(call: Call, value: str) -> dict[str, Any]:
    rows = [{"expression": expression, "description": meaning} for expression, meaning in EXAMPLES.items()]
    return {"examples": rows, "format_help": FORMAT_HELP}


def _zones(call: Call, value: str) -> dict[str, Any]:
    rows = [{"zone": name, "region": name.partition("/")[0] if "/" in name else "Other"} for name in _zone_names()]
    return {"timezones": rows, "count": len(rows)}


@cache
def _zone_names() -> tuple[str, ...]:
    """Return the zones that the tools accept, cached because all of them have to be read."""
    names = []
    for name in sorted(available_timezones()):
        with suppress(UnknownZone):
            names.append(known_zone(name).key)
    return tuple(names)


def _read(call: Call, topic: str) -> dict[str, Any] | None:
    """Return the caller's notifications on a topic; the list is empty if there are none, or only those of others."""
    if not is_topic(topic):
        return None
    result = service_of(call).scheduled(call.caller, topic)
    if isinstance(result, Err):
        raise StoreUnavailable(result.message)
    return {"notification_topic": topic, **listing_view(result.value, call.zone, call.caller.depth)}


def _digest(call: Call, topic: str) -> object:
    return service_of(call).changes(call.caller, topic) if is_topic(topic) else None


RESOURCES = [
    Resource(
        uri="cron://examples",
        title="Cron examples",
        description="Cron expressions with what they mean, and the format of the five fields.",
        read=_cron_examples,
    ),
    Resource(
        uri="timezones://valid",
        title="Time zones",
        description="All IANA time zones that `timezone` takes, with their regions.",
        read=_zones,
    ),
    Resource(
        uri="schedules://{topic}",
        title="Scheduled notifications of a topic",
        description=(
            "The caller's recurring and coming notifications on a topic, as list_scheduled_notifications shows them. "
            "Subscribe to be notified of every create, delete, pause, resume and firing."
        ),
        read=_read,
        digest=_digest,
    ),
]

RECIPES = [
    Recipe(
        "remind_me",
        "Remind me",
        "Send me a message at a time.",
        {"what": "What to be reminded of.", "when": "When, in your own words."},
        lambda answers: (
            "Schedule a notification for me with schedule_notification (or schedule_cron_notification if it repeats)."
            f" What:{quoted(answers, 'what')}When:{quoted(answers, 'when')}"
            "Use my time zone, ask for the topic if you do not know it, and tell me the local time that was understood."
        ),
    )
]
