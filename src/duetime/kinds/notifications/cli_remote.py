"""CLI functions for notifications that another service keeps: they are created, listed and changed through it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duetime.engine.errors import InvalidInput
from duetime.engine.redaction import without_secrets
from duetime.engine.result import Err, Result
from duetime.engine.times.zones import known_zone
from duetime.kinds.notifications.remote import PLACE
from duetime.kinds.notifications.service import Listing, NewNotification, NotificationService, Recurring
from duetime.service.calls import LOCAL, Refused, taken
from duetime.service.presenters import instant_view
from duetime.terminal import output
from duetime.terminal.output import ahead, clean, coming
from duetime.terminal.schedules.kind_view import Words
from duetime.terminal.schedules.options import When

if TYPE_CHECKING:
    from duetime.app import App


def service_of(room: App, words: Words) -> NotificationService | None:
    """Return the service that keeps this kind, or None if this store does, as for all kinds but notifications."""
    return room.remote if words.kind == "notification" else None


def add(room: App, service: NotificationService, new: NewNotification, when: When, json_: bool) -> None:
    type_, config = when.trigger()
    if type_ not in ("once", "cron") or len(config) > 1:
        raise InvalidInput(f"{PLACE} keeps notifications here, and takes --at, --delay or --cron alone")
    zone = known_zone(when.tz or room.scheduler.zone).key
    if type_ == "once":
        message = _told(service.create_once(LOCAL, new, config["run_at"], zone))
        id, following = message.message_id, message.at
    else:
        recurring = _told(service.create_cron(LOCAL, new, config["expression"], zone))
        id, following = recurring.schedule_id, recurring.next
    if json_:
        view = {"id": id, "topic": new.topic, "next_run": instant_view(following, zone), "kept_at": PLACE}
        output.print_json(view | {"warnings": when.notes(room)})
        return
    print(f"Added {id} at {PLACE}, which sends it to {clean(new.topic)}")
    print(f"next   {coming(following, zone, room.clock.now())}")
    output.warn(when.notes(room))


def views(room: App, service: NotificationService) -> list[dict[str, Any]]:
    zone = room.scheduler.zone
    listing: Listing = _told(service.scheduled(LOCAL))
    once = [
        {"id": each.message_id, "topic": each.topic, "message": each.body, "paused": False}
        | {"next_run": instant_view(each.at, zone), "cron": None}
        for each in listing.messages
    ]
    recurring = [
        {"id": each.schedule_id, "topic": each.topic, "message": each.body, "paused": each.paused}
        | {"next_run": instant_view(each.next, zone), "cron": each.cron}
        for each in listing.schedules
    ]
    return [*recurring, *once]


def print_list(room: App, service: NotificationService) -> bool:
    """Print the notifications, and return whether there are any."""
    listing: Listing = _told(service.scheduled(LOCAL))
    now = room.clock.now()
    rows: list[list[object]] = [
        [each.schedule_id, _state(each), ahead(each.next, now), each.topic, each.body, each.cron]
        for each in listing.schedules
    ]
    rows += [
        [each.message_id, "pending", ahead(each.at, now), each.topic, each.body, "once"] for each in listing.messages
    ]
    if rows:
        print(f"Kept at {PLACE}:")
        output.table(["ID", "STATUS", "NEXT", "TOPIC", "MESSAGE", "WHEN"], rows, whole=3)
    return bool(rows)


def _state(each: Recurring) -> str:
    return "paused" if each.paused else "pending"


def change(service: NotificationService, verb: str, id: str) -> bool:
    """Change a notification, and return whether it exists there. Cancelling one at the service deletes it."""
    changes = {"pause": service.pause, "resume": service.resume, "cancel": service.delete, "delete": service.delete}
    done = changes[verb](LOCAL, id)
    if isinstance(done, Err) and done.code == "not_found":
        return False
    _told(done)
    return True


def notes_on_failures(room: App) -> list[str]:
    """Return notes for a list of failures about those that cannot be seen from here."""
    if room.remote is None:
        return []
    return [f"Notifications are kept at {PLACE}: what it could not deliver is in its own DLQ, which its console shows."]


def _told(result: Result[Any]) -> Any:
    """Return the value, or raise the error with secrets redacted: a service may quote what it was sent."""
    if isinstance(result, Err):
        raise Refused(Err(result.code, without_secrets(result.message), result.details))
    return taken(result)
