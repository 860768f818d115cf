"""Decides what an event that arrives does to a schedule that listens to it."""

from __future__ import annotations

from typing import Final

from duetime.engine.clock import NEVER, Instant
from duetime.engine.errors import TRANSIENT
from duetime.engine.model import Definition, EventRow, Progress, Run, RunStatus, Schedule, ScheduleState, event_of
from duetime.engine.policy.claim import mark_broken
from duetime.engine.policy.finish import NEWER, Reader, cooldown_end, replace_untaken, replaceable, skipped
from duetime.engine.policy.options import Overlap, Policy, Untaken, policy_from_json
from duetime.engine.policy.rows import Extension, NewId, Writes, new_run, run_entry, trigger_entry

_UNCHECKED: Final = frozenset({RunStatus.PENDING, RunStatus.QUEUED, RunStatus.RUNNING})
"""Statuses of runs whose gate may not have been checked yet."""
_RESTING: Final = {ScheduleState.PAUSED: "the schedule was paused", ScheduleState.BROKEN: "the schedule was broken"}


class Arrivals:
    """Decides about the events of one transaction, in their order, with the progress rows locked."""

    _definition: Definition
    _policy: Policy
    _event: EventRow
    """The schedule and the event about which it decides now."""

    def __init__(self, now: Instant, new_id: NewId, reader: Reader) -> None:
        self.now, self.reader, self._new_id = now, reader, new_id
        self.writes = Writes()

    def arrive(self, schedule: Schedule, event: EventRow) -> None:
        """Decide about one event; a schedule that cannot be planned is marked as broken, and the rest continues."""
        self._definition, self._event = schedule.definition, event
        try:
            self._policy = policy_from_json(schedule.definition.policy)
            progress = self._decided(self.writes.progress_of(schedule.progress))
            if progress is not None:
                self.writes.progress[progress.schedule] = progress
        except TRANSIENT:
            raise  # everything is retried: this row is not the cause
        except Exception as error:
            self.set_aside(schedule, error)

    def set_aside(self, schedule: Schedule, error: Exception) -> None:
        if self.writes.progress_of(schedule.progress).state == ScheduleState.ACTIVE:
            mark_broken(self.writes, *schedule, f"{type(error).__name__}: {error}")

    def _decided(self, progress: Progress) -> Progress | None:
        if progress.state in _RESTING:
            return self._skip(progress, _RESTING[ScheduleState(progress.state)])
        if progress.state != ScheduleState.ACTIVE or (progress.next is None and not self._may_go_on()):
            return None
        if progress.untaken and self._policy.untaken == Untaken.REPLACE and self._policy.only_if is None:
            schedule = Schedule(self._definition, progress)
            progress = replace_untaken(self.writes, schedule, self._policy, self.now, self.reader)
        progress = self._admit(progress)
        if self._policy.max_runs is None or progress.run_count < self._policy.max_runs:
            return progress
        self.writes.due_gone.append(trigger_entry(self._definition, self._policy, NEVER))
        return progress._replace(next=None)  # its last run was admitted

    def _may_go_on(self) -> bool:
        """Return whether the gate of a run may still skip it, so that it does not count towards `max_runs`."""
        if self._policy.only_if is None or self._policy.max_runs is None:
            return False
        gifts = self.reader.gate_gifts(self._definition.id)
        return any(run.status in _UNCHECKED and run.id not in gifts for run in self._live_runs())

    def _admit(self, progress: Progress) -> Progress:
        """Start a run, queue it, let it replace the one that waits, or record that it did not run."""
        overlap = self._policy.overlap
        if progress.active == replaceable(self._policy, progress) and not progress.queued:
            return self._start(progress, cooldown_end(self._definition, progress, self.now))
        is_full = progress.queued >= self._policy.queue_limit
        if overlap == Overlap.LATEST and (self._policy.only_if is None or is_full):  # see `gates.give`
            return self._replace(progress)
        if overlap == Overlap.ALLOW and not progress.queued and progress.next is not None:
            return self._start(progress, self.now)
        may_queue = overlap != Overlap.SKIP or progress.active == 0
        if may_queue and not is_full:
            return self._queue(progress)
        waits = 0 < progress.active == progress.untaken
        active = "an earlier run is still waiting for an agent" if waits else "an earlier run was still active"
        return self._skip(progress, "its queue was full" if may_queue else active)

    def _start(self, progress: Progress, at: Instant) -> Progress:
        run = self._new_run(RunStatus.PENDING)
        self.writes.due_new.append(run_entry(self._definition, self._policy, run, at))
        return progress._replace(run_count=progress.run_count + 1, active=progress.active + 1, gap=None)

    def _queue(self, progress: Progress) -> Progress:
        self._new_run(RunStatus.QUEUED)
        return progress._replace(run_count=progress.run_count + 1, queued=progress.queued + 1, gap=None)

    def _new_run(self, status: str) -> Run:
        run = new_run(self._new_id(), self._definition, self._event.at, status, cause=self._event.cause)
        self.writes.new_runs.append(run)
        return run

    def _replace(self, progress: Progress) -> Progress:
        """Let the event take the place and the time of the newest run that has not begun; queue it if all have."""
        is_open = {RunStatus.PENDING, RunStatus.QUEUED}.__contains__
        new = [run for run in self._live_runs() if is_open(run.status) and not run.attempt + run.deaths]
        waiting = [run for run in new if event_of(run.cause)]
        if not waiting:
            return self._queue(progress)
        run = waiting[-1]
        if run in self.writes.new_runs:  # it is not stored yet: it keeps its row, and its event joins those before
            place = self.writes.new_runs.index(run)
            self.writes.new_runs[place] = run._replace(due=self._event.at, cause=self._event.cause)
            self._event = self._event._replace(at=run.due, id=event_of(run.cause) or 0)
            return self._skip(progress, NEWER)
        self.writes.runs[run.id] = skipped(run, NEWER, self.now)
        newer = self._new_run(run.status)
        if run.status == RunStatus.PENDING:
            at = self.reader.entry_at(run.schedule, run.id)
            self.writes.due_gone.append(run_entry(self._definition, self._policy, run, self.now))
            at = self.now if at is None else at
            self.writes.due_new.append(run_entry(self._definition, self._policy, newer, at))
        return progress._replace(gap=run.id if progress.gap is None else progress.gap)

    def _live_runs(self) -> list[Run]:
        """Return the runs of the schedule after the changes so far, with new ones that have ended."""
        schedule = self._definition.id
        stored = [self.writes.runs.get(run.id, run) for run in self.reader.live_runs(schedule)]
        return [*stored, *(run for run in self.writes.new_runs if run.schedule == schedule)]

    def _skip(self, progress: Progress, reason: str) -> Progress:
        """Record an event that starts no run; consecutive ones share a row, so that a storm does not flood the
        history."""
        if progress.gap is not None:
            self.writes.extensions.append(Extension(progress.gap, self._event.at, 1))
            return progress
        run = self._new_run(RunStatus.SKIPPED)
        self.writes.new_runs[-1] = run._replace(finished=self.now, error=reason, last=self._event.at)
        return progress._replace(gap=run.id)
