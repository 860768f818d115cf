"""Creation of the first rows of a schedule."""

from __future__ import annotations

from typing import NamedTuple

from duetime.engine.clock import Instant
from duetime.engine.model import Definition, DueEntry, Progress, ScheduleId, ScheduleState
from duetime.engine.policy.options import policy_from_json
from duetime.engine.policy.rows import trigger_entry
from duetime.engine.result import Err
from duetime.engine.triggers import trigger_from_json


class Draft(NamedTuple):
    """A validated schedule that has no id yet; `{id}` in its public id stands for that id."""

    definition: Definition
    first: Instant


def begin(draft: Draft, schedule: ScheduleId) -> tuple[Definition, Progress, DueEntry]:
    public_id = draft.definition.public_id.replace("{id}", str(schedule))
    definition = draft.definition._replace(id=schedule, public_id=public_id)
    progress = Progress(
        schedule, definition.owner, definition.kind, ScheduleState.ACTIVE, draft.first, None,
        0, 0, 0, None, None, None, None, 0, None,
    )  # fmt: skip
    trigger = trigger_from_json(definition.trigger)
    entry = trigger_entry(definition, policy_from_json(definition.policy), trigger, draft.first)
    return definition, progress, entry


def quota_reached(limit: int) -> Err:
    message = f"the limit of {limit} schedules is reached; cancel or delete some that are no longer needed"
    return Err("quota", message, {"limit": limit})
