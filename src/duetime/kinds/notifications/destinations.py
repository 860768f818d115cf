"""Destinations of notifications: the default topic, channels by name and type, and who may use them. No address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from duetime.engine.model import is_open_to
from duetime.engine.policy.options import ALERTS, is_topic
from duetime.settings import Settings
from duetime.settings.sections import INBOX, LOCAL

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
    """Whether topics that are no channel go to an ntfy server."""
    channels: Mapping[str, NamedChannel] = field(default_factory=dict)
    alerts: str = ALERTS
    """Where what needs a person goes."""
    backend: str = LOCAL
    """Who keeps notifications: this store, or QStash."""

    @property
    def inbox_chosen(self) -> bool:
        """Return whether the operator said that notifications go to the built-in inbox."""
        return self.topic == INBOX

    def names(self, owner: str) -> set[str]:
        """Return the names of the channels that were set up for an owner."""
        return {name for name, each in self.channels.items() if is_open_to(each.owners, owner)}

    def described(self, owner: str) -> list[dict[str, str]]:
        """Return the names and types of what an owner may use; other settings are not shown."""
        found = [{"name": INBOX, "type": INBOX}, *([{"name": NTFY, "type": NTFY}] if self.ntfy else [])]
        found += [{"name": name, "type": each.type} for name, each in self.channels.items()]
        closed = self.channels.keys() - self.names(owner)
        return [each for each in found if each["name"] not in closed]

    def default_topic(self, owner: str) -> str:
        """Return the default topic of an owner. A channel that is closed to the owner does not exist for them."""
        return "" if self.topic in self.channels.keys() - self.names(owner) else self.topic

    def channel_of(self, topic: str, owner: str) -> str:
        """Return the name of the channel for an owner's messages on a topic."""
        meant = (
            self.alerts if topic == ALERTS and self.alerts not in self.channels.keys() - self.names(owner) else topic
        )
        if meant in self.names(owner):
            return meant
        return NTFY if self.ntfy and meant != INBOX else INBOX

    def published(self) -> dict[str, Any]:
        channels = [{"name": name, "type": each.type, "owners": each.owners} for name, each in self.channels.items()]
        named = {"topic": self.topic, "alerts": self.alerts, "backend": self.backend}
        return {**named, "ntfy": self.ntfy, "channels": channels}

    def differing(self, server: Destinations) -> list[str]:
        """Return the settings that say something here, and something else at the server."""
        names = []
        if self.topic not in ("", server.topic):
            names.append("notifications.topic")
        if self.alerts not in (ALERTS, server.alerts):
            names.append("notifications.alerts")
        if self.ntfy and not server.ntfy:
            names.append("notifications.server")
        if self.backend != server.backend:
            names.append("notifications.backend")
        same = all(server.channels.get(name) == each for name, each in self.channels.items())
        return names if same else [*names, "channels"]


NO_DESTINATIONS = Destinations()


def destinations_of(settings: Settings) -> Destinations:
    given = settings.notifications
    channels = {name: NamedChannel(_type(each.url), each.owners) for name, each in settings.channels.items()}
    return Destinations(given.topic, bool(given.server), channels, given.alerts, given.backend)


def read_destinations(published: Mapping[str, Any]) -> Destinations | None:
    """Return what a server published; None if that is nothing, or in no form that is understood."""
    try:
        channels = {
            str(each["name"]): NamedChannel(str(each["type"]), tuple(map(str, each["owners"])))
            for each in published["channels"]
        }
        topic, alerts = str(published["topic"]), str(published["alerts"])
        found = Destinations(topic, bool(published["ntfy"]), channels, alerts, str(published["backend"]))
    except (KeyError, TypeError):
        return None
    return found if all(is_topic(each) for each in (*channels, alerts, topic or alerts)) else None


def _type(url: str) -> str:
    """Return the scheme, which names the service; any other part of the URL may be a credential."""
    scheme = _SCHEME.match(url)
    return "unknown" if scheme is None else scheme[1].lower()
