"""Delivery to real receivers on this machine, without an engine: what a single attempt does."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from duetime.engine.clock import SystemClock
from duetime.engine.outcome import Completed, Outcome
from duetime.kinds.notifications.channels.ntfy import NtfyServer
from duetime.kinds.notifications.channels.router import ChannelRouter
from duetime.kinds.notifications.delivery import OutgoingMessage
from duetime.settings.sections import ChannelSettings

FULL: dict[str, Any] = {
    "message": 'Größe: "5 < 6" & \\ {id}\nWater the plants 🌱',
    "topic": "home",
    "title": "Garden",
    "priority": 4,
    "tags": ["seedling", "water"],
    "markdown": True,
    "click": "https://example.org/garden",
    "actions": [
        {"action": "view", "label": "Open", "url": "https://example.org/open", "clear": True},
        {"action": "http", "label": "Go", "url": "https://example.org/go", "method": "PUT", "headers": {"A": "1"}},
        {"action": "broadcast", "label": "Snooze", "intent": "io.app.SNOOZE", "extras": {"minutes": "5"}},
    ],
    "icon": "https://example.org/icon.png",
    "attach": "https://example.org/plan.pdf",
    "filename": "plan.pdf",
}
"""Every field that a notification may have, with characters that are special in one format or another."""


def outgoing(
    fields: Mapping[str, Any] | None = None, *, id_: str = "msg_1", patience: float = 5.0, **more: Any
) -> OutgoingMessage:
    given = {"message": "hi", "topic": "home", **(fields or {}), **more}
    return OutgoingMessage(id_, given["topic"], given, patience)


@contextmanager
def delivery(
    server: NtfyServer | None = None, channels: Mapping[str, ChannelSettings] | None = None, threads: int = 16
) -> Iterator[ChannelRouter]:
    made = ChannelRouter(SystemClock(), threads, server, channels or {})
    try:
        yield made
    finally:
        made.close()


def told(outcome: Outcome) -> dict[str, Any]:
    """Return the result of a successful delivery."""
    assert isinstance(outcome, Completed), outcome
    said = json.loads(outcome.result or "")
    assert isinstance(said, dict)
    return said


def everything_logged(caplog: pytest.LogCaptureFixture) -> str:
    """Return everything that was logged, at the most verbose level."""
    formatter = logging.Formatter("%(name)s %(message)s %(args)s")
    return "\n".join(formatter.format(record) for record in caplog.records)
