"""Brings each message where its topic says: to a named channel, to an ntfy server, or into the inbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from duetime.core.clock import Clock
from duetime.core.delivering import INBOX, Inbox, Parcel
from duetime.core.outcome import Outcome
from duetime.delivery.channels.named import Channel, ChannelSpec, make_channel, problem_of_name
from duetime.delivery.hosts import Hosts
from duetime.delivery.http import Http
from duetime.delivery.ntfy import NTFY, Ntfy, NtfyServer

Carrier: TypeAlias = Channel | Ntfy | Inbox


class RoutingCourier:
    def __init__(
        self, clock: Clock, threads: int, server: NtfyServer | None, channels: Mapping[str, ChannelSpec]
    ) -> None:
        """Its addresses are the operator's, so they may be private."""
        self._http = Http(clock, None, connections=max(32, threads))
        hosts = Hosts(clock, threads)
        self._misnamed = [problem for name in channels if (problem := problem_of_name(name)) is not None]
        self._channels = {
            name: make_channel(name, spec, self._http, hosts)
            for name, spec in channels.items()
            if problem_of_name(name) is None
        }
        self._ntfy = None if server is None else Ntfy(server, self._http, hosts)
        self._inbox = Inbox()

    def deliver(self, parcel: Parcel) -> Outcome:
        return self._carrier(parcel.topic).deliver(parcel)

    def _carrier(self, topic: str) -> Carrier:
        if topic in self._channels:
            return self._channels[topic]
        return self._inbox if topic == INBOX or self._ntfy is None else self._ntfy

    def channel_of(self, topic: str) -> str:
        if topic in self._channels:
            return topic
        return INBOX if topic == INBOX or self._ntfy is None else NTFY

    def problems(self) -> list[str]:
        """Loads what a delivery needs as well, so that the first one does not spend its time on it."""
        self._http.open()
        carriers = [*self._channels.values(), *([] if self._ntfy is None else [self._ntfy])]
        found = [problem for carrier in carriers if (problem := carrier.problem()) is not None]
        return [*self._misnamed, *found]

    def close(self) -> None:
        self._http.close()
