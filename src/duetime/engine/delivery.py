"""What has to be delivered, and what carries it: the words that notifications and deliverers share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from duetime.engine.outcome import Completed, Outcome
from duetime.engine.ownership import LOCAL

NOTIFICATION = "notification"
"""The kind that reaches a person."""
INBOX = "inbox"
"""The channel that needs no network: what is kept in the store itself."""


ATTEMPTS = 10
"""Of a delivery, unless its maker says otherwise: with the usual backoff they take about an hour and a half."""

ALERTS = "duetime-alerts"
"""The topic on which an owner hears what needs a person, where a schedule names none itself."""


class Parcel(NamedTuple):
    """One message on its way. Its id is the same on every attempt, so that a receiver can tell."""

    id: str
    topic: str
    fields: Mapping[str, Any]
    """The checked payload: message, and what else was given of title, priority, tags and so on."""
    patience: float
    """Seconds that this attempt may take."""
    owner: str = LOCAL
    """Whose message it is: what is set up for others does not exist for it."""


class Courier(Protocol):
    def deliver(self, parcel: Parcel) -> Outcome:
        """One attempt, in a thread of the pool. Completed means that the receiver took it, and says what is known of
        that: `channel`, and the receiver's own id as `receipt`. Never raises for what a network or a receiver does."""

    def channel_of(self, topic: str, owner: str = LOCAL) -> str:
        """Where an owner's messages on a topic go: the name of a channel, `ntfy` or `inbox`."""

    def address_of(self, topic: str, owner: str = LOCAL) -> str:
        """What an owner subscribes to in order to hear a topic, where that is not the topic itself; else empty."""

    def problems(self) -> list[str]:
        """What is wrong with how it was set up, fit to be shown. May take a second: packages are looked for."""

    def close(self) -> None: ...


class Inbox:
    """Takes everything, for a message that is recorded has arrived: `duetime inbox` shows what was."""

    def deliver(self, parcel: Parcel) -> Outcome:
        return Completed(json.dumps({"channel": INBOX}))

    def channel_of(self, topic: str, owner: str = LOCAL) -> str:
        return INBOX

    def address_of(self, topic: str, owner: str = LOCAL) -> str:
        return ""

    def problems(self) -> list[str]:
        return []

    def close(self) -> None:
        """Nothing is open: the inbox is the store."""
