"""Making notifications: now, once, or again and again. Invalid input is a tool error that shows what would be right."""

from __future__ import annotations

from typing import Any, NoReturn

from duetime.core.masking import without_secrets
from duetime.core.notifications import KIND, NewNotification, Sent
from duetime.core.result import Err
from duetime.core.times import format_local, iso_local
from duetime.faces.mcp.notification_times import When, past, when_of, whole_second
from duetime.faces.mcp.shared import policy_of, zone_of
from duetime.faces.mcp.tool import Arguments, Call, Reply, ToolProblem
from duetime.faces.present import instant_view

EXTRAS = ("title", "priority", "tags", "markdown", "click", "actions", "icon", "attach", "filename", "label")
_CRON_RULE = (
    'Give 5 fields (minute hour day-of-month month day-of-week), for example "0 9 * * 1-5" for 09:00 on weekdays; '
    "the resource cron://examples has more."
)


def send_push_notification(call: Call, given: Arguments) -> Reply:
    service = call.desk.notifications
    result = service.send(call.caller, _new(given))
    if isinstance(result, Err):
        _refuse(result)
    sent = result.value
    if sent.channel is not None:
        way = sent.channel if service.fires_here else f"{sent.channel}, which delivers it"
        words = f"Notification sent to topic {sent.topic} (channel: {way})"
        answer = {"success": True, "message_id": sent.message_id, "confirmation": words}
        notes = [sent.note] if sent.note else []
        arrival = service.warnings(given["notification_topic"], call.caller.owner)
        return Reply(_with_warnings(answer, notes + arrival))
    answer = {"success": False, "message_id": sent.message_id, "error": _failure(sent)}
    return Reply(_with_warnings(answer, _warnings(call, given)))


def _failure(sent: Sent) -> str:
    reason = without_secrets(sent.error or "no reason was given").rstrip(".")
    if sent.retried:
        return (
            f"Not delivered yet: {reason}. It will be retried by itself: do not send it again; "
            f"delete_schedule with {sent.message_id} takes it back."
        )
    return f"Not delivered: {reason}. It will not be retried; call send_push_notification again to do so."


def schedule_notification(call: Call, given: Arguments) -> Reply:
    service = call.desk.notifications
    when = when_of(call, given)
    result = service.create_once(call.caller, _new(given), when.text, when.zone)
    if isinstance(result, Err):
        if result.details.get("field") == "run_at":
            raise past(call, when, result.message.removeprefix("run_at: "))
        _refuse(result)
    message = result.value
    answer: dict[str, Any] = {"success": True, "message_id": message.message_id}
    if when.argument == "delay":
        at = iso_local(whole_second(message.at), when.zone)
        answer |= {"delay": given["delay"], "confirmation": f"Notification scheduled in {given['delay']}, at {at}"}
    else:
        answer |= {"scheduled_time": instant_view(message.at, when.zone), "confirmation": _understood(when, message.at)}
    return Reply(_with_warnings(answer, _warnings(call, given)))


def _understood(when: When, at: Any) -> str:
    note = when.note(at)
    words = f"Notification scheduled for {format_local(at, when.zone)}"
    return words if note is None else f"{words}; {note}"


def schedule_cron_notification(call: Call, given: Arguments) -> Reply:
    service = call.desk.notifications
    zone = zone_of(call, given)
    cron = given["cron"]
    if len(cron) > 1000 or len(cron.split()) != 5:
        raise ToolProblem(f"Invalid cron expression: {cron[:100]}. {_CRON_RULE}{_zone_hint(cron)}")
    result = service.create_cron(call.caller, _new(given), cron, zone)
    if isinstance(result, Err):
        if result.details.get("field") in ("expression", "trigger_config"):
            reason = result.message.removeprefix("expression: ").removeprefix("trigger_config: ").rstrip(".")
            named = reason if reason.startswith("Invalid cron") else f"Invalid cron expression: {cron}: {reason}"
            raise ToolProblem(f"{named}. {_CRON_RULE}")
        _refuse(result)
    schedule = result.value
    expression = f"CRON_TZ={schedule.timezone} {schedule.cron}"
    answer = {
        "success": True,
        "schedule_id": schedule.schedule_id,
        "cron": expression,
        "confirmation": f"Cron schedule created: {expression}",
    }
    return Reply(_with_warnings(answer, _warnings(call, given)))


def _zone_hint(cron: str) -> str:
    return " Leave CRON_TZ= out: the zone goes into timezone." if cron.lstrip().startswith("CRON_TZ=") else ""


def _new(given: Arguments) -> NewNotification:
    return NewNotification(
        message=given["message"],
        topic=given["notification_topic"],
        more={name: given[name] for name in EXTRAS if name in given},
        policy=policy_of(given),
        idempotency_key=given.get("idempotency_key"),
    )


def _refuse(err: Err) -> NoReturn:
    """The core calls it a topic; whoever asked knows it by the argument's name."""
    message = without_secrets(err.message)
    if err.details.get("field") == "topic":
        message = f"notification_{message}"
    raise ToolProblem(f"Not created: {message}" if err.code == "api_error" else message)


def _warnings(call: Call, given: Arguments) -> list[str]:
    """A worker matters only where it is what fires."""
    service = call.desk.notifications
    here = call.desk.warnings(KIND) if service.fires_here else []
    return here + service.warnings(given["notification_topic"], call.caller.owner)


def _with_warnings(answer: dict[str, Any], warnings: list[str]) -> dict[str, Any]:
    return {**answer, "warnings": warnings} if warnings else answer
