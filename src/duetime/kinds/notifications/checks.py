"""Checks of the settings for notifications. Nothing is sent, and no address is shown."""

from __future__ import annotations

from collections.abc import Iterator

from duetime.engine.clock import Clock
from duetime.kinds.notifications.build import courier_of
from duetime.settings import Settings
from duetime.settings.sections import INBOX
from duetime.terminal.checks import Check
from duetime.terminal.output import clean


def delivery_checks(settings: Settings, clock: Clock) -> Iterator[Check]:
    courier = courier_of(settings, clock)
    try:
        problems = courier.problems()
    finally:
        courier.close()
    for problem in problems:
        yield Check("fail", "delivery", clean(problem))
    if not problems:
        yield Check("ok", "delivery", _where(settings))
    if warning := alerts_warning(settings):
        yield Check("warn", "alerts", clean(warning))
    elif settings.channels:
        yield Check("ok", "alerts", f"what needs you goes to {clean(place_of_alerts(settings))}")


def place_of_alerts(settings: Settings) -> str:
    topic, server = settings.notifications.alerts, settings.notifications.server
    if topic in settings.channels:
        return topic
    return f"the topic {topic} of the ntfy server" if server and topic != INBOX else "the built-in inbox"


def alerts_warning(settings: Settings) -> str | None:
    """Return a warning if messages reach a person but alerts stay in the inbox, although nobody chose that."""
    topic, names = settings.notifications.alerts, sorted(settings.channels)
    if not names or topic in names or topic == INBOX or settings.notifications.server:
        return None
    return (
        f"what needs you (something failed, or a limit is reached) stays in the built-in inbox;"
        f' alerts = "{names[0]}" below [notifications] sends it there'
    )


def _where(settings: Settings) -> str:
    server, names = settings.notifications.server, sorted(settings.channels)
    if not server and not names:
        return "notifications go to the built-in inbox; set notifications.server or a channel to reach a phone"
    rest = "an ntfy server" if server else "the built-in inbox"
    return f"{clean(', '.join(names))}; other topics go to {rest}" if names else f"notifications go to {rest}"
