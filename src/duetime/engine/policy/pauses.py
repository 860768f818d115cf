"""Pausing a schedule, and resuming it on request or at the end of the pause."""

from __future__ import annotations

from typing import Final

from duetime.engine.clock import Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.model import NO_RUN, Definition, DueEntry, Progress, Run, RunStatus, Schedule, ScheduleState
from duetime.engine.policy.catch_up import missed_span, missed_span_without, next_instant
from duetime.engine.policy.decision import Change, Decision, as_stored, changed, not_possible, touch
from duetime.engine.policy.finish import cooldown_end, park, release
from duetime.engine.policy.options import CatchUp, policy_for_ending, policy_from_json
from duetime.engine.policy.rows import Span, Writes, ended, policy_lane, run_entry, span_run, trigger_entry
from duetime.engine.triggers.base import OnceTrigger
from duetime.engine.triggers.build import readable

NOTHING_FOLLOWS: Final = "{} because {}, and nothing follows; run it now, or schedule it again"
"""The note of a schedule whose last occurrence passed during a pause: without it, the resume would appear to have run
it."""


def pause(change: Change, until: Instant | None = None, note: str | None = None) -> Decision[Schedule]:
    """Take a schedule out of the queue until somebody resumes it or, if given, until this instant. The latest request
    sets the end and the note of the pause; a request that only changes the end keeps the note."""
    definition, progress = change.schedule
    resting = progress.state == ScheduleState.PAUSED
    if resting and (until, note) in ((definition.resume_at, None), (definition.resume_at, progress.note)):
        return Writes(), change.schedule
    if not resting and progress.state != ScheduleState.ACTIVE:
        raise not_possible("paused", progress.state)
    writes = Writes()
    if resting:  # runs that somebody requested meanwhile stay in the queue
        writes.due_gone.append(DueEntry("", change.now, definition.id, NO_RUN))
        note = progress.note if note is None and until is not None else note
    else:
        writes.due_gone_of.append(definition.id)
        progress = _pass_over(writes, change, "it was overdue when the schedule was paused")
        park(writes, progress, change.reader)
    writes.progress[definition.id] = progress._replace(state=ScheduleState.PAUSED, note=note, gap=None)
    touch(writes, change, resume_at=until)
    writes.due_new += resume_entry(definition._replace(resume_at=until))
    return writes, changed(change.schedule, writes)


def resume_entry(definition: Definition) -> list[DueEntry]:
    """Return the due entry that ends a pause, if the pause has an end."""
    if definition.resume_at is None:
        return []
    lane = policy_lane(definition.kind, policy_for_ending(definition.policy))
    return [DueEntry(lane, definition.resume_at, definition.id, NO_RUN, definition.owner)]


@as_stored
def resume(change: Change, as_of: Instant | None = None) -> Decision[Schedule]:
    """Continue from now; one row records what did not run meanwhile. `as_of` is the instant at which the pause ended,
    if that was earlier: what became due since then is late, not passed over."""
    definition, progress = change.schedule
    if progress.state == ScheduleState.ACTIVE:
        return Writes(), change.schedule
    if progress.state not in (ScheduleState.PAUSED, ScheduleState.BROKEN):
        raise not_possible("resumed", progress.state)
    writes = Writes(due_gone_of=[definition.id])
    ended_at = change if as_of is None else change._replace(now=as_of)
    reason = f"the schedule was {progress.state}"
    progress = _pass_over(writes, ended_at, reason)
    progress = progress._replace(state=ScheduleState.ACTIVE, note=None, gap=None)
    enqueue(writes, change, definition, progress)
    # an occurrence that was held until now is late only from now on
    writes.due_new = [entry._replace(at=max(entry.at, ended_at.now)) for entry in writes.due_new]
    over = writes.progress[definition.id]
    if over.state == ScheduleState.ENDED and over.last_status in (RunStatus.SKIPPED, RunStatus.MISSED):
        note = NOTHING_FOLLOWS.format(over.last_status, over.last_error or reason)
        writes.progress[definition.id] = over._replace(note=note)
    park(writes, progress, change.reader, retries=False)  # this applies at the next pause, which may be automatic
    touch(writes, change, resume_at=None)
    return writes, changed(change.schedule, writes)


