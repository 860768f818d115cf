"""Named channels: what is sent to the topic of that name goes where the operator said."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from duetime.engine.delivery import INBOX, Parcel
from duetime.engine.outcome import Outcome
from duetime.engine.ownership import ONLY_LOCAL
from duetime.engine.topics import is_topic
from duetime.kinds.notifications.channels.apprise import AppriseChannel
from duetime.kinds.notifications.channels.webhook import HttpChannel
from duetime.net.client import Http
from duetime.net.host_limits import Hosts

_WEB = re.compile(r"https?:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    """As it was set. Nothing of it is shown, for addresses, headers and bodies hold credentials."""

    url: str = field(repr=False)
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: str = field(default="", repr=False)
    owners: Collection[str] = ONLY_LOCAL


class Channel(Protocol):
    def deliver(self, parcel: Parcel) -> Outcome: ...

    def problem(self) -> str | None:
        """What is wrong with its settings, in words that show none of them."""


def make_channel(name: str, spec: ChannelSpec, http: Http, hosts: Hosts) -> Channel:
    if _WEB.match(spec.url):
        return HttpChannel(name, spec.url, spec.method, spec.headers, spec.body, http, hosts)
    return AppriseChannel(name, spec.url, hosts)


def problem_of_name(name: str) -> str | None:
    if name == INBOX:
        return f"channels.{name}: this is the name of the built-in inbox; choose another one"
    if not is_topic(name):
        return f"channels.{name}: no topic can have this name; use lowercase letters and digits, joined by hyphens"
    return None
