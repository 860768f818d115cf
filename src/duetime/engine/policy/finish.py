"""The single place where runs end, so that every ending updates the counts, releases queued runs and ends schedules in
the same way."""

from __future__ import annotations

import re
from typing import Final, Protocol

from duetime.engine.clock import Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.model import (
    Definition,
    Progress,
    Run,
    RunId,
    RunStatus,
    Schedule,
    ScheduleId,
    ScheduleState,
    Trouble,
    event_of,
)
from duetime.engine.outcome import Alert
from duetime.engine.policy.catch_up import next_instant
from duetime.engine.policy.follow_ups import MESSAGE_KEY, alert, end_event, follow_ups, told_text
from duetime.engine.policy.incidents import note
from duetime.engine.policy.options import AlertMode, NotifyOn, Overlap, Policy, Untaken
from duetime.engine.policy.rows import (
    FurtherWrite,
    IncidentEvent,
    MemoryWrite,
    RunEvent,
    StoredMemory,
    Tombstone,
    Writes,
    earliest_start,
    ended,
    run_entry,
    trigger_entry,
)
from duetime.engine.triggers.build import readable
from duetime.engine.value_class import NamedTuple, pattern

# Bound once: an enum lookup costs as much as a call, and every run ends here.
_COMPLETED, _WAITING, _PAUSED = RunStatus.COMPLETED, RunStatus.WAITING, ScheduleState.PAUSED
_FAILURES = frozenset({RunStatus.FAILED, RunStatus.LOST})
_RELEASING = frozenset({ScheduleState.ACTIVE, ScheduleState.PAUSED})
NOT_TAKEN = "no agent took it"
NEWER: Final = "a newer event came"
REACHED: Final = "max_runs was reached by an earlier run"
FAILED_TOO_OFTEN: Final = "paused after {} failures in a row; resume it once the problem is fixed"
QUARANTINED: Final = "paused because run {} was quarantined; resume it once the problem is fixed"
_PAUSED_ITSELF = pattern(
    "|".join(re.escape(note).replace(r"\{\}", "[0-9]+") for note in (FAILED_TOO_OFTEN, QUARANTINED))
)
"""The notes of schedules that the engine paused. Nothing else in the store shows this, so the patterns also match the
notes of earlier versions."""


class Reader(Protocol):
    """Lookups that a decision may make in the current transaction; only rare paths do."""

    def lock_owner(self, owner: str) -> None:
        """Serialize the transactions of one owner that take this lock, so that concurrent ones cannot exceed a
        quota."""

    def trigger_of(self, schedule: ScheduleId) -> str | None: ...

    def depth_of_event(self, event: int) -> int:
        """Return the depth of an event; 0 if it is not stored any more."""

    def lock_schedule(self, schedule: ScheduleId) -> Schedule | None:
        """Return a schedule as it is stored."""

    def oldest_queued(self, schedule: ScheduleId) -> Run | None: ...

    def live_runs(self, schedule: ScheduleId) -> list[Run]: ...

    def taken_since(self, schedule: ScheduleId, first: Instant) -> frozenset[Instant]:
        """Return the occurrences at or after `first` that have a row already."""

    def free_due(self, schedule: ScheduleId, due: Instant) -> Instant:
        """Return the first microsecond at or after `due` that no manual run of this schedule uses."""

    def last_attempt(self, run: RunId) -> int:
        """Return the number of the latest attempt that is stored beside the run's own row; 0 if there is none."""

    def last_retry(self, run: RunId) -> int:
        """Return the number of the latest attempt after which somebody retried the run; 0 if nobody did."""

    def last_finished(self, run: RunId) -> Instant | None:
        """Return when the last of these attempts ended."""

    def entry_at(self, schedule: ScheduleId, run: RunId) -> Instant | None:
        """Return the time of a run's entry in the due queue, or of the trigger's entry for NO_RUN; None if there is no
        entry."""

    def tombstone(self, schedule: ScheduleId) -> Tombstone | None:
        """Return what is still stored of a deleted schedule."""

    def is_key_taken(self, owner: str, key: str) -> bool: ...

    def count_living(self, owner: str, most: int) -> int:
        """Count the schedules of an owner that may still fire, up to `most`."""

    def ranges_beyond(self, schedule: ScheduleId, now: Instant) -> list[Run]:
        """Return the ranges of missed or skipped occurrences that extend beyond `now`."""

    def memory_of(self, schedule: ScheduleId) -> StoredMemory:
        """Return what a schedule remembers of its gate and of what was told."""

    def gate_gifts(self, schedule: ScheduleId) -> dict[RunId, str]:
        """Return what the gate of a schedule gave to its runs that have not ended."""

    def run_before(self, run: Run) -> Run | None:
        """Return the run of the same schedule that was due before."""


