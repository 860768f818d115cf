"""Prompts that are due and wait in vain, as when the settings name their agent no more: every face can give them
another agent, though nothing else of what is due can be edited."""

from __future__ import annotations

import json
from dataclasses import replace

from duetime.core.drafting import Changes
from duetime.core.kind import Caller
from duetime.core.model import RunStatus, Schedule, status_of
from duetime.core.result import Err
from duetime.core.scheduler import Scheduler
from duetime.core.store import RunQuery

KIND = "prompt"


def with_another_agent(scheduler: Scheduler, caller: Caller, found: Schedule, changes: Changes) -> Changes:
    """The same changes; those that may be made although the prompt is due say so."""
    gives = _names_another(found, changes) and changes.trigger_type is None and changes.next is None
    return replace(changes, amid_runs=True) if gives and waits_in_vain(scheduler, caller, found) else changes


def _names_another(found: Schedule, changes: Changes) -> bool:
    if found.definition.kind != KIND or changes.payload is None:
        return False
    stored = json.loads(found.definition.payload)
    return isinstance(stored, dict) and changes.payload.get("agent") != stored.get("agent")


def waits_in_vain(scheduler: Scheduler, caller: Caller, found: Schedule) -> bool:
    """Due, and given back each time: nothing of it has begun."""
    if status_of(found.progress) != "running":
        return False
    live = scheduler.runs(caller, RunQuery(schedule=found.definition.id, status="live", count_to=0))
    if isinstance(live, Err) or not live.value.items or live.value.cursor is not None:
        return False
    return all(run.status == RunStatus.PENDING and run.attempt == 0 for run in live.value.items)
