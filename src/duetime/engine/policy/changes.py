"""Operations on a schedule that people and agents request: cancel, delete, edit, run now and retry. Pause and resume
are in `pauses`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from duetime.engine.clock import Instant
from duetime.engine.encoding import json_object
from duetime.engine.errors import Conflict, NotFound
from duetime.engine.model import (
    DISMISSABLE,
    LIVE,
    NO_RUN,
    OVER,
    Attempt,
    Cause,
    Definition,
    DueEntry,
    Progress,
    Run,
    RunId,
    RunStatus,
    Schedule,
    ScheduleId,
    ScheduleState,
    is_busy,
)
from duetime.engine.policy.catch_up import next_instant
from duetime.engine.policy.decision import Change, Decision, as_stored, changed, not_possible, state_words, touch
from duetime.engine.policy.finish import HeldRun, end_pause, end_run
from duetime.engine.policy.follow_ups import GONE, NO_PAYLOAD
from duetime.engine.policy.gates import GateGift, reset_memory
from duetime.engine.policy.options import Overlap, Policy, policy_for_ending, policy_from_json
from duetime.engine.policy.pauses import account, enqueue, pause, resume, resume_entry
from duetime.engine.policy.restore import restore
from duetime.engine.policy.rewind import rewind
from duetime.engine.policy.rows import (
    FurtherWrite,
    IncidentMark,
    InputsGone,
    MemoryWrite,
    RunColumn,
    Tombstone,
    TombstoneGone,
    Writes,
    ended,
    new_run,
    run_entry,
)
from duetime.engine.rule_edits import stays_moved
from duetime.engine.triggers import trigger_from_json
from duetime.engine.value_class import NamedTuple

__all__ = ["Change", "Decision", "not_possible", "pause", "restore", "resume", "rewind"]
"""What other modules of this package define, for callers who make every kind of change."""


def cancel(change: Change) -> Decision[Schedule]:
    """End the schedule: cancel runs that have not started, and ask running ones to stop."""
    progress = change.schedule.progress
    if progress.state == ScheduleState.CANCELLED:
        return Writes(), change.schedule
    if progress.state in OVER:
        raise not_possible("cancelled", progress.state)
    writes = _withdraw(change, ScheduleState.CANCELLED, "the schedule was cancelled")
    touch(writes, change, resume_at=None)
    return writes, changed(change.schedule, writes)


def delete(change: Change, remembered: Sequence[str] = (), *, forever: bool = False) -> Decision[None]:
    """Replace the schedule with a tombstone, which prevents reuse of the id and keeps the history readable; of the
    payload, it keeps only the `remembered` fields. The idempotency key becomes free: repeating the create makes a new
    schedule. Payload, key and what its gate remembers are kept for a day, so that the schedule can be restored. If it
    is deleted `forever`, nothing of these is kept, and no input of its runs."""
    definition, progress = change.schedule
    if progress.state == ScheduleState.DELETED:
        if forever and (definition.payload != NO_PAYLOAD or change.reader.tombstone(definition.id) is not None):
            further = (*_gone_forever(definition.id), TombstoneGone(definition.id))
            return Writes(definitions=[definition._replace(payload=NO_PAYLOAD)], further=further), None
        raise NotFound("it no longer exists")
    writes = _withdraw(change, ScheduleState.DELETED, "the schedule was deleted")
    rest, payload = NO_PAYLOAD, json_object(definition.payload) if remembered and not forever else None
    if payload is not None:  # an unreadable schedule must be deletable too
        rest = json.dumps({name: payload[name] for name in remembered if name in payload}, ensure_ascii=False)
    tombstone = definition._replace(payload=rest, key=f"{GONE}{definition.id}", version=definition.version + 1)
    writes.definitions.append(tombstone._replace(updated=change.now, resume_at=None))
    content = Tombstone(definition.id, definition.payload, definition.key, change.now)
    writes.further += _gone_forever(definition.id) if forever else (content,)
    return writes, None


def _gone_forever(schedule: ScheduleId) -> tuple[FurtherWrite, ...]:
    return InputsGone(schedule), MemoryWrite(schedule, "delete_memory")


def _withdraw(change: Change, state: ScheduleState, reason: str) -> Writes:
    definition, progress = change.schedule
    writes = Writes(due_gone_of=[definition.id])
    running = 0
    for run in change.reader.live_runs(definition.id):
        if run.status == RunStatus.RUNNING:
            running += 1
            writes.runs[run.id] = run._replace(stop=1)
            writes.columns.append(_stop_request(change, run))
        elif run.status in LIVE:
            writes.runs[run.id] = run._replace(
                status=RunStatus.CANCELLED, finished=change.now, error=reason, fence=run.fence + 1
            )
    if progress.next is not None and progress.next <= change.now:
        before = "" if progress.state == ScheduleState.ACTIVE else f"it was {progress.state}, and then "
        progress = account(writes, change, f"{before}{reason}")
    elif progress.next is not None:
        progress = progress._replace(through=progress.next)
    writes.progress[definition.id] = progress._replace(
        state=state, next=None, active=running, queued=0, gap=None, note=None, untaken=0
    )
    return writes


class Edit(NamedTuple):
    """The new stored values; None keeps the old one. `next` alone moves the next occurrence and keeps the rule."""

    name: str | None = None
    subject: str | None = None
    trigger: str | None = None
    payload: str | None = None
    policy: str | None = None
    next: Instant | None = None
    version: int | None = None
    amid_runs: bool = False  # allow the edit while runs are active; what they have not done yet uses the new values
    pending_only: bool = False  # refuse the edit while runs are active, even for a recurring schedule
    rewrites: bool = False  # the payload has another text, whose author is the one who edits
    fingerprint: str | None = None
    key: str | None = None


@as_stored
def edit(change: Change, patch: Edit) -> Decision[Schedule]:
    """Edit a schedule. Runs that have begun keep their values: the edit applies from the next occurrence. A schedule
    whose only occurrence has been claimed cannot be edited, unless `amid_runs` permits it or it is broken."""
    definition, progress = change.schedule
    active = is_busy(progress) or progress.queued
    busy = progress.state != ScheduleState.BROKEN and active and not patch.amid_runs
    if progress.state in OVER or (busy and (patch.pending_only or not _recurs(change.schedule))):
        raise not_possible("edited", "running" if progress.active else progress.state)
    if patch.version is not None and patch.version != definition.version:
        raise Conflict("it was changed in the meantime; read it again and repeat the edit")
    change.check_circle(patch.trigger or "")
    changes = {
        name: value
        for name in ("name", "subject", "trigger", "payload", "policy", "fingerprint", "key")
        if (value := getattr(patch, name)) is not None
    }
    if patch.rewrites:
        changes["author"] = change.actor
    edited = change.set_off._replace(**changes, version=definition.version + 1, updated=change.now)
    writes = Writes(definitions=[edited], further=tuple(reset_memory(definition, edited)))
    in_line = progress.state != ScheduleState.BROKEN
    # keep the entries of runs: a receiver may have set their time, or a person may have requested one during a pause
    if in_line:
        writes.due_gone.append(DueEntry("", change.now, definition.id, NO_RUN))
    else:
        writes.due_gone_of.append(definition.id)
    if patch.next is not None or patch.trigger is not None or progress.state == ScheduleState.BROKEN:
        progress = account(writes, change, "the schedule was edited")
    progress = _with_next(edited, progress, patch, change.now, definition.trigger)
    if progress.state == ScheduleState.BROKEN:
        progress = progress._replace(state=ScheduleState.ACTIVE, note=None)
        edited = edited._replace(resume_at=None)
        writes.definitions = [edited]
    if progress.untaken and edited.subject != definition.subject:
        progress = _restart_untaken(writes, change, edited, progress)
    _change_lanes(writes, change, edited)
    if progress.state == ScheduleState.ACTIVE:
        enqueue(writes, change._replace(schedule=Schedule(edited, progress)), edited, progress, runs=not in_line)
    else:
        writes.progress[definition.id] = progress
        writes.due_new += resume_entry(edited)
    return writes, Schedule(edited, writes.progress[definition.id])


def _change_lanes(writes: Writes, change: Change, edited: Definition) -> None:
    """Let runs that have not begun be started by the workers that the edited schedule needs."""
    before, after = (policy_for_ending(each.policy) for each in (change.schedule.definition, edited))
    if writes.due_gone_of or (before.needs, before.at_most_once) == (after.needs, after.at_most_once):
        return  # otherwise, all entries are made anew
    for run in change.reader.live_runs(edited.id):
        at = change.reader.entry_at(edited.id, run.id)
        if at is not None and run.id not in writes.runs:
            writes.move(run_entry(edited, after, run, at))


def _restart_untaken(writes: Writes, change: Change, edited: Definition, progress: Progress) -> Progress:
    """Restart waiting runs that nobody has taken, because the edited schedule assigns them to somebody else."""
    policy, moved = policy_from_json(edited.policy), 0
    for run in change.reader.live_runs(edited.id):
        if run.status == RunStatus.WAITING and run.holder is None:
            moved += 1
            writes.runs[run.id] = pending = run._replace(status=RunStatus.PENDING, until=None, fence=run.fence + 1)
            writes.due_gone.append(run_entry(edited, policy, pending, change.now))
            if progress.state == ScheduleState.ACTIVE:
                writes.due_new.append(run_entry(edited, policy, pending, change.now))
    return progress._replace(untaken=max(0, progress.untaken - moved))


def _recurs(schedule: Schedule) -> bool:
    """Return whether a schedule has further occurrences, or a rule by which it had several."""
    return schedule.progress.next is not None or trigger_from_json(schedule.definition.trigger).type != "once"


def _with_next(definition: Definition, progress: Progress, patch: Edit, now: Instant, old_trigger: str) -> Progress:
    following = progress.next
    if patch.next is not None:
        following = patch.next
    elif progress.state == ScheduleState.BROKEN or (
        patch.trigger is not None and not stays_moved(old_trigger, definition.trigger, progress.next, now)
    ):
        following = next_instant(definition.trigger, now)
    limit = policy_from_json(definition.policy).max_runs
    if limit is not None and progress.run_count >= limit:
        following = None
    elif following is None and patch.policy is not None:  # the former `max_runs` may have been reached
        following = next_instant(definition.trigger, max(now, progress.through or now))
    if patch.next is not None or patch.trigger is not None:
        progress = progress._replace(through=None, gap=None)  # a row of skipped occurrences belongs to one rule
    return progress._replace(next=following)


@as_stored
def fire(change: Change, payload: str | None = None, *, force: bool = False, trace: str = "") -> Decision[Run]:
    """Run now, in addition to the trigger; the overlap policy applies as to any other occurrence. A given payload is
    the input of this run only; the schedule keeps its own. With `force`, its gate is not checked."""
    definition, progress = change.schedule
    if progress.state not in (ScheduleState.ACTIVE, ScheduleState.PAUSED, ScheduleState.ENDED):
        raise not_possible("run", progress.state)
    policy = policy_from_json(definition.policy)
    # A run that is queued while the schedule is paused waits only for the resume: it blocks no other run.
    busy = progress.active > 0 or (progress.queued > 0 and progress.state != ScheduleState.PAUSED)
    if busy and policy.overlap == Overlap.SKIP:
        raise Conflict(_why_busy(change), code="busy")
    queues = policy.overlap in (Overlap.QUEUE, Overlap.LATEST)
    if busy and queues and progress.queued >= policy.queue_limit:
        raise Conflict("its queue is full", code="busy")
    due = change.reader.free_due(definition.id, change.now)
    writes = Writes(definitions=[] if change.set_off == definition else [change.set_off])
    run = new_run(change.new_id(), definition, due, RunStatus.PENDING, cause=Cause.MANUAL)
    if progress.next is not None and policy.max_runs is not None and progress.run_count + 1 >= policy.max_runs:
        progress = _without_next(writes, change)
    if payload is not None:
        writes.columns.append(RunColumn("payload", payload, run.id))
    if change.actor is not None:
        writes.columns.append(RunColumn("actor", change.actor, run.id))
    if trace:
        writes.columns.append(RunColumn("trace", trace, run.id))
    if force and policy.only_if is not None:
        writes.columns.append(RunColumn("gate", GateGift(is_forced=True).to_json(), run.id))
    progress = progress._replace(run_count=progress.run_count + 1)
    run = _start_or_queue(writes, change, policy, run, progress, in_line=busy and queues)
    writes.new_runs.append(run)
    return writes, run


def _start_or_queue(
    writes: Writes, change: Change, policy: Policy, run: Run, progress: Progress, *, in_line: bool
) -> Run:
    """Let a run that somebody requested start now or, if it is `in_line`, after the active one; a schedule that had
    ended is active again. A queued run that was requested while its schedule was paused is marked by `expires`:
    `release` starts it without waiting for a resume."""
    if in_line:
        requested_during_pause = change.now if progress.state == ScheduleState.PAUSED else None
        run = run._replace(status=RunStatus.QUEUED, expires=requested_during_pause)
        progress = progress._replace(queued=progress.queued + 1)
    else:
        writes.due_new.append(run_entry(change.schedule.definition, policy, run, change.now))
        progress = progress._replace(active=progress.active + 1)
    state = ScheduleState.ACTIVE if progress.state == ScheduleState.ENDED else progress.state
    writes.progress[progress.schedule] = progress._replace(state=state)
    return run


def _without_next(writes: Writes, change: Change) -> Progress:
    """Remove the next occurrence: the run that starts now is the last one that `max_runs` allows."""
    # while the schedule is paused, its entry is the one that ends the pause
    if change.schedule.progress.state == ScheduleState.ACTIVE:
        writes.due_gone.append(DueEntry("", change.now, change.schedule.definition.id, NO_RUN))
    return account(writes, change, "max_runs was reached by a run that was started manually")._replace(next=None)


def _why_busy(change: Change) -> str:
    """Return the error that says what an earlier run is doing and what the caller can do about it."""
    progress = change.schedule.progress
    live = change.reader.live_runs(progress.schedule)
    that = f"run {min(run.id for run in live)}" if live else "it"
    if 0 < progress.active == progress.untaken:
        return f"an earlier run is still waiting for an agent; have one take {that}, or cancel that run"
    if any(run.status in (RunStatus.RUNNING, RunStatus.WAITING) for run in live):
        return "it is already running; wait for it to end, or allow overlaps"
    if progress.state == ScheduleState.PAUSED:
        return "an earlier run has not ended, and its schedule is paused; resume it, or stop that run"
    if any(run.attempt and run.status == RunStatus.PENDING for run in live):
        return "an earlier run failed and is about to be retried; wait for it to end, or stop that run"
    return f"an earlier run has not started yet; wait for {that} to end"


_AGAIN = frozenset({RunStatus.FAILED, RunStatus.LOST, RunStatus.CANCELLED})


@as_stored
def retry(change: Change, run: Run) -> Decision[Run]:
    """Start the same run again, under the same id, so that a receiver can detect the repetition. Behind an active run
    it is queued, regardless of the overlap policy and the queue limit: those apply to new occurrences."""
    definition, progress = change.schedule
    if run.status not in _AGAIN:
        raise not_possible("retried", run.status)
    if progress.state in (ScheduleState.CANCELLED, ScheduleState.DELETED, ScheduleState.BROKEN):
        raise not_possible("retried", progress.state)
    policy = policy_from_json(definition.policy)
    last = change.reader.last_attempt(run.id)
    number, started = (run.attempt, run.started) if run.attempt > last else (last + 1, None)  # None: it never began
    again = run._replace(
        status=RunStatus.PENDING,
        deaths=0,
        attempt=number,
        worker=None,
        stop=0,
        started=None,
        finished=None,
        error=None,
        holder=None,
        until=None,
        expires=None,
    )
    ended_at = change.now if run.finished is None else run.finished
    # The run's own row says how it ended, and the retry will overwrite that. Keeping it as an attempt also records who
    # retried this run, from which attempt on `max_attempts` counts again. The store moves the traceback to the attempt.
    life_before = Attempt(run.id, number, started, ended_at, run.status, run.error, None, change.actor, change.now)
    writes = Writes(attempts=[life_before], columns=[RunColumn("traceback", None, run.id)])
    in_line = progress.active > 0 and policy.overlap != Overlap.ALLOW
    writes.runs[run.id] = again = _start_or_queue(writes, change, policy, again, progress, in_line=in_line)
    touch(writes, change)
    return writes, again


def dismiss(change: Change, run: Run, *, undo: bool = False) -> Decision[Run]:
    """Mark a failed or missed run as needing no attention. Its status stays; `undo` or a retry removes the mark."""
    if run.status not in DISMISSABLE:
        raise not_possible("reopened" if undo else "resolved", run.status)
    marked = run._replace(stop=0 if undo else 1)
    return Writes(runs={run.id: marked}, further=(IncidentMark(run.schedule, run.id, 0, undo, change.actor),)), marked


def mark_incident(change: Change, incident: int, *, undo: bool = False) -> Decision[None]:
    """Resolve an incident: it causes no reminder until it is over. `undo` reopens it."""
    schedule = change.schedule.definition.id
    return Writes(further=(IncidentMark(schedule, RunId(0), incident, undo, change.actor),)), None


def replace_input(change: Change, run: Run, payload: str) -> Decision[Run]:
    """Set the input of a waiting run that nobody has taken."""
    if run.status != RunStatus.WAITING or run.holder is not None:
        raise not_possible("changed", "taken" if run.holder else run.status)
    return Writes(columns=[RunColumn("payload", payload, run.id)]), run


def mark(change: Change, run: Run, as_: int, *, undo: bool = False) -> Decision[Run]:
    """Mark a completed run, for example a message as read. A mark is replaced only by a higher one, or with `undo` only
    by a lower one."""
    if run.status != RunStatus.COMPLETED:
        raise not_possible("marked", run.status)
    marked = run._replace(stop=min(run.stop, as_) if undo else max(run.stop, as_))
    return Writes(runs={run.id: marked}), marked


def _stop_request(change: Change, run: Run) -> RunColumn:
    return RunColumn("stop_request", f"{change.now} {change.actor or ''}", run.id)


def shorten_run(change: Change, run: Run, deadline: Instant) -> Decision[Run]:
    """Ask a run that is in progress to stop at an instant. Its own timeout still applies."""
    if run.status != RunStatus.RUNNING:
        raise not_possible("shortened", run.status)
    return Writes(columns=[RunColumn("deadline", deadline, run.id), _stop_request(change, run)]), run


def cancel_run(change: Change, run: Run) -> Decision[Run]:
    """Cancel one run: end it if it has not begun, ask it to stop if it has."""
    definition, progress = change.schedule
    if run.status not in LIVE:
        words = f"run {run.id} {state_words(run.status)}, so there is nothing to stop"
        raise Conflict(words, code="not_possible", details={"state": run.status})
    if run.status == RunStatus.RUNNING:
        stopping = run._replace(stop=1)
        return Writes(runs={run.id: stopping}, columns=[_stop_request(change, run)]), stopping
    policy = policy_for_ending(definition.policy)
    writes = Writes(due_gone=[run_entry(definition, policy, run, change.now)])
    closed = run._replace(status=RunStatus.CANCELLED, finished=change.now, error="cancelled", fence=run.fence + 1)
    if run.status == RunStatus.QUEUED:
        writes.runs[run.id] = closed
        progress = progress._replace(queued=progress.queued - 1)
        if progress.next is None and progress.state == ScheduleState.PAUSED and not progress.active + progress.queued:
            progress = end_pause(writes, progress, change.reader)
        writes.progress[definition.id] = ended(progress)
    else:
        end_run(writes, HeldRun(run, definition, progress), policy, closed, change.now, change.reader)
    return writes, closed