class HeldRun(NamedTuple):
    """A run with its schedule, the progress row locked."""

    run: Run
    definition: Definition
    progress: Progress


def end_run(writes: Writes, held: HeldRun, policy: Policy, closed: Run, now: Instant, reader: Reader) -> None:
    """End a run. `closed` is the run in its final status; until now it was counted as active. This also clears a
    request to stop: on a run that failed or completed, `stop` means that it was dismissed or read."""
    if closed.stop and (closed.status == _COMPLETED or closed.status in _FAILURES):
        closed = closed._replace(stop=0)
    progress = writes.progress_of(held.progress)
    failures, last_error, paused = progress.failures, closed.error, False
    if closed.status == _COMPLETED:
        failures, last_error = 0, None
    elif closed.status in _FAILURES:
        was_retried = closed.attempt > 1 and reader.last_retry(closed.id) > 0
        failures = max(1, failures) if was_retried else failures + 1  # a run that fails once more is one failed run
        recurs = progress.state == ScheduleState.ACTIVE and progress.next is not None
        paused = recurs and 0 < policy.pause_after <= failures
        is_message = held.definition.key.startswith(MESSAGE_KEY)
        trouble = Trouble.UNDELIVERED if is_message else Trouble.FAILED
        note(writes, held.definition, policy, trouble, closed.error or f"It ended as {closed.status}.", closed)
    last_run = progress.last_run if closed.started is None else closed.started
    untaken = progress.untaken
    if held.run.status == _WAITING and held.run.holder is None:
        untaken = max(0, untaken - 1)
    progress = Progress(  # `_replace` costs twice as much, and every run ends once
        progress.schedule, progress.owner, progress.kind, progress.state, progress.next, progress.through,
        progress.run_count, progress.active - 1, progress.queued, progress.gap, closed.status, last_run, last_error,
        failures, progress.note, untaken, progress.followed,
    )  # fmt: skip
    writes.runs[closed.id] = closed
    if policy.deliver_to is not None or policy.callbacks:
        is_old = policy.notify_on == NotifyOn.CHANGE and not _is_news(writes, closed, reader)
        writes.follow_ups += follow_ups(held.definition, policy, closed, now, is_old=is_old)
    if progress.followed and (closed.status == _COMPLETED or closed.status in _FAILURES):
        cause = event_of(closed.cause)
        depth = 0 if cause is None else reader.depth_of_event(cause)
        writes.ended += (end_event(held.definition, closed, now, depth),)
    if policy.is_observed:
        writes.events += (RunEvent(held.definition, closed),)
    if paused:
        reason = FAILED_TOO_OFTEN.format(failures)
        progress = pause_and_alert(writes, held.definition, policy, progress, closed, reason)
        park(writes, progress, reader)
    elif progress.queued:
        progress = release(writes, held.definition, policy, progress, now, reader)
    elif progress.next is None and progress.state == _PAUSED and not progress.active:
        progress = end_pause(writes, progress, reader)
    writes.progress[progress.schedule] = ended(progress)


def end_pause(writes: Writes, progress: Progress, reader: Reader) -> Progress:
    """End the pause of a schedule whose last run has ended, because no occurrence is left that could run after a
    resume."""
    stored = reader.lock_schedule(progress.schedule)  # a worker only has the definition from the time of the claim
    if stored is not None and stored.definition.resume_at is not None:
        writes.definitions.append(stored.definition._replace(resume_at=None))
        writes.withdraw(progress.schedule)
    return progress._replace(state=ScheduleState.ACTIVE, note=None)


def _is_news(writes: Writes, closed: Run, reader: Reader) -> bool:
    """Return whether the outcome of a run differs from the one that was told last, and note that it is told now. An
    earlier decision of this batch may have told another one, which the store does not show yet."""
    text = told_text(closed)
    if text is None:
        return False
    import hashlib  # few schedules tell only news

    digest = hashlib.sha256(text.encode()).hexdigest()
    kind = closed.schedule, "remember_told"
    earlier = [each.values[0] for each in writes.further if isinstance(each, MemoryWrite) and each[:2] == kind]
    last = earlier[-1] if earlier else reader.memory_of(closed.schedule).news
    if last != digest:
        writes.further += (MemoryWrite(closed.schedule, "remember_told", (digest,)),)
    return last != digest


