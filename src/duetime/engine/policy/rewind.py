"""Corrects a schedule after the clock was ahead: the schedule continues with its next occurrence after now."""

from __future__ import annotations

from duetime.engine.clock import HOUR, SECOND, Instant
from duetime.engine.model import NO_RUN, Cause, DueEntry, Run, RunStatus, ScheduleState
from duetime.engine.policy.catch_up import LEAD, missed_span, next_instant
from duetime.engine.policy.decision import Change, Decision, as_stored
from duetime.engine.policy.options import Policy, policy_from_json
from duetime.engine.policy.rows import Extension, Writes, new_run, run_entry, trigger_entry
from duetime.engine.triggers.base import instant_text

SKEW = 10 * SECOND
"""The clocks of several machines may differ by this much: for such a difference, only the next occurrence is
corrected."""
MOST_PASSED_OVER = 1_000
"""How many occurrences that ran in the future are passed over at once; a claim finds the rows of further ones."""
_LIVING = (ScheduleState.ACTIVE, ScheduleState.PAUSED, ScheduleState.ENDED)


@as_stored
def rewind(change: Change) -> Decision[None]:
    """Revise what was decided for a time that has not come yet.

    An occurrence that ran keeps its row and therefore does not run again; records of future occurrences as missed or
    skipped are removed. Retries and leases are moved to be as far from now as they were from the time at which
    they were set. A pause keeps its end, because nothing records when it was set.
    """
    writes = Writes()
    state, through = change.schedule.progress.state, change.schedule.progress.through
    if state not in _LIVING:
        return writes, None
    policy = policy_from_json(change.schedule.definition.policy)
    if through is not None and through > change.now + LEAD:
        corrected = _occur_again(writes, change, policy) and through > change.now + SKEW
    else:
        corrected = _start_held_back_in_time(writes, change, policy)
    corrected |= _continue_runs_in_time(writes, change, policy)
    if corrected:
        writes.new_runs.append(_line(change))
    return writes, None


def _occur_again(writes: Writes, change: Change, policy: Policy) -> bool:
    """Continue with the first occurrence after now that has not run. Return False if the schedule has correctly
    ended."""
    definition, progress = change.schedule
    ranges = change.reader.ranges_beyond(definition.id, change.now)
    ran = change.reader.taken_since(definition.id, change.now) - {run.due for run in ranges}
    following = next_instant(definition.trigger, change.now)
    for _ in range(MOST_PASSED_OVER):
        if following is None or following not in ran:
            break
        following = next_instant(definition.trigger, following)
    if policy.max_runs is not None and progress.run_count >= policy.max_runs:
        following = None
    if progress.state == ScheduleState.ENDED and following is None:
        return False
    for run in ranges:
        _shorten(writes, change, run)
    # An open range cannot continue at an earlier instant.
    progress = progress._replace(through=None, gap=None, next=progress.next if following is None else following)
    if following is not None and progress.state != ScheduleState.PAUSED:
        writes.move(trigger_entry(definition, policy, following))
        progress = progress._replace(state=ScheduleState.ACTIVE)
    writes.progress[definition.id] = progress
    return True


def _start_held_back_in_time(writes: Writes, change: Change, policy: Policy) -> bool:
    """Restore the time of an occurrence that an hourly limit held back until the next hour of the wrong time."""
    definition, progress = change.schedule
    if progress.next is None or progress.note is None or progress.state != ScheduleState.ACTIVE:
        return False
    at, entry = change.reader.entry_at(definition.id, NO_RUN), trigger_entry(definition, policy, progress.next)
    if at is None or at <= max(entry.at, change.now) + 2 * HOUR:
        return False
    writes.move(entry)
    return True


def _shorten(writes: Writes, change: Change, run: Run) -> None:
    """Let a range of missed or skipped occurrences end now, or remove it if all of them are still to come."""
    if run.due > change.now:
        writes.runs_gone.append(run.id)
        return
    span = missed_span(change.schedule.definition.trigger, run.due, change.now)
    added = run.number - span.number if run.number < 0 else span.number - run.number
    writes.extensions.append(Extension(run.id, span.last, added))


def _continue_runs_in_time(writes: Writes, change: Change, policy: Policy) -> bool:
    definition, progress = change.schedule
    changed = False
    for run in change.reader.live_runs(definition.id) if progress.active else ():
        entry = None
        if run.status == RunStatus.PENDING:
            entry = _start_in_time(change, policy, run)
        elif run.status == RunStatus.WAITING and run.started is not None and run.started > change.now + SKEW:
            writes.runs[run.id] = waiting = _expire_in_time(run, change.now)
            changed = True
            if progress.state == ScheduleState.ACTIVE and (until := waiting.expires or waiting.until) is not None:
                entry = run_entry(definition, policy, waiting, until)
        if entry is not None:
            changed = True
            writes.move(entry)
    return changed


def _start_in_time(change: Change, policy: Policy, run: Run) -> DueEntry | None:
    """Return the due entry of a retry, or of a run that was to start at once, if its current entry was made for a time
    that has not come yet. The last attempt shows this or, before the first attempt, the instant of the run."""
    at, last = change.reader.entry_at(run.schedule, run.id), change.reader.last_finished(run.id)
    if at is None or at <= change.now or (run.due if last is None else last) <= change.now + SKEW:
        return None
    if last is not None and at < last:
        return None  # it was already corrected
    soonest = change.now + (0 if last is None else at - last)
    return run_entry(change.schedule.definition, policy, run, Instant(soonest)) if soonest < at else None


def _expire_in_time(run: Run, now: Instant) -> Run:
    """Return a run with its original lease duration, and with a corrected deadline if that was set in the future as
    well."""
    assert run.started is not None
    ahead = run.started - now
    until = run.until
    if until is not None and (until == run.expires or run.due > now + SKEW):
        until = Instant(until - ahead)
    expires = None if run.expires is None else Instant(run.expires - ahead)
    return run._replace(started=now, until=until, expires=expires)


def _line(change: Change) -> Run:
    """Return the history entry that explains why the plan has changed."""
    definition, progress = change.schedule
    until = "" if progress.through is None else f" until {instant_text(progress.through)}"
    reason = (
        "the clock was ahead and has been corrected: the schedule continues from now. Occurrences"
        f"{until} that ran meanwhile do not run again; the others run at their time"
    )
    at = change.reader.free_due(definition.id, change.now)
    return new_run(
        change.new_id(), definition, at, RunStatus.SKIPPED, cause=Cause.MANUAL, finished=change.now, error=reason
    )
