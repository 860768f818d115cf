"""Delivers each message by its topic: to a named channel, to an ntfy server, or into the inbox."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from duetime.engine.clock import Clock
from duetime.engine.kind import LOCAL
from duetime.engine.model import is_open_to
from duetime.engine.outcome import Outcome
from duetime.engine.policy.options import ALERTS, is_topic
from duetime.kinds.notifications.channels.apprise import AppriseChannel
from duetime.kinds.notifications.channels.ntfy import Ntfy, NtfyServer, address_of, problem_of, problem_of_topic
from duetime.kinds.notifications.channels.webhook import HttpChannel
from duetime.kinds.notifications.delivery import NTFY, Deliverer, OutgoingMessage
from duetime.net.client import Http
from duetime.net.host_limits import Hosts
from duetime.settings.sections import INBOX, ChannelSettings

# Named channels: messages to the topic of that name go to the address that the operator set.

_WEB = re.compile(r"https?:", re.IGNORECASE)


class Channel(Protocol):
    def deliver(self, outgoing: OutgoingMessage) -> Outcome: ...

    def problem(self) -> str | None:
        """Return what is wrong with its settings, without showing any of them."""


def problem_of_name(name: str) -> str | None:
    if name == INBOX:
        return f"channels.{name}: this is the name of the built-in inbox; choose another one"
    if not is_topic(name):
        return f"channels.{name}: no topic can have this name; use lowercase letters and digits, joined by hyphens"
    return None


class ChannelRouter(Deliverer):
    def __init__(
        self,
        clock: Clock,
        threads: int,
        server: NtfyServer | None,
        channels: Mapping[str, ChannelSettings],
        alerts: str = ALERTS,
    ) -> None:
        """Private addresses are allowed, because the operator set them. `alerts` replaces the default topic of alerts,
        which are created in the store, where channels are unknown."""
        self._http = Http(clock, None, connections=max(32, threads))
        hosts = Hosts(clock, threads)
        self._misnamed: list[str] = []
        self._channels: dict[str, Channel] = {}
        for name, spec in channels.items():
            if (problem := problem_of_name(name)) is not None:
                self._misnamed.append(problem)
            elif _WEB.match(spec.url):
                self._channels[name] = HttpChannel(name, spec, self._http, hosts)
            else:
                self._channels[name] = AppriseChannel(name, spec.url, hosts)
        self._owners = {name: spec.owners for name, spec in channels.items()}
        self._ntfy = None if server is None else Ntfy(server, self._http, hosts)
        self._server, self._alerts = server, alerts

    def deliver(self, outgoing: OutgoingMessage) -> Outcome:
        topic = self._real_topic(outgoing.topic, outgoing.owner)
        _, channel = self._chosen(topic, outgoing.owner)
        return channel.deliver(outgoing._replace(topic=topic))

    def _real_topic(self, topic: str, owner: str) -> str:
        """Return the topic to use. Alerts of an owner who cannot use their channel stay on the default topic."""
        if topic != ALERTS or (self._alerts in self._channels and not self._is_there(self._alerts, owner)):
            return topic
        return self._alerts

    def _is_there(self, channel: str, owner: str) -> bool:
        return channel in self._channels and is_open_to(self._owners[channel], owner)

    def _chosen(self, topic: str, owner: str) -> tuple[str, Channel | Deliverer]:
        """Return the name of the channel, and the channel."""
        if self._is_there(topic, owner):
            return topic, self._channels[topic]
        return (INBOX, Deliverer()) if topic == INBOX or self._ntfy is None else (NTFY, self._ntfy)

    def channel_of(self, topic: str, owner: str = LOCAL) -> str:
        name, _ = self._chosen(self._real_topic(topic, owner), owner)
        return name

    def address_of(self, topic: str, owner: str = LOCAL) -> str:
        if owner == LOCAL or self._server is None or self.channel_of(topic, owner) != NTFY:
            return ""
        return address_of(self._server, self._real_topic(topic, owner), owner)

    def problems(self) -> list[str]:
        """Return what is wrong with the settings. This also loads what a delivery needs, so that the first one is
        fast."""
        self._http.open()
        channels = [*self._channels.values(), *([] if self._ntfy is None else [self._ntfy])]
        problems = [problem for channel in channels if (problem := channel.problem()) is not None]
        alerts = None
        if self._server is not None and self.channel_of(ALERTS) == NTFY and problem_of(self._server) is None:
            alerts = problem_of_topic(self._server, self._alerts)
        return [*self._misnamed, *problems, *([] if alerts is None else [f"notifications.alerts: {alerts}"])]

    def close(self) -> None:
        self._http.close()