def miss_untaken(
    writes: Writes, held: HeldRun, policy: Policy, now: Instant, reader: Reader, *, in_outage: bool = False
) -> None:
    """End a waiting run that nobody took. It was not executed, so it does not count towards `max_runs`: if it was to be
    the last run, the schedule continues. In an outage, such as a night's sleep of a laptop, nobody could take it."""
    run = held.run
    missed = run._replace(
        status=RunStatus.MISSED, started=None, finished=now, error=NOT_TAKEN, until=None, fence=run.fence + 1
    )
    discount(writes, held, policy, now)
    writes.due_gone.append(run_entry(held.definition, policy, run, now))
    if not in_outage:
        note(writes, held.definition, policy, Trouble.UNTAKEN, NOT_TAKEN, run)
    end_run(writes, held, policy, missed, now, reader)


def replace_untaken(
    writes: Writes, schedule: Schedule, policy: Policy, now: Instant, reader: Reader, *, in_outage: bool = False
) -> Progress:
    """End the waiting runs that nobody took before something that replaces them."""
    for run in reader.live_runs(schedule.definition.id):
        if run.status == _WAITING and run.holder is None and run.id not in writes.runs:
            miss_untaken(writes, HeldRun(run, *schedule), policy, now, reader, in_outage=in_outage)
    return writes.progress_of(schedule.progress)


def replaceable(policy: Policy, progress: Progress) -> int:
    """Return how many runs that nobody took wait beside the check of a gate, which replaces them if it lets the new run
    pass: see `gates.give`."""
    return progress.untaken if policy.only_if is not None and policy.untaken == Untaken.REPLACE else 0


def discount(writes: Writes, held: HeldRun, policy: Policy, now: Instant) -> None:
    """Take back that a run counts towards `max_runs`; if it was to be the last one, the schedule continues."""
    counted = writes.progress_of(held.progress)
    counted = counted._replace(run_count=counted.run_count - 1)
    goes_on = counted.next is None and counted.state in _RELEASING
    if goes_on and policy.max_runs is not None and counted.run_count < policy.max_runs:
        counted = counted._replace(next=_next_again(held, counted, now))
        if counted.next is not None and counted.state == ScheduleState.ACTIVE:
            writes.due_new.append(trigger_entry(held.definition, policy, counted.next))
    writes.progress[counted.schedule] = counted


def _next_again(held: HeldRun, progress: Progress, now: Instant) -> Instant | None:
    """Return the next occurrence after the deadline of an expired run, or after a later change of its schedule such as
    the end of a pause. A repeated claim asks about the same instant, whose answer is cached by then."""
    run, definition, _ = held
    expired = now if run.until is None else run.until
    try:
        return next_instant(definition.trigger, max(expired, definition.updated, progress.through or expired))
    except InvalidInput:  # a run must be able to end, whatever the state of its trigger
        return None


def pause_and_alert(
    writes: Writes, definition: Definition, policy: Policy, progress: Progress, closed: Run, reason: str
) -> Progress:
    """Pause a schedule automatically and alert its owner: nothing starts until a person resumes it, so a person has to
    know. The alert is sent once, because a paused schedule does not reach this function again."""
    text = f"{closed.name} is {reason}. The latest error: {closed.error or closed.status}"
    note(writes, definition, policy, Trouble.PAUSED, text, closed)
    if policy.deliver_to is not None:
        news = Alert(f"run:{closed.id}.{closed.fence}:paused", f"{closed.name} is paused", text)
        writes.follow_ups.append(alert(definition.owner, news, policy.deliver_to, closed))
        writes.further = tuple(_without_alert(each, definition.id) for each in writes.further)
    writes.withdraw(progress.schedule)
    return progress._replace(state=ScheduleState.PAUSED, note=reason)


def was_paused_by_engine(progress: Progress) -> bool:
    """Return whether the engine, and not a person, paused the schedule."""
    return progress.state == ScheduleState.PAUSED and _PAUSED_ITSELF.fullmatch(progress.note or "") is not None


def park(writes: Writes, progress: Progress, reader: Reader, *, retries: bool = True) -> None:
    """Make the runs of a schedule that is paused wait for its resume, including queued ones that were requested during
    an earlier pause. A retry keeps the time before which it must not start: `expires`, which it has no other use
    for. Without `retries`, only queued runs are looked at, for the next pause of a schedule that goes on."""
    for run in reader.live_runs(progress.schedule) if progress.queued or (retries and progress.active) else ():
        if run.id in writes.runs:
            continue
        if run.status == RunStatus.QUEUED and run.expires is not None:
            writes.runs[run.id] = run._replace(expires=None)
        elif retries and run.status == RunStatus.PENDING and run.attempt:
            writes.runs[run.id] = run._replace(expires=reader.entry_at(run.schedule, run.id))


