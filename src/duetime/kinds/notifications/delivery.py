"""Delivery of messages: its interface, the built-in inbox, and the messenger of the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from duetime.engine.clock import MINUTE
from duetime.engine.model import LOCAL
from duetime.engine.outcome import Completed, Outcome, Returned
from duetime.engine.policy.follow_ups import Messenger
from duetime.engine.policy.rows import Message
from duetime.kinds.notifications.destinations import Destinations
from duetime.settings.sections import INBOX

ATTEMPTS = 10
"""Default number of delivery attempts: with the default backoff they take about an hour and a half."""

LONGEST = 4000
"""Maximum characters of a result or an error that a message quotes; a channel may cut it further."""
ELSEWHERE_WAIT = 1 * MINUTE
"""Delay before a message is tried again whose channel this process does not have: a server has it."""


class OutgoingMessage(NamedTuple):
    """A message to deliver. Its id is the same on every attempt, so that a receiver can detect duplicates."""

    id: str
    topic: str
    fields: Mapping[str, Any]
    """The validated payload: message, and optionally title, priority, tags and so on."""
    patience: float
    """Seconds that this attempt may take."""
    owner: str = LOCAL
    """The message's owner: channels that are set up for other owners do not exist for it."""
    once: bool = False
    """True if it must never reach the receiver twice."""


class Delivery:
    """Delivers messages. This one delivers all of them to the built-in inbox; `channels.router` has the other."""

    def deliver(self, outgoing: OutgoingMessage) -> Outcome:
        """Make one attempt, in a thread of the pool. Completed means that the receiver accepted the message; its result
        has `channel` and, if known, the receiver's id as `receipt`. Never raises for network or receiver errors."""
        return Completed(json.dumps({"channel": INBOX}))

    def channel_of(self, topic: str, owner: str = LOCAL) -> str:
        """Return the name of the channel for an owner's messages on a topic, such as `ntfy` or `inbox`."""
        return INBOX

    def address_of(self, topic: str, owner: str = LOCAL) -> str:
        """Return what an owner subscribes to in order to hear a topic, if that is not the topic itself; else empty."""
        return ""

    def problems(self) -> list[str]:
        """Return configuration problems, safe to show. May take a second, because it looks for installed packages."""
        return []

    def close(self) -> None:
        """Close connections. The inbox has none, because it is the store."""


class Inbox(Delivery):
    """Accepts every message: once recorded, a message has arrived, and `duetime inbox` shows it."""


def _payload(message: Message) -> dict[str, Any]:
    text = message.text
    return {
        "message": text if len(text) <= LONGEST else f"{text[:LONGEST]} …",
        "topic": message.topic,
        "title": message.title,
        "tags": ["white_check_mark" if message.went_well else "rotating_light", *message.tags],
        "priority": 3 if message.went_well else 4,
    }


MESSENGER = Messenger("notification", _payload, {"max_attempts": ATTEMPTS})
"""Sends what the engine has to tell an owner as a notification."""


def outcome_of(result: Mapping[str, Any]) -> str | None:
    """Return where a message went, from the result of its run."""
    channel, topic = result.get("channel"), result.get("topic")
    if not isinstance(channel, str) or not isinstance(topic, str):
        return None
    return f"Kept in the inbox, topic {topic}" if channel == INBOX else f"Sent to {topic} by {channel}"


class ServerDelivery(Delivery):
    """Delivers in a process whose settings are not the server's: only what both would deliver in the same way."""

    def __init__(self, own: Delivery, places: Destinations) -> None:
        """`own` delivers by the settings of this process; `places` is what the server published."""
        self._own, self._places = own, places

    def deliver(self, outgoing: OutgoingMessage) -> Outcome:
        """Deliver a message, or give it back: in the inbox of this process it would reach nobody's phone."""
        channel = self.channel_of(outgoing.topic, outgoing.owner)
        if channel == INBOX:
            return super().deliver(outgoing)
        if self._own.channel_of(outgoing.topic, outgoing.owner) == channel:
            return self._own.deliver(outgoing)
        reason = f"the channel {channel} is not in the settings of this process; it waits until the server delivers it"
        return Returned(reason, ELSEWHERE_WAIT)

    def channel_of(self, topic: str, owner: str = LOCAL) -> str:
        return self._places.channel_of(topic, owner)

    def address_of(self, topic: str, owner: str = LOCAL) -> str:
        return self._own.address_of(topic, owner)

    def problems(self) -> list[str]:
        return self._own.problems()

    def close(self) -> None:
        self._own.close()
