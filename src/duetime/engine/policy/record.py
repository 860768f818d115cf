"""Records outcomes: a run ends, waits, is retried or is returned. Also rescues the runs of a dead worker."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import assert_never

from duetime.engine.clock import Instant
from duetime.engine.model import Attempt, Cause, Progress, Run, RunId, RunStatus, ScheduleState, WorkerId
from duetime.engine.outcome import Cancelled, Completed, Failed, Outcome, Retry, Returned, Skipped, Waiting
from duetime.engine.policy.decision import Decision
from duetime.engine.policy.finish import QUARANTINED, HeldRun, Reader, end_run, park, pause_and_alert, release
from duetime.engine.policy.follow_ups import alert
from duetime.engine.policy.gates import remember, skip
from duetime.engine.policy.options import Policy, Untaken, policy_for_ending, tags_of
from duetime.engine.policy.rows import RunColumn, Writes, backoff, earliest_start, run_entry
from duetime.engine.value_class import NamedTuple

_GONE = frozenset({ScheduleState.CANCELLED, ScheduleState.DELETED})
# Bound once: an enum lookup costs as much as a call, and every run needs these.
_RUNNING, _COMPLETED = RunStatus.RUNNING, RunStatus.COMPLETED


class Finished(NamedTuple):
    """A worker's report on a run; the fence proves that the worker still holds it."""

    run: RunId
    fence: int
    outcome: Outcome
    started: Instant | None
    finished: Instant


class Receipt(StrEnum):
    RECORDED = "recorded"
    ALREADY = "already"  # an earlier write recorded it, but its acknowledgement was lost
    STALE = "stale"  # the run belongs to somebody else by now


_RECORDED = Receipt.RECORDED


def plan_settlement(
    held: Mapping[RunId, HeldRun], finished: Sequence[Finished], worker: WorkerId, now: Instant, reader: Reader
) -> Decision[list[Receipt]]:
    writes, answers = Writes(), []
    for item in finished:
        row = held.get(item.run)
        if row is None or row.run.fence != item.fence or row.run.worker != worker:
            answers.append(Receipt.STALE)
        elif row.run.status != _RUNNING or row.run.id in writes.runs:
            answers.append(Receipt.ALREADY)
        else:
            answers.append(_RECORDED)
            settle(writes, row, item, now, reader)
    return writes, answers


def settle(writes: Writes, held: HeldRun, item: Finished, now: Instant, reader: Reader) -> None:
    policy = policy_for_ending(held.definition.policy)
    run, outcome = held.run, item.outcome
    started = item.started if item.started is not None else run.started
    if isinstance(outcome, Completed):
        completed = Run(  # `_replace` costs twice as much
            run.id, run.schedule, run.cause, run.due, _COMPLETED, run.attempt, run.deaths, run.fence, run.worker,
            run.holder, started, item.finished, run.until, run.expires, outcome.result, None, run.report, run.stop,
            run.last, run.number, run.kind, run.owner, run.name,
        )  # fmt: skip
        end_run(writes, held, policy, completed, now, reader)
        if policy.only_if is not None:
            remember(writes, completed, reader)
        return
    run = run._replace(started=started, finished=item.finished)
    if isinstance(outcome, Skipped):
        skip(writes, held, policy, outcome, now, reader)
    elif isinstance(outcome, Cancelled):
        end_run(writes, held, policy, run._replace(status=RunStatus.CANCELLED, error=outcome.reason), now, reader)
    elif isinstance(outcome, Waiting):
        _wait(writes, held, run, outcome, now, reader)
    elif isinstance(outcome, Returned):
        _give_back(writes, held, run, outcome, now, reader)
    elif isinstance(outcome, Failed | Retry):
        # An attempt was made: the deadline from earlier returns is void, and a later return sets a new one.
        _retry_or_fail(writes, held, run._replace(until=None), outcome, now, reader)
    else:
        assert_never(outcome)


def _give_back(writes: Writes, held: HeldRun, run: Run, outcome: Returned, now: Instant, reader: Reader) -> None:
    """Return a run to the queue. The deadline for repeated returns is stored with it, because workers come and go."""
    until = held.run.until
    if outcome.patience is not None:
        until = Instant(now + outcome.patience) if until is None else until
        if until <= now:
            _retry_or_fail(writes, held, run, Retry(outcome.reason or "given back", outcome.after), now, reader)
            return
    failed_before = run.attempt > 1 and held.run.error is not None
    error = held.run.error if failed_before else outcome.reason or held.run.error
    back = held.run._replace(attempt=run.attempt - 1, started=None, error=error, until=until)
    at = max(Instant(now + outcome.after), earliest_start(held.definition, run, now))
    go_on(writes, held, back, at, now, reader)
    if outcome.alert is not None:  # its owner is alerted once
        _note_reason(writes, held, outcome.alert.text)
        definition = held.definition
        deliver_to, tags = policy_for_ending(definition.policy).deliver_to, tags_of(definition.policy)
        writes.follow_ups.append(alert(definition.owner, outcome.alert, deliver_to, tags=tags))
    elif outcome.after and outcome.reason is not None:
        _note_reason(writes, held, outcome.reason)


