"""Incidents for tests that need one without a worker."""

from __future__ import annotations

from duetime.engine.model import Trouble
from duetime.engine.policy.incidents import IncidentRow
from duetime.engine.policy.rows import IncidentEvent, Writes
from duetime.engine.scheduler import Scheduler


def open_incident(scheduler: Scheduler, id: str, trouble: Trouble = Trouble.FAILED) -> IncidentRow:
    """Open an incident of a schedule, and return it."""
    store = scheduler.store
    schedule = store.find(id)
    assert schedule is not None
    definition = schedule.definition
    event = IncidentEvent(definition.id, definition.owner, trouble, f"{trouble}: it broke", "it broke", None, "first")
    store.change(definition.id, scheduler.clock.now(), lambda change: (Writes(further=(event,)), None))
    return next(each for each in store.incidents_of([definition.id]) if each.cause == event.cause)
