"""Delivers each message by its topic: to a named channel, to an ntfy server, or into the inbox."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from duetime.engine.clock import Clock
from duetime.engine.kind import LOCAL
from duetime.engine.outcome import Failed, Outcome
from duetime.engine.policy.options import ALERTS, is_topic
from duetime.kinds.notifications.channels.apprise import AppriseChannel
from duetime.kinds.notifications.channels.ntfy import Ntfy, NtfyServer, address_of, problem_of, problem_of_topic
from duetime.kinds.notifications.channels.webhook import HttpChannel
from duetime.kinds.notifications.delivery import Deliverer, Destinations, NamedChannel, OutgoingMessage
from duetime.net.client import Http
from duetime.net.host_limits import Hosts
from duetime.settings.sections import INBOX, ChannelSettings

# Named channels: messages to the topic of that name go to the address that the operator set.

_WEB = re.compile(r"https?:", re.IGNORECASE)


class Channel(Protocol):
    def deliver(self, outgoing: OutgoingMessage) -> Outcome:
        """Make one attempt. A channel with a `problem` is never asked."""

    @property
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
        usable = {name: NamedChannel("", channels[name].owners) for name in self._channels}
        self.places = Destinations(ntfy=server is not None, channels=usable, alerts=alerts)
        self._ntfy = None if server is None else Ntfy(server, self._http, hosts)
        self._server = server

    def deliver(self, outgoing: OutgoingMessage) -> Outcome:
        topic = self.places.real_topic(outgoing.topic, outgoing.owner)
        channel = self._channels[topic] if self.places.is_open(topic, outgoing.owner) else self._ntfy
        if channel is None or topic == INBOX:
            return super().deliver(outgoing)
        if channel.problem is not None:
            return Failed(channel.problem, permanent=True)
        return channel.deliver(outgoing._replace(topic=topic))

    def address_of(self, topic: str, owner: str = LOCAL) -> str:
        if owner == LOCAL or self._server is None or not self.places.is_on_ntfy(topic, owner):
            return ""
        return address_of(self._server, self.places.real_topic(topic, owner), owner)

    def problems(self) -> list[str]:
        """Return what is wrong with the settings. This also loads what a delivery needs, so that the first one is
        fast."""
        self._http.open()
        channels = [*self._channels.values(), *([] if self._ntfy is None else [self._ntfy])]
        problems = [channel.problem for channel in channels if channel.problem is not None]
        alerts = None
        if self._server is not None and self.places.is_on_ntfy(ALERTS, LOCAL) and problem_of(self._server) is None:
            alerts = problem_of_topic(self._server, self.places.alerts)
        return [*self._misnamed, *problems, *([] if alerts is None else [f"notifications.alerts: {alerts}"])]

    def close(self) -> None:
        self._http.close()
