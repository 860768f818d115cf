"""Delivery of messages: their destinations, the interface, the built-in inbox, and the engine's messenger."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from duetime.engine.clock import MINUTE
from duetime.engine.model import LOCAL, is_open_to
from duetime.engine.outcome import Completed, Outcome, Returned
from duetime.engine.policy.follow_ups import Messenger
from duetime.engine.policy.options import ALERTS, is_topic
from duetime.engine.policy.rows import OwnerMessage
from duetime.engine.value_class import NamedTuple, dataclass
from duetime.settings import Settings
from duetime.settings.sections import INBOX
from duetime.settings.sections import LOCAL as LOCAL_BACKEND

NTFY = "ntfy"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]{0,30})://", re.IGNORECASE)


class NamedChannel(NamedTuple):
    type: str
    owners: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Destinations:
    topic: str = ""
    """The topic of notifications that name none; empty means that they must name one."""
    ntfy: bool = False
    """Whether topics that are not a channel go to an ntfy server."""
    channels: Mapping[str, NamedChannel] = field(default_factory=dict)
    alerts: str = ""
    """Where alerts that need a person go; empty means the default topic."""
    backend: str = LOCAL_BACKEND
    """Who keeps notifications: this store, or QStash."""

    @property
    def inbox_chosen(self) -> bool:
        """Return whether the operator chose the built-in inbox for notifications."""
        return self.topic == INBOX

    def is_open(self, name: str, owner: str) -> bool:
        """Return whether a channel of this name was set up for an owner."""
        channel = self.channels.get(name)
        return channel is not None and is_open_to(channel.owners, owner)

    def names(self, owner: str) -> set[str]:
        """Return the names of the channels that were set up for an owner."""
        return {name for name in self.channels if self.is_open(name, owner)}

    def described(self, owner: str) -> list[dict[str, str]]:
        """Return the names and types of what an owner may use; other settings are not shown."""
        built_in, names = [INBOX, NTFY] if self.ntfy else [INBOX], self.names(owner)
        channels = [{"name": name, "type": each.type} for name, each in self.channels.items() if name in names]
        return [*({"name": name, "type": name} for name in built_in), *channels]

    def default_topic(self, owner: str) -> str:
        """Return the default topic of an owner. A channel that is closed to the owner does not exist for them."""
        return "" if self.topic in self.channels and not self.is_open(self.topic, owner) else self.topic

    def real_topic(self, topic: str, owner: str) -> str:
        """Return the topic to use. Alerts of an owner who cannot use their channel stay on the default topic."""
        if topic != ALERTS:
            return topic
        alerts = topic_of_alerts(self.alerts, self.topic)
        return topic if alerts in self.channels and not self.is_open(alerts, owner) else alerts

    def channel_of(self, topic: str, owner: str) -> str:
        """Return the name of the channel for an owner's messages on a topic, such as `ntfy` or `inbox`."""
        if self.is_on_ntfy(topic, owner):
            return NTFY
        topic = self.real_topic(topic, owner)
        return topic if self.is_open(topic, owner) else INBOX

    def is_on_ntfy(self, topic: str, owner: str) -> bool:
        """Return whether the ntfy server gets an owner's messages on a topic; a channel may have its name, too."""
        topic = self.real_topic(topic, owner)
        return self.ntfy and topic != INBOX and not self.is_open(topic, owner)

    def published(self) -> dict[str, Any]:
        channels = [{"name": name, "type": each.type, "owners": each.owners} for name, each in self.channels.items()]
        named = {"topic": self.topic, "alerts": self.alerts, "backend": self.backend}
        return {**named, "ntfy": self.ntfy, "channels": channels}

    def differing(self, server: Destinations) -> list[str]:
        """Return the settings that have a value here and a different one at the server."""
        differences = {
            "notifications.topic": self.topic not in ("", server.topic),
            "notifications.alerts": self.alerts not in ("", server.alerts),
            "notifications.server": self.ntfy and not server.ntfy,
            "notifications.backend": self.backend != server.backend,
            "channels": any(server.channels.get(name) != each for name, each in self.channels.items()),
        }
        return [name for name, is_different in differences.items() if is_different]


def topic_of_alerts(alerts: str, default: str) -> str:
    """Return where alerts go: where the setting leads or, if it is empty, to the default topic if there is one."""
    return alerts or default or ALERTS


NO_DESTINATIONS = Destinations()


def destinations_of(settings: Settings) -> Destinations:
    section = settings.notifications
    channels = {name: NamedChannel(_type(each.url), each.owners) for name, each in settings.channels.items()}
    return Destinations(section.topic, bool(section.server), channels, section.alerts, section.backend)


