"""Named channels: messages to the topic of that name go to the address that the operator set."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from duetime.engine.model import ONLY_LOCAL
from duetime.engine.outcome import Outcome
from duetime.engine.topics import is_topic
from duetime.kinds.notifications.channels.apprise import AppriseChannel
from duetime.kinds.notifications.channels.webhook import HttpChannel
from duetime.kinds.notifications.delivery import Parcel
from duetime.net.client import Http
from duetime.net.host_limits import Hosts
from duetime.settings.sections import INBOX

_WEB = re.compile(r"https?:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    """Settings of a channel. `repr` hides addresses, headers and bodies, because they hold credentials."""

    url: str = field(repr=False)
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: str = field(default="", repr=False)
    owners: Collection[str] = ONLY_LOCAL


class Channel(Protocol):
    def deliver(self, parcel: Parcel) -> Outcome: ...

    def problem(self) -> str | None:
        """Return what is wrong with its settings, without showing any of them."""


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
