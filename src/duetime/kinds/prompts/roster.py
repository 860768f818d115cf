"""The agents that prompts can name: the default one, names and types, and who may use them. No command, no address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from duetime.engine.model import EVERYBODY
from duetime.settings.sections import INBOX


class NamedAgent(NamedTuple):
    type: str
    owners: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Roster:
    default: str
    agents: Mapping[str, NamedAgent]

    def described(self) -> list[dict[str, str]]:
        return [{"name": name, "type": each.type} for name, each in self.agents.items()]

    def inboxes(self) -> list[str]:
        """Return the agents besides the built-in inbox that are not woken: their prompts wait until taken."""
        return [name for name, each in self.agents.items() if each.type == INBOX and name != INBOX]

    def published(self) -> dict[str, Any]:
        agents = [{"name": name, "type": each.type, "owners": each.owners} for name, each in self.agents.items()]
        return {"default": self.default, "agents": agents}

    def differing(self, server: Roster) -> list[str]:
        """Return the settings that say something here, and something else at the server."""
        same = all(server.agents.get(name) == each for name, each in self.agents.items())
        default = [] if self.default in (INBOX, server.default) else ["agent"]
        return [*default, *([] if same else ["agents"])]


def read_roster(published: Mapping[str, Any]) -> Roster | None:
    """Return the agents that a server published; None if there are none, or in no form that is understood."""
    try:
        agents = {
            str(each["name"]): NamedAgent(str(each["type"]), tuple(map(str, each["owners"])))
            for each in published["agents"]
        }
        default = str(published["default"])
    except (KeyError, TypeError):
        return None
    return Roster(default, agents) if default in agents and INBOX in agents else None


def common_owners(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """Return who may use an agent by both settings."""
    if EVERYBODY in first or EVERYBODY in second:
        return tuple(second if EVERYBODY in first else first)
    return tuple(owner for owner in first if owner in second)
