"""Checks of where notifications go: whether what was set can be used. Nothing is sent, and no address is shown."""

from __future__ import annotations

from collections.abc import Iterator

from duetime.cli.checks import Check
from duetime.cli.text import clean
from duetime.core.clock import Clock
from duetime.settings import Settings
from duetime.wiring.delivery import courier_of


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


def _where(settings: Settings) -> str:
    server, names = settings.notifications.server, sorted(settings.channels)
    if not server and not names:
        return "notifications go to the built-in inbox; set notifications.server or a channel to reach a phone"
    rest = "an ntfy server" if server else "the built-in inbox"
    return f"{clean(', '.join(names))}; other topics go to {rest}" if names else f"notifications go to {rest}"