def read_destinations(published: Mapping[str, Any]) -> Destinations | None:
    """Return what a server published; None if there is nothing, or in an unknown format."""
    try:
        channels = {
            str(each["name"]): NamedChannel(str(each["type"]), tuple(map(str, each["owners"])))
            for each in published["channels"]
        }
        topic, alerts = str(published["topic"]), str(published["alerts"])
        destinations = Destinations(topic, bool(published["ntfy"]), channels, alerts, str(published["backend"]))
    except (KeyError, TypeError):
        return None
    return destinations if all(is_topic(each) for each in (*channels, topic or INBOX, alerts or INBOX)) else None


def _type(url: str) -> str:
    """Return the scheme, which names the service; any other part of the URL may be a credential."""
    scheme = _SCHEME.match(url)
    return "unknown" if scheme is None else scheme[1].lower()


ATTEMPTS = 10
"""Default number of delivery attempts: with the default backoff they take about an hour and a half."""

LONGEST = 4000
"""Maximum characters of a result or an error that a message quotes; a channel may cut it further."""
ELSEWHERE_WAIT = 1 * MINUTE
"""Delay before a message whose channel this process does not have is tried again, because a server has the channel."""


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


class Deliverer:
    """Delivers messages. This class delivers all of them to the built-in inbox: once it is recorded, a message has
    arrived, and `duetime inbox` shows it. `channels.router` has the other one."""

    places: Destinations = NO_DESTINATIONS
    """Decides where a message goes by its topic. It need not have the default topic, because each message has one."""

    def deliver(self, outgoing: OutgoingMessage) -> Outcome:
        """Make one attempt, in a thread of the pool. Completed means that the receiver accepted the message; its result
        has `channel` and, if known, the receiver's id as `receipt`. Never raises for network or receiver errors."""
        return Completed(json.dumps({"channel": INBOX}))

    def channel_of(self, topic: str, owner: str = LOCAL) -> str:
        """Return the name of the channel for an owner's messages on a topic."""
        return self.places.channel_of(topic, owner)

    def address_of(self, topic: str, owner: str = LOCAL) -> str:
        """Return the address to which an owner subscribes for a topic, if that is not the topic itself; otherwise
        empty."""
        return ""

    def problems(self) -> list[str]:
        """Return configuration problems that are safe to show. This may take a second, because it searches for
        installed packages."""
        return []

    def close(self) -> None:
        """Close connections. The inbox has none, because it is the store."""


def _payload(message: OwnerMessage) -> dict[str, Any]:
    text = message.text
    return {
        "message": text if len(text) <= LONGEST else f"{text[:LONGEST]} …",
        "topic": message.topic,
        "title": message.title,
        "tags": ["white_check_mark" if message.went_well else "rotating_light", *message.tags],
        "priority": 3 if message.went_well else 4,
    }


MESSENGER = Messenger("notification", _payload, {"max_attempts": ATTEMPTS})
"""Sends the engine's messages to owners as notifications."""


def outcome_of(result: Mapping[str, Any]) -> str | None:
    """Return where a message was delivered, from the result of its run."""
    channel, topic = result.get("channel"), result.get("topic")
    if not isinstance(channel, str) or not isinstance(topic, str):
        return None
    return f"Kept in the inbox, topic {topic}" if channel == INBOX else f"Sent to {topic} by {channel}"


class ServerDelivery(Deliverer):
    """Delivers in a process whose settings differ from the server's: only what both would deliver in the same way."""

    def __init__(self, own: Deliverer, places: Destinations) -> None:
        """`own` delivers by the settings of this process; `places` is what the server published."""
        self._own, self.places = own, places

    def deliver(self, outgoing: OutgoingMessage) -> Outcome:
        """Deliver a message, or give it back, because in the inbox of this process it would reach nobody's phone."""
        topic, owner = self.places.real_topic(outgoing.topic, outgoing.owner), outgoing.owner
        channel, own = self.channel_of(topic, owner), self._own.places
        if channel == INBOX:
            return super().deliver(outgoing)
        if own.channel_of(topic, owner) == channel and own.is_on_ntfy(topic, owner) == self.places.is_on_ntfy(
            topic, owner
        ):
            return self._own.deliver(outgoing._replace(topic=topic))
        reason = f"the channel {channel} is not in the settings of this process; it waits until the server delivers it"
        return Returned(reason, ELSEWHERE_WAIT)

    def address_of(self, topic: str, owner: str = LOCAL) -> str:
        return self._own.address_of(topic, owner)

    def problems(self) -> list[str]:
        return self._own.problems()

    def close(self) -> None:
        self._own.close()
