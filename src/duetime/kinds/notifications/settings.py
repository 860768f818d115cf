"""Checks of the settings of notifications and their channels."""

from __future__ import annotations

from collections.abc import Iterator

from duetime.engine.policy.options import is_tag, is_topic
from duetime.settings import PREFIX, Settings
from duetime.settings.kind_settings import KindSettings
from duetime.settings.sections import LOCAL, NO_OWNER, QSTASH

_CREDENTIALS = frozenset((f"{PREFIX}NOTIFICATIONS_TOKEN", f"{PREFIX}NOTIFICATIONS_QSTASH_TOKEN"))


def _problems(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings.notifications.backend not in (LOCAL, QSTASH):
        yield "notifications", f"notifications.backend must be {LOCAL} or {QSTASH}"
    if settings.notifications.alerts and not is_topic(settings.notifications.alerts):
        message = "must be the name of a channel, a topic such as home-alerts, or inbox"
        yield "notifications", f"notifications.alerts {message}"
    for tag, topic in settings.notifications.alerts_by_tag.items():
        if not (is_tag(tag) and is_topic(topic)):
            message = 'gives the topic of a tag, such as backup = "ops", the name of a channel, or inbox'
            yield "notifications", f"notifications.alerts_by_tag {message}"
    if settings.notifications.topic and not is_topic(settings.notifications.topic):
        message = "must be a topic such as reminders, the name of a channel, or inbox"
        yield "notifications", f"notifications.topic {message}"
    for name, channel in settings.channels.items():
        if not channel.owners:
            yield "channels", f"channels.{name}{NO_OWNER}"


def _needs_variable(settings: Settings, name: str) -> bool | None:
    """Return whether a server needs a credential for delivery: they stay with the worker, unless QStash keeps the
    notifications, which the server then creates there."""
    is_for_delivery = name in _CREDENTIALS or name.startswith("QSTASH_")
    return settings.notifications.backend == QSTASH if is_for_delivery else None


SETTINGS = KindSettings(_problems, _needs_variable)
