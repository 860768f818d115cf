"""Decides what an event that arrives does to a schedule that listens to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from duetime.engine.clock import Instant
from duetime.engine.errors import TRANSIENT
from duetime.engine.model import (
    EVENT_CAUSE,
    NO_RUN,
    Definition,
    DueEntry,
    EventRow,
    Progress,
    Run,
    RunStatus,
    Schedule,
    ScheduleState,
    event_of,
)
from duetime.engine.policy.claim import mark_broken
from duetime.engine.policy.finish import HeldRun, Reader, cooldown_end, miss_untaken
from duetime.engine.policy.options import Overlap, Policy, Untaken, policy_from_json
from duetime.engine.policy.rows import Extension, NewId, Writes, new_run, run_entry

NEWER: Final = "a newer event came"
_RESTING: Final = {ScheduleState.PAUSED: "the schedule was paused", ScheduleState.BROKEN: "the schedule was broken"}


class Arrivals:
    """Decides about the events of one transaction, in their order, with the progress rows locked."""

    def __init__(self, now: Instant, new_id: NewId, reader: Reader) -> None:
        self.now, self.reader, self._new_id = now, reader, new_id
        self.writes = Writes()

    def arrive(self, schedule: Schedule, event: EventRow) -> None:
        """Decide about one event; a schedule that cannot be planned is marked as broken, and the rest continues."""
        definition, before = schedule
        try:
            policy = policy_from_json(definition.policy)
            self._arrive(definition, policy, self.writes.progress_of(before), event)
        except TRANSIENT:
            raise  # everything is retried: this row is not the cause
        except Exception as error:
            self.set_aside(schedule, error)

    def set_aside(self, schedule: Schedule, error: Exception) -> None:
        if self.writes.progress_of(schedule.progress).state == ScheduleState.ACTIVE:
            mark_broken(self.writes, *schedule, f"{type(error).__name__}: {error}")

    def _arrive(self, definition: Definition, policy: Policy, progress: Progress, event: EventRow) -> None:
        if progress.state in _RESTING:
            self._keep(self._skip(definition, progress, event, _RESTING[ScheduleState(progress.state)]))
        elif progress.state == ScheduleState.ACTIVE and progress.next is not None:
            if progress.untaken and policy.untaken == Untaken.REPLACE:
                progress = self._replace_untaken(definition, policy, progress)
            self._keep(self._within_max_runs(definition, policy, self._admit(definition, policy, progress, event)))

    def _keep(self, progress: Progress) -> None:
        self.writes.progress[progress.schedule] = progress

    def _admit(self, definition: Definition, policy: Policy, progress: Progress, event: EventRow) -> Progress:
        """Start a run, queue it, let it replace the one that waits, or record that it did not run."""
        if not progress.active and not progress.queued:
            return self._start(definition, policy, progress, event, cooldown_end(definition, progress, self.now))
        if policy.overlap == Overlap.LATEST:
            return self._replace(definition, policy, progress, event)
        if policy.overlap == Overlap.ALLOW and not progress.queued:
            return self._start(definition, policy, progress, event, self.now)
        may_queue = policy.overlap != Overlap.SKIP or progress.active == 0
        if may_queue and progress.queued < policy.queue_limit:
            return self._queue(definition, progress, event)
        waits = 0 < progress.active == progress.untaken
        active = "an earlier run is still waiting for an agent" if waits else "an earlier run was still active"
        return self._skip(definition, progress, event, "its queue was full" if may_queue else active)

    def _start(
        self, definition: Definition, policy: Policy, progress: Progress, event: EventRow, at: Instant
    ) -> Progress:
        run = self._new_run(definition, event, RunStatus.PENDING)
        self.writes.due_new.append(run_entry(definition, policy, run, at))
        return progress._replace(run_count=progress.run_count + 1, active=progress.active + 1, gap=None)

    def _queue(self, definition: Definition, progress: Progress, event: EventRow) -> Progress:
        self._new_run(definition, event, RunStatus.QUEUED)
        return progress._replace(run_count=progress.run_count + 1, queued=progress.queued + 1, gap=None)

    def _new_run(self, definition: Definition, event: EventRow, status: str) -> Run:
        run = new_run(self._new_id(), definition, event.at, status, cause=f"{EVENT_CAUSE}{event.id}")
        self.writes.new_runs.append(run)
        return run

    def _replace(self, definition: Definition, policy: Policy, progress: Progress, event: EventRow) -> Progress:
        """Let an event take the place and the time of the newest run that has not begun; queue it if all have begun."""
        waiting = self._not_begun(definition)
        if not waiting:
            return self._queue(definition, progress, event)
        run = waiting[-1]
        if run in self.writes.new_runs:  # it came in this transaction, and is not stored yet
            return self._replace_new(definition, progress, event, run)
        self.writes.runs[run.id] = run._replace(
            status=RunStatus.SKIPPED, finished=self.now, error=NEWER, fence=run.fence + 1
        )
        newer = self._new_run(definition, event, run.status)
        if run.status == RunStatus.PENDING:
            at = self.reader.entry_at(run.schedule, run.id)
            self.writes.due_gone.append(run_entry(definition, policy, run, self.now))
            self.writes.due_new.append(run_entry(definition, policy, newer, self.now if at is None else at))
        return progress._replace(gap=run.id if progress.gap is None else progress.gap)

    def _replace_new(self, definition: Definition, progress: Progress, event: EventRow, run: Run) -> Progress:
        """Replace a run of this transaction: it keeps its row, and the event before it joins those that did not run."""
        place = self.writes.new_runs.index(run)
        self.writes.new_runs[place] = run._replace(due=event.at, cause=f"{EVENT_CAUSE}{event.id}")
        return self._skip(definition, progress, event._replace(at=run.due, id=event_of(run.cause) or 0), NEWER)

    def _not_begun(self, definition: Definition) -> list[Run]:
        stored = [self.writes.runs.get(run.id, run) for run in self.reader.live_runs(definition.id)]
        new = [run for run in self.writes.new_runs if run.schedule == definition.id]
        return [run for run in (*stored, *new) if _has_not_begun(run)]

    def _skip(self, definition: Definition, progress: Progress, event: EventRow, reason: str) -> Progress:
        """Record an event that starts no run; consecutive ones share a row, so that a storm does not flood the
        history."""
        if progress.gap is not None:
            self.writes.extensions.append(Extension(progress.gap, event.at, 1))
            return progress
        run = self._new_run(definition, event, RunStatus.SKIPPED)
        self.writes.new_runs[-1] = run._replace(finished=self.now, error=reason, last=event.at)
        return progress._replace(gap=run.id)

    def _within_max_runs(self, definition: Definition, policy: Policy, progress: Progress) -> Progress:
        """End the waiting of a schedule whose last run was admitted."""
        if policy.max_runs is None or progress.run_count < policy.max_runs:
            return progress
        self.writes.due_gone.append(DueEntry("", self.now, definition.id, NO_RUN))
        return progress._replace(next=None)

    def _replace_untaken(self, definition: Definition, policy: Policy, progress: Progress) -> Progress:
        for run in self.reader.live_runs(definition.id):
            if run.status == RunStatus.WAITING and run.holder is None and run.id not in self.writes.runs:
                miss_untaken(self.writes, HeldRun(run, definition, progress), policy, self.now, self.reader)
        return self.writes.progress_of(progress)


def _has_not_begun(run: Run) -> bool:
    """Return whether an event started a run that nobody has begun to execute."""
    is_new = run.status in (RunStatus.PENDING, RunStatus.QUEUED) and not run.attempt and not run.deaths
    return is_new and run.cause.startswith(EVENT_CAUSE)


def without(pairs: Sequence[tuple[Schedule, EventRow]], conflicts: Sequence[Run]) -> list[tuple[Schedule, EventRow]]:
    """Leave out the pairs of which there is a run already."""
    present = {(run.schedule, event_of(run.cause)) for run in conflicts}
    return [pair for pair in pairs if (pair[0].definition.id, pair[1].id) not in present]
