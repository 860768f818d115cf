"""Reassignment of due prompts that wait in vain, as when the settings no longer name their agent: every interface can
give them another agent, though nothing else that is due can be edited. Also tells who does a prompt."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NamedTuple

from duetime.engine.kind import Caller
from duetime.engine.model import Definition, RunStatus, Schedule, status_of
from duetime.engine.policy.options import policy_for_ending
from duetime.engine.result import Err
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import RunQuery
from duetime.engine.validation import Changes
from duetime.settings.sections import INBOX

KIND = "prompt"


def _payload(definition: Definition) -> dict[str, Any]:
    stored = json.loads(definition.payload)
    return stored if isinstance(stored, dict) else {}


def with_another_agent(scheduler: Scheduler, caller: Caller, found: Schedule, changes: Changes) -> Changes:
    """Return the changes, marked with `amid_runs` if they may be made although the prompt is due."""
    gives = _names_another(found, changes) and changes.trigger_type is None and changes.next is None
    return replace(changes, amid_runs=True) if gives and waits_in_vain(scheduler, caller, found) else changes


def _names_another(found: Schedule, changes: Changes) -> bool:
    if found.definition.kind != KIND or changes.payload is None:
        return False
    return changes.payload.get("agent") != _payload(found.definition).get("agent")


def waits_in_vain(scheduler: Scheduler, caller: Caller, found: Schedule) -> bool:
    """Return whether it is due and was given back each time, so that no attempt has begun."""
    if status_of(found.progress) != "running":
        return False
    live = scheduler.runs(caller, RunQuery(schedule=found.definition.id, status="live", count_to=0))
    if isinstance(live, Err) or not live.value.items or live.value.cursor is not None:
        return False
    return all(run.status == RunStatus.PENDING and run.attempt == 0 for run in live.value.items)


# Who does a due prompt: an agent that is woken, an agent that takes it, or nobody, for a reminder.

WAITS = (
    "It waits in the inbox until an agent takes it with take_prompt; name an agent in the settings to have one woken."
)


class Inboxes(NamedTuple):
    """Agents whose due prompts wait until one takes them, and the owner whose heartbeat takes them automatically."""

    names: frozenset[str] = frozenset({INBOX})
    heartbeat_of: str | None = None


class Doer(NamedTuple):
    wakes: str | None = None
    note: str | None = None
    warning: str | None = None


def doer_of(definition: Definition, inboxes: Inboxes, *, asked_for: bool) -> Doer:
    """Return who does a prompt. A caller that asked for the inbox by name need not be warned of it."""
    agent = definition.subject
    if _payload(definition).get("remind"):
        topic = policy_for_ending(definition.policy).deliver_to
        return Doer(note=f"a reminder: no agent is woken, its text goes to {topic}")
    if agent not in inboxes.names:
        return Doer(agent, f"wakes the agent {agent}")
    if definition.owner == inboxes.heartbeat_of and agent == INBOX:
        return Doer(note="waits in the inbox until the heartbeat, or another agent, takes it")
    if asked_for:
        return Doer(note="waits in the inbox until an agent takes it with take_prompt")
    return Doer(warning=WAITS)