def is_one_off(definition: Definition) -> bool:
    return isinstance(readable(definition.trigger), OnceTrigger)


def is_held(schedule: Schedule, resumed: Instant) -> bool:
    """Return whether the next occurrence, if its time falls into a pause, runs when the pause ends: that of a one-off
    does, because no later occurrence makes up for it. With catch-up `skip`, its grace period has to last until then."""
    definition, progress = schedule
    if progress.next is None or not is_one_off(definition):
        return False
    policy = policy_for_ending(definition.policy)
    due = trigger_entry(definition, policy, progress.next).at
    return policy.catch_up != CatchUp.SKIP or resumed <= due + policy.grace


def _pass_over(writes: Writes, change: Change, reason: str) -> Progress:
    """Record what is due and will not run, and continue with the first occurrence after now. An occurrence that is held
    stays the next one."""
    definition, progress = change.schedule
    if progress.next is None or progress.next > change.now or is_held(change.schedule, change.now):
        return progress
    status = RunStatus.MISSED if is_one_off(definition) else RunStatus.SKIPPED
    accounted = account(writes, change, reason, status)
    try:
        following = next_instant(definition.trigger, change.now)
    except InvalidInput:  # the next instant is unknown; the row keeps this occurrence from being recorded twice
        return accounted
    if following is None:
        return accounted._replace(next=None, last_status=status, last_error=reason)
    return accounted._replace(next=following)


def account(writes: Writes, change: Change, reason: str, status: str = RunStatus.SKIPPED) -> Progress:
    """Write one row for the occurrences that will not run: those from the next one until now."""
    definition, progress = change.schedule
    if progress.next is None or progress.next > change.now:
        return progress
    taken = change.reader.taken_since(definition.id, progress.next)
    try:
        passed = definition.trigger, progress.next, change.now
        span = missed_span_without(*passed, taken) if taken else missed_span(*passed)
    except InvalidInput:  # an unreadable trigger says nothing beyond this one occurrence
        span = None if progress.next in taken else Span(progress.next, progress.next, -1)
    if span is None:
        return progress._replace(through=progress.next, gap=None)
    writes.new_runs.append(span_run(change.new_id(), definition, span, status, reason, change.now))
    return progress._replace(through=span.last, gap=None)


def enqueue(writes: Writes, change: Change, definition: Definition, progress: Progress, *, runs: bool = True) -> None:
    """Put all entries of an active schedule into the due queue: the trigger's entry and those of its live runs."""
    policy = policy_from_json(definition.policy)
    if progress.next is not None:
        writes.due_new.append(trigger_entry(definition, policy, progress.next))
    if progress.active and runs:
        for run in change.reader.live_runs(definition.id):
            if run.id in writes.runs:  # whoever changed it in this batch has added its entry
                continue
            if run.status == RunStatus.PENDING:
                retried = run.attempt > 0 or run.expires is not None
                at = _start_of_retry(writes, change, run) if retried else cooldown_end(definition, progress, change.now)
                writes.due_new.append(run_entry(definition, policy, run, at))
            elif run.status == RunStatus.WAITING and (until := run.expires or run.until) is not None:
                writes.due_new.append(run_entry(definition, policy, run, until))
    progress = release(writes, definition, policy, progress, change.now, change.reader)
    writes.progress[definition.id] = ended(progress)


def _start_of_retry(writes: Writes, change: Change, run: Run) -> Instant:
    """Return when a retry may start after a pause at the earliest, as a receiver may have asked for a long wait."""
    at = change.reader.entry_at(run.schedule, run.id) if run.expires is None else run.expires
    if run.expires is not None:
        writes.runs[run.id] = run._replace(expires=None)
    return change.now if at is None else max(at, change.now)
