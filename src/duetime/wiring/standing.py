"""Which agents and channels there are, by name and type alone: whatever else is set for them stays in the settings."""

from __future__ import annotations

import re

from duetime.core.delivering import INBOX as NO_CHANNEL
from duetime.core.ownership import EVERYBODY, is_open_to
from duetime.core.waking import HEARTBEAT, INBOX
from duetime.settings import Settings
from duetime.wiring.agents import owners_of_agents, woken_agents

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]{0,30})://", re.IGNORECASE)
Named = dict[str, str]


def agents_for(settings: Settings, owner: str) -> list[Named]:
    """Return the agents that there are for an owner."""
    owners = owners_of_agents(settings)
    return [each for each in named_agents(settings) if is_open_to(owners.get(each["name"], (EVERYBODY,)), owner)]


def channels_for(settings: Settings, owner: str) -> list[Named]:
    """Return the channels that there are for an owner."""
    closed = settings.channels.keys() - channel_names(settings, owner)
    return [each for each in named_channels(settings) if each["name"] not in closed]


def channel_names(settings: Settings, owner: str) -> set[str]:
    """Return the names of the channels that were set up for an owner."""
    return {name for name, each in settings.channels.items() if is_open_to(each.owners, owner)}


def named_agents(settings: Settings) -> list[Named]:
    """The inbox is always there; a preset is the name of a known program, and so a command."""
    made = [
        {"name": name, "type": each.type or ("command" if each.preset or each.command else "unknown")}
        for name, each in {**settings.agents, **woken_agents(settings)}.items()
    ]
    beat = [{"name": HEARTBEAT, "type": HEARTBEAT}] if settings.heartbeat.every else []
    return [{"name": INBOX, "type": INBOX}, *(each for each in made if each["name"] != INBOX), *beat]


def named_channels(settings: Settings) -> list[Named]:
    made = [{"name": name, "type": _type(each.url)} for name, each in settings.channels.items()]
    server = [{"name": "ntfy", "type": "ntfy"}] if settings.notifications.server else []
    return [{"name": NO_CHANNEL, "type": NO_CHANNEL}, *server, *made]


def _type(url: str) -> str:
    """The scheme, which is the name of a service; anything else of an address may be a credential."""
    match = _SCHEME.match(url)
    return "unknown" if match is None else match[1].lower()
