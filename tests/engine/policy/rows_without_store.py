"""Rows for decisions that are tested without a store."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from duetime.engine.clock import Instant
from duetime.engine.model import (
    NO_RUN,
    Definition,
    DueEntry,
    Progress,
    Run,
    RunId,
    RunStatus,
    Schedule,
    ScheduleId,
    WorkerId,
)
from duetime.engine.policy.claim import DueItem
from duetime.engine.policy.decision import Change, Decision
from duetime.engine.policy.finish import HeldRun
from duetime.engine.policy.rows import Draft, StoredMemory, Tombstone, Writes, begin, claimed_run, new_run
from tests.support.drafts import T0

ID = ScheduleId(7)
WORKER = WorkerId(1)


class Rows:
    """The reader of a decision, with the rows that a test names."""

    def __init__(self, runs: Sequence[Run] = (), retried: int = 0, taken: Sequence[int] = ()) -> None:
        self.runs, self.retried = list(runs), retried
        self.taken = frozenset(map(Instant, taken))

    def lock_schedule(self, schedule: ScheduleId) -> Schedule | None:
        return None

    def oldest_queued(self, schedule: ScheduleId) -> Run | None:
        return next((run for run in self.runs if run.status == RunStatus.QUEUED), None)

    def live_runs(self, schedule: ScheduleId) -> list[Run]:
        return self.runs

    def taken_since(self, schedule: ScheduleId, first: Instant) -> frozenset[Instant]:
        return self.taken

    def free_due(self, schedule: ScheduleId, due: Instant) -> Instant:
        return due

    def last_attempt(self, run: RunId) -> int:
        return self.retried

    def last_retry(self, run: RunId) -> int:
        return self.retried

    def last_finished(self, run: RunId) -> Instant | None:
        return None

    def entry_at(self, schedule: ScheduleId, run: RunId) -> Instant | None:
        return None

    def tombstone(self, schedule: ScheduleId) -> Tombstone | None:
        return None

    def trigger_of(self, schedule: ScheduleId) -> str | None:
        return None

    def depth_of_event(self, event: int) -> int:
        return 0

    def lock_owner(self, owner: str) -> None:
        pass

    def is_key_taken(self, owner: str, key: str) -> bool:
        return False

    def count_living(self, owner: str, most: int) -> int:
        return 0

    def memory_of(self, schedule: ScheduleId) -> StoredMemory:
        return StoredMemory()

    def gate_gifts(self, schedule: ScheduleId) -> dict[RunId, str]:
        return {}

    def run_before(self, run: Run) -> Run | None:
        return None

    def ranges_beyond(self, schedule: ScheduleId, now: Instant) -> list[Run]:
        return []


def schedule_of(draft: Draft, **progress: Any) -> Schedule:
    definition, first, _ = begin(draft, ID)
    return Schedule(definition, first._replace(**progress))


def item_of(schedule: Schedule, run: Run | None = None) -> DueItem:
    definition, progress = schedule
    at = (progress.next or T0) if run is None else run.due
    due = DueEntry(definition.kind, at, definition.id, NO_RUN if run is None else run.id, definition.owner)
    return DueItem(due, definition, progress, run)


def running(definition: Definition, run: int = 1, **fields: Any) -> Run:
    return claimed_run(RunId(run), definition, T0, WORKER, T0)._replace(**fields)


def pending(definition: Definition, run: int = 1, status: str = RunStatus.PENDING, **fields: Any) -> Run:
    return new_run(RunId(run), definition, T0, status)._replace(**fields)


def held_by(schedule: Schedule, run: Run) -> HeldRun:
    return HeldRun(run, *schedule)


def change_of(schedule: Schedule, now: int = T0, rows: Rows | None = None, **fields: Any) -> Change:
    numbers = count(100)
    return Change(schedule, Instant(now), rows or Rows(), lambda: RunId(next(numbers)), **fields)


def writes_of(decision: Decision[Any]) -> Writes:
    return decision[0]


def progress_in(writes: Writes) -> Progress:
    return writes.progress[ID]
