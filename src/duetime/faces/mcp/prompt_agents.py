"""Who does a prompt when it is due: an agent that is woken, one that takes it, or nobody, for a mere reminder."""

from __future__ import annotations

from typing import NamedTuple

from duetime.core.delivering import INBOX
from duetime.core.model import Definition
from duetime.core.policy.values import policy_for_ending
from duetime.faces.desk import Inboxes
from duetime.faces.mcp.prompt_words import payload_of

WAITS = (
    "It waits in the inbox until an agent takes it with take_prompt; name an agent in the settings to have one woken."
)


class Doer(NamedTuple):
    wakes: str | None = None
    note: str | None = None
    warning: str | None = None


def doer_of(definition: Definition, inboxes: Inboxes, *, asked_for: bool) -> Doer:
    """Whoever asked for the inbox by its name need not be warned of it."""
    agent = definition.subject
    if payload_of(definition).get("remind"):
        topic = policy_for_ending(definition.policy).deliver_to
        return Doer(note=f"a reminder: no agent is woken, its text goes to {topic}")
    if agent not in inboxes.names:
        return Doer(agent, f"wakes the agent {agent}")
    if definition.owner == inboxes.heartbeat_of and agent == INBOX:
        return Doer(note="waits in the inbox until the heartbeat, or another agent, takes it")
    if asked_for:
        return Doer(note="waits in the inbox until an agent takes it with take_prompt")
    return Doer(warning=WAITS)
