"""Checks of the settings of notifications and their channels."""

from __future__ import annotations

from collections.abc import Iterator

from duetime.engine.policy.options import is_topic
from duetime.settings import Settings
from duetime.settings.kind_settings import KindSettings
from duetime.settings.sections import LOCAL, NO_OWNER, QSTASH


def _problems(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings.notifications.backend not in (LOCAL, QSTASH):
        yield "notifications", f"notifications.backend must be {LOCAL} or {QSTASH}"
    if not is_topic(settings.notifications.alerts):
        message = "must be the name of a channel, a topic such as home-alerts, or inbox"
        yield "notifications", f"notifications.alerts {message}"
    if settings.notifications.topic and not is_topic(settings.notifications.topic):
        message = "must be a topic such as reminders, the name of a channel, or inbox"
        yield "notifications", f"notifications.topic {message}"
    for name, channel in settings.channels.items():
        if not channel.owners:
            yield "channels", f"channels.{name}{NO_OWNER}"


SETTINGS = KindSettings(_problems)
