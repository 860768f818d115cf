"""Builds the notification kind (delivery, service, channels), and writes notes about other owners' notifications."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

from duetime.engine.clock import Clock
from duetime.engine.errors import DuetimeError
from duetime.engine.kind import LOCAL
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import ScheduleQuery
from duetime.kinds.notifications.delivery import (
    Deliverer,
    Destinations,
    ServerDelivery,
    destinations_of,
    read_destinations,
    topic_of_alerts,
)
from duetime.kinds.notifications.kind import NotificationKind
from duetime.kinds.notifications.local import LocalNotifications
from duetime.kinds.notifications.service import KIND, NotificationService
from duetime.service.kind_spec import BuildContext
from duetime.service.services import OPERATOR
from duetime.settings import Settings
from duetime.settings.sections import INBOX, QSTASH

log = logging.getLogger("duetime.delivery")


def build(context: BuildContext) -> NotificationKind:
    own, delivery = destinations_of(context.settings), delivery_of(context.settings, context.clock)
    places = read_destinations(context.published.get(KIND, {})) or own
    if places != own:
        delivery = ServerDelivery(delivery, places)
    return NotificationKind(
        delivery,
        lambda: notification_service(context.settings, context.scheduler(), delivery, places),
        places,
        own.differing(places),
    )


def notification_service(
    settings: Settings, scheduler: Scheduler, delivery: Deliverer, places: Destinations
) -> NotificationService:
    """Return the service that keeps notifications: this store, or QStash if the settings choose it.

    `QSTASH_TOKEN` and `QSTASH_URL`, the variables of QStash's own tools, are used where the settings give no value.
    """
    section = settings.notifications
    if section.backend != QSTASH:
        return LocalNotifications(scheduler, delivery=delivery, places=places)
    from duetime.kinds.notifications.channels.ntfy import NtfyServer
    from duetime.kinds.notifications.qstash.client import Account
    from duetime.kinds.notifications.qstash.service import QStashNotifications

    token = section.qstash_token or os.environ.get("QSTASH_TOKEN", "")
    account = Account(token, section.qstash_url or os.environ.get("QSTASH_URL", ""))
    server = NtfyServer(section.server, section.prefix, section.token)
    service = QStashNotifications(scheduler, account, server, places.names)
    if service.problem is not None:
        log.error("%s; no notification can be created until this is fixed", service.problem)
    return service


def delivery_of(settings: Settings, clock: Clock) -> Deliverer:
    """Return the delivery of messages. If nothing is set up, nothing has to be imported."""
    section = settings.notifications
    if not section.server and not settings.channels:
        return Deliverer()
    from duetime.kinds.notifications.channels.ntfy import NtfyServer
    from duetime.kinds.notifications.channels.router import ChannelRouter

    server = NtfyServer(section.server, section.prefix, section.token) if section.server else None
    alerts = topic_of_alerts(section.alerts, section.topic)
    return ChannelRouter(clock, settings.threads, server, settings.channels, alerts)


# Notifications of owners other than `local`, who have separate topics and cannot use every channel.

LOOKED_AT = 1000
"""Number of notifications that are examined: enough to notice other owners, and still fast."""
_SHOWN = 5


def others(scheduler: Scheduler) -> list[tuple[str, str]]:
    """Return owner and topic of the notifications that may still fire and do not belong to `local`."""
    query = ScheduleQuery(kind=KIND, status="living", limit=LOOKED_AT, newest_first=True, count_to=0)
    try:
        notifications = scheduler.search(OPERATOR, query).items
    except DuetimeError:
        return []
    seen = {(each.definition.owner, each.definition.subject) for each in notifications}
    return sorted((owner, topic) for owner, topic in seen if owner != LOCAL)


def notes_for_others(
    scheduler: Scheduler, settings: Settings, delivery: Deliverer, *, addresses: bool
) -> Iterator[str]:
    """Yield a sentence about everything that other owners have to be told. Logs leave out `addresses`, because whoever
    knows an address on a public server can read what is sent there."""
    if not settings.channels and not settings.notifications.server:
        return
    topics = others(scheduler)
    own = [(address, owner) for owner, topic in topics if (address := delivery.address_of(topic, owner))]
    if own:
        listed = ", ".join(f"{address} ({owner})" for address, owner in own[:_SHOWN])
        listed += "" if len(own) <= _SHOWN else f" and {len(own) - _SHOWN} more"
        yield (
            "owners other than local have topics of their own on the ntfy server, to which their phones have to "
            f"subscribe: {listed if addresses else '`duetime doctor` shows them'}"
        )
        if not settings.notifications.prefix:
            yield (
                "anyone who knows the name of an owner can compute these topics, and read and write there on the ntfy "
                "server: set notifications.prefix to a long random text. The topics then change, so have the owners "
                "subscribe again"
            )
    places = destinations_of(settings)
    closed = [f"{topic} ({owner})" for owner, topic in topics if topic in places.channels.keys() - places.names(owner)]
    if closed:
        named = ", ".join(closed[:_SHOWN])
        yield (
            f"notifications of other owners name channels that are not open to them: {named}; add these owners to "
            "`owners` of the channel, or have them choose another topic"
        )


# Where alerts go.


def place_of_alerts(settings: Settings) -> str:
    section = settings.notifications
    topic, server = topic_of_alerts(section.alerts, section.topic), section.server
    if topic in settings.channels:
        return topic
    return f"the topic {topic} of the ntfy server" if server and topic != INBOX else "the built-in inbox"


def alerts_warning(settings: Settings) -> str | None:
    """Return a warning if messages reach a person but alerts stay in the inbox, although nobody chose that."""
    section, names = settings.notifications, sorted(settings.channels)
    topic = topic_of_alerts(section.alerts, section.topic)
    if not names or topic in names or topic == INBOX or section.server:
        return None
    return (
        f"alerts (something failed, or a limit is reached) stay in the built-in inbox; to send them to {names[0]}:"
        f" duetime config set notifications.alerts {names[0]}"
    )
