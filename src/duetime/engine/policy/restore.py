"""Restores schedules that were cancelled or deleted."""

from __future__ import annotations

from typing import Final

from duetime.engine.clock import DAY, Instant
from duetime.engine.errors import Conflict
from duetime.engine.model import Definition, Progress, Schedule, ScheduleState
from duetime.engine.policy.catch_up import next_instant
from duetime.engine.policy.decision import Change, Decision, as_stored, not_possible
from duetime.engine.policy.options import policy_from_json
from duetime.engine.policy.pauses import enqueue
from duetime.engine.policy.rows import TombstoneGone, Writes, quota_reached

KEPT_AFTER_DELETE: Final = DAY
"""How long the payload of a deleted schedule is kept, so that the schedule can be restored."""


@as_stored
def restore(change: Change, max_schedules: int | None = None) -> Decision[Schedule]:
    """Let a cancelled or deleted schedule continue from now on, without catching up; its number of runs stays.
    `max_schedules` is the number of its owner's schedules that may still fire."""
    definition, progress = change.schedule
    writes = Writes()
    if progress.state == ScheduleState.DELETED:
        tombstone = change.reader.tombstone(definition.id)
        if tombstone is None or tombstone.deleted + KEPT_AFTER_DELETE <= change.now:
            text = "what it does is not stored any more, which is kept for a day after a delete; create it again"
            raise Conflict(text, code="not_possible")
        if change.reader.is_key_taken(definition.owner, tombstone.key):
            text = "another schedule has its key by now; delete that one first, or keep it instead"
            raise Conflict(text, code="not_possible")
        definition = definition._replace(payload=tombstone.payload, key=tombstone.key)
        writes.further += (TombstoneGone(definition.id),)
    elif progress.state != ScheduleState.CANCELLED:
        raise not_possible("restored", progress.state)
    change.check_circle(definition.trigger)
    following = next_if_restored(definition, progress, change.now)
    if max_schedules is not None and change.reader.count_living(definition.owner, max_schedules) >= max_schedules:
        raise quota_reached(max_schedules)
    # A cancel notes the occurrence that it withdraws as decided, also one that has not come yet.
    through = None if progress.through is None or progress.through > change.now else progress.through
    restored = progress._replace(state=ScheduleState.ACTIVE, next=following, through=through, gap=None, note=None)
    definition = definition._replace(updated=change.now, version=definition.version + 1)
    writes.definitions.append(definition)
    enqueue(writes, change, definition, restored, runs=False)
    return writes, Schedule(definition, writes.progress[definition.id])


def next_if_restored(definition: Definition, progress: Progress, now: Instant) -> Instant:
    """Return when a schedule would fire next if it was restored; refuse if nothing follows."""
    max_runs = policy_from_json(definition.policy).max_runs
    if max_runs is not None and progress.run_count >= max_runs:
        raise Conflict(f"it had all of its {max_runs} runs; create it again", code="not_possible")
    following = next_instant(definition.trigger, now)
    if following is None:
        raise Conflict("its time has passed; create it again with a later one", code="not_possible")
    return following
