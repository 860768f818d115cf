"""Notifications that exist: listed, paused, resumed, deleted. An unknown id is a normal result."""

from __future__ import annotations

from typing import Any

from duetime.core.clock import datetime_of
from duetime.core.errors import InvalidInput
from duetime.core.masking import without_secrets
from duetime.core.notifications import Listing, Message, Recurring
from duetime.core.result import Err, Result
from duetime.core.times import iso_local
from duetime.core.topics import checked_topic
from duetime.core.triggers import known_zone
from duetime.faces.mcp.notification_times import whole_second
from duetime.faces.mcp.shared import zone_of
from duetime.faces.mcp.tool import Arguments, Call, Reply, ToolProblem
from duetime.faces.present import instant_view


def list_scheduled_notifications(call: Call, given: Arguments) -> Reply:
    zone = zone_of(call, given)
    topic = given.get("notification_topic")
    try:
        found = call.desk.notifications.scheduled(call.caller, None if topic is None else checked_topic(topic))
    except InvalidInput as error:
        raise ToolProblem(f"notification_{error.message}") from error
    if isinstance(found, Err):
        raise ToolProblem(f"The notifications cannot be listed: {without_secrets(found.message)}")
    return Reply(listing_view(found.value, zone))


def listing_view(listing: Listing, zone: str) -> dict[str, Any]:
    return {
        "schedules": [_schedule_view(each, zone) for each in listing.schedules],
        "count": len(listing.schedules),
        "messages": [_message_view(each, zone) for each in listing.messages],
    }


def _schedule_view(schedule: Recurring, zone: str) -> dict[str, Any]:
    return {
        "schedule_id": schedule.schedule_id,
        "cron_expression": schedule.cron,
        "timezone": schedule.timezone,
        "notification_topic": schedule.topic,
        "label": schedule.label,
        "paused": schedule.paused,
        "next_occurrence": instant_view(schedule.next, zone),
        "last_occurrence": instant_view(schedule.last, zone),
        "notification_body": schedule.body,
    }


def _message_view(message: Message, zone: str) -> dict[str, Any]:
    return {
        "message_id": message.message_id,
        "scheduled_time": instant_view(message.at, zone),
        "notification_topic": message.topic,
        "notification_body": message.body,
    }


def pause_schedule(call: Call, given: Arguments) -> Reply:
    schedule_id = given["schedule_id"]
    result = call.desk.notifications.pause(call.caller, schedule_id)
    return _changed(schedule_id, result, "pause", "paused", {"paused": True})


def resume_schedule(call: Call, given: Arguments) -> Reply:
    schedule_id = given["schedule_id"]
    result = call.desk.notifications.resume(call.caller, schedule_id)
    return _changed(schedule_id, result, "resume", "resumed", {"paused": False})


def delete_schedule(call: Call, given: Arguments) -> Reply:
    schedule_id = given["schedule_id"]
    result = call.desk.notifications.delete(call.caller, schedule_id)
    return _changed(schedule_id, result, "delete", "deleted", {}, gone="already been deleted")


def _changed(
    schedule_id: str, result: Result[None], verb: str, done: str, facts: dict[str, Any], gone: str = "been deleted"
) -> Reply:
    if not isinstance(result, Err):
        words = f"Schedule {schedule_id} {done} successfully"
        return Reply({"success": True, "schedule_id": schedule_id, **facts, "confirmation": words})
    error = f"Could not {verb} {schedule_id}: {without_secrets(result.message)}"
    if result.code == "not_found":
        error = f"Schedule not found: {schedule_id}. It may have {gone} or the ID is incorrect."
    return Reply({"success": False, "schedule_id": schedule_id, "error": error})


def get_current_time(call: Call, given: Arguments) -> Reply:
    zone = zone_of(call, given)
    now = call.scheduler.clock.now()
    local = datetime_of(whole_second(now)).astimezone(known_zone(zone))
    return Reply(
        {
            "datetime": iso_local(whole_second(now), zone),
            "date": local.date().isoformat(),
            "time": local.time().isoformat(),
            "timezone": zone,
            "timestamp_ms": now // 1000,
        }
    )