def _wait(writes: Writes, held: HeldRun, run: Run, outcome: Waiting, now: Instant, reader: Reader) -> None:
    """Let a run wait without a worker and without counting an attempt: the attempt begins when somebody takes it."""
    policy = policy_for_ending(held.definition.policy)
    state = writes.progress_of(held.progress).state
    if state in _GONE or run.stop:
        end_run(writes, held, policy, run._replace(status=RunStatus.CANCELLED, error="cancelled"), now, reader)
        return
    until = outcome.until
    if outcome.holder is None:
        begin_to_wait(writes, held, policy, now, reader)
        if policy.untaken == Untaken.EXPIRE and policy.expire_after is not None and until is None:
            until = Instant(now + policy.expire_after)
    waiting = run._replace(
        status=RunStatus.WAITING,
        finished=None,
        attempt=run.attempt if outcome.holder else run.attempt - 1,
        holder=outcome.holder,
        until=until,
        expires=until if outcome.holder else None,
    )
    writes.runs[run.id] = waiting
    if until is not None and state == ScheduleState.ACTIVE:
        writes.due_new.append(run_entry(held.definition, policy, waiting, until))


def begin_to_wait(writes: Writes, held: HeldRun, policy: Policy, now: Instant, reader: Reader) -> None:
    """Count a run that nobody has taken. What is queued is checked beside it if it may replace it."""
    count_untaken(writes, held.progress)
    if policy.only_if is not None:
        progress = writes.progress[held.run.schedule]
        writes.progress[held.run.schedule] = release(writes, held.definition, policy, progress, now, reader)


def count_untaken(writes: Writes, row: Progress, change: int = 1) -> None:
    """Count a run that begins to wait for somebody to take it or, with -1, one that was taken."""
    progress = writes.progress_of(row)
    writes.progress[progress.schedule] = progress._replace(untaken=max(0, progress.untaken + change))


def _retry_or_fail(
    writes: Writes, held: HeldRun, run: Run, outcome: Failed | Retry, now: Instant, reader: Reader
) -> None:
    policy = policy_for_ending(held.definition.policy)
    failures = run.attempt - run.deaths - (reader.last_retry(run.id) if run.attempt > 1 else 0)
    permanent = isinstance(outcome, Failed) and outcome.permanent
    if permanent or failures >= policy.max_attempts or run.stop:
        lost = isinstance(outcome, Failed) and outcome.lost
        status = RunStatus.CANCELLED if run.stop else RunStatus.LOST if lost else RunStatus.FAILED
        closed = run._replace(status=status, error=outcome.error, result=outcome.result)
        if outcome.traceback is not None:
            writes.columns.append(RunColumn("traceback", outcome.traceback, run.id))
        end_run(writes, held, policy, closed, now, reader)
        return
    finished = now if run.finished is None else run.finished
    writes.attempts.append(
        Attempt(run.id, run.attempt, run.started, finished, RunStatus.FAILED, outcome.error, outcome.traceback)
    )
    delay = outcome.after if isinstance(outcome, Retry) else 0
    delay = delay if isinstance(delay, int) else delay(failures - 1)
    at = Instant(now + backoff(policy, run.id, failures, delay))
    go_on(writes, held, run._replace(error=outcome.error, finished=None), at, now, reader)


def go_on(writes: Writes, held: HeldRun, run: Run, at: Instant, now: Instant, reader: Reader) -> None:
    """Put a run back into the queue if its schedule is active. If the schedule is paused, park the run unless somebody
    requested this very run; if it was cancelled, end the run."""
    policy = policy_for_ending(held.definition.policy)
    state = writes.progress_of(held.progress).state
    if state in _GONE or run.stop:
        closed = run._replace(status=RunStatus.CANCELLED, finished=now, error=run.error or "cancelled")
        end_run(writes, held, policy, closed, now, reader)
        return
    pending = run._replace(status=RunStatus.PENDING)
    if state == ScheduleState.ACTIVE or (state == ScheduleState.PAUSED and _is_manual(held.run, reader)):
        writes.due_new.append(run_entry(held.definition, policy, pending, at))
    else:
        pending = pending._replace(expires=at)  # as in `park`
    writes.runs[run.id] = pending