def release(
    writes: Writes, definition: Definition, policy: Policy, progress: Progress, now: Instant, reader: Reader
) -> Progress:
    """Let the oldest queued run start at its instant unless an active run blocks it. While the schedule is paused, only
    a run that was requested during the pause starts. Events that waited for the gate of a run before them are skipped
    if that run was the last one that `max_runs` allows."""
    free = progress.active == replaceable(policy, progress) or policy.overlap == Overlap.ALLOW
    if progress.state not in _RELEASING or not progress.queued or not free:
        return progress
    most = None if policy.only_if is None or progress.state == _PAUSED else policy.max_runs
    if most is not None and progress.run_count - progress.queued >= most:
        for each in (*reader.live_runs(definition.id), *writes.new_runs):
            is_open = each.schedule == definition.id and each.id not in writes.runs
            if is_open and is_queued_event(each, reader):
                writes.runs[each.id] = skipped(each, REACHED, now)
                progress = progress._replace(run_count=progress.run_count - 1, queued=progress.queued - 1)
    checks_first = policy.only_if is not None and policy.overlap == Overlap.LATEST
    last = frozenset(reader.gate_gifts(definition.id)) if checks_first else frozenset[RunId]()
    run = _next_queued(writes, progress.schedule, reader, asked_for=progress.state == ScheduleState.PAUSED, last=last)
    if run is None:
        return progress
    writes.runs[run.id] = run = run._replace(status=RunStatus.PENDING, expires=None)
    at = max(now, earliest_start(definition, run, now), cooldown_end(definition, progress, now))
    writes.due_new.append(run_entry(definition, policy, run, at))
    return progress._replace(active=progress.active + 1, queued=progress.queued - 1)


def is_queued_event(run: Run, reader: Reader) -> bool:
    """Return whether an event queued a run, and nobody has requested it since."""
    is_queued = run.status == RunStatus.QUEUED and event_of(run.cause) is not None
    return is_queued and not (run.attempt and reader.last_retry(run.id))


def skipped(run: Run, reason: str, now: Instant) -> Run:
    return run._replace(status=RunStatus.SKIPPED, finished=now, error=reason, fence=run.fence + 1)


def cooldown_end(definition: Definition, progress: Progress, now: Instant) -> Instant:
    """Return when the next run of a schedule may start at the earliest: now, or after its cooldown."""
    if '"cooldown_us"' not in definition.trigger or progress.last_run is None:
        return now
    cooldown = getattr(readable(definition.trigger), "cooldown", 0)
    # a start in the future is from a clock that was ahead
    return max(now, Instant(min(progress.last_run, now) + cooldown))


def _next_queued(
    writes: Writes, schedule: ScheduleId, reader: Reader, *, asked_for: bool, last: frozenset[RunId]
) -> Run | None:
    """Return the oldest queued run after the changes of this batch; the store still shows the state before the batch.
    With `asked_for`, return only a run that was requested while the schedule was paused, which `expires` marks. Those
    in `last`, which have passed their gate, come after all others."""
    stored = writes.queues.get(schedule)
    if stored is None:
        run = reader.oldest_queued(schedule)
        open_ = run is not None and run.id not in writes.runs and run.id not in last
        if run is not None and open_ and (not asked_for or run.expires is not None):
            return run
        live = reader.live_runs(schedule) if run is not None else []
        stored = writes.queues[schedule] = [run for run in live if run.status == RunStatus.QUEUED]
    new = [run for run in writes.new_runs if run.schedule == schedule]
    for run in (*stored, *new):
        open_ = run.status == RunStatus.QUEUED and run.id not in writes.runs and run.id not in last
        if open_ and (not asked_for or run.expires is not None):
            return run
    return _next_queued(writes, schedule, reader, asked_for=asked_for, last=frozenset()) if last else None


def _without_alert(write: FurtherWrite, schedule: ScheduleId) -> FurtherWrite:
    """Keep the owner from being told of a failure twice, because a message about the pause names it, too."""
    if isinstance(write, IncidentEvent) and write.schedule == schedule:
        return write._replace(alert=AlertMode.OFF)
    return write