def _is_manual(run: Run, reader: Reader) -> bool:
    """Return whether somebody started or retried the run manually: that person must learn how it ends."""
    return run.cause == Cause.MANUAL or reader.last_retry(run.id) > 0


def _note_reason(writes: Writes, held: HeldRun, note: str) -> None:
    """Note on an active schedule why its run waits, until the run starts; a finished schedule needs no note."""
    progress = writes.progress_of(held.progress)
    if progress.state == ScheduleState.ACTIVE:
        writes.progress[progress.schedule] = progress._replace(note=note)


# Decisions about a dead worker's runs: each is returned, ended as lost, or quarantined before it kills another process.
# The last heartbeat of a worker lists its runs that had not begun. Such a run most likely did not cause the death: it
# returns at once, and the death does not count against it. It may still have begun after that heartbeat, so this
# happens at most twice in a row. All other runs become suspects; `worker.poison.Suspects` describes how they return.

MOST_DEATHS = 3
"""A run with this many deaths is not started again if no other suspect could have caused the last one."""
MOST_SPARED = 2
"""How many times in a row a run that had not begun is returned without counting the death."""
_BASE = 4


class Excuses:
    """The runs of a dead worker that had not begun at its last heartbeat, and how often each was spared before.

    The latter is a number in the run's row. It combines the count with the fence of the last time, so that it is valid
    only if nothing happened to the run in between. Only this class computes and interprets the number.
    """

    def __init__(self, not_begun: Collection[RunId], spared: Mapping[RunId, int] = {}) -> None:
        self._not_begun = frozenset(not_begun)
        self._spared = spared

    def applies_to(self, run: Run) -> bool:
        return run.id in self._not_begun and self._times(run) < MOST_SPARED

    def used(self, run: Run) -> int:
        """Return the number to write when a run is spared once more."""
        return (run.fence + 1) * _BASE + self._times(run) + 1

    def _times(self, run: Run) -> int:
        fence, times = divmod(self._spared.get(run.id, 0), _BASE)
        return times if run.fence == fence + 1 else 0


def plan_rescue(held: Sequence[HeldRun], now: Instant, reader: Reader, excuses: Excuses) -> Writes:
    writes = Writes()
    blamed = [row for row in held if not excuses.applies_to(row.run)]
    alone = sum(row.run.deaths > 0 for row in blamed) <= 1
    for row in held:
        if policy_for_ending(row.definition.policy).at_most_once:
            # It may have begun after the heartbeat, and must never run twice.
            run = _died_with(row, "its worker died; it runs at most once, so it was not started again")
            lost = run._replace(status=RunStatus.LOST, finished=now)
            end_run(writes, row, policy_for_ending(row.definition.policy), lost, now, reader)
        elif excuses.applies_to(row.run):
            writes.columns.append(RunColumn("spared", excuses.used(row.run), row.run.id))
            _spare(writes, row, now, reader)
        else:
            _blame(writes, row, now, reader, alone)
    return writes


def _spare(writes: Writes, held: HeldRun, now: Instant, reader: Reader) -> None:
    error = "its worker died before it began"
    run = held.run._replace(
        attempt=held.run.attempt - 1, fence=held.run.fence + 1, worker=None, started=None, error=error
    )
    go_on(writes, held, run, max(now, earliest_start(held.definition, run, now)), now, reader)


def _blame(writes: Writes, held: HeldRun, now: Instant, reader: Reader, alone: bool) -> None:
    error = "its worker died"
    run = _died_with(held, error)
    if run.deaths >= MOST_DEATHS and alone:
        _quarantine(writes, held, run, now, reader)
        return
    writes.attempts.append(Attempt(run.id, run.attempt, run.started, now, RunStatus.LOST, error))
    go_on(writes, held, run, max(now, earliest_start(held.definition, run, now)), now, reader)


def _died_with(held: HeldRun, error: str) -> Run:
    return held.run._replace(deaths=held.run.deaths + 1, fence=held.run.fence + 1, worker=None, error=error)


def _quarantine(writes: Writes, held: HeldRun, run: Run, now: Instant, reader: Reader) -> None:
    """Fail the run and pause its schedule: the next occurrence would only kill another worker."""
    policy = policy_for_ending(held.definition.policy)
    error = f"quarantined: {run.deaths} workers died while they held it"
    closed = run._replace(status=RunStatus.FAILED, finished=now, error=error)
    end_run(writes, held, policy, closed, now, reader)
    progress = writes.progress[run.schedule]
    if progress.state == ScheduleState.ACTIVE:
        note = QUARANTINED.format(run.id)
        writes.progress[run.schedule] = pause_and_alert(writes, held.definition, policy, progress, closed, note)
        park(writes, progress, reader)
