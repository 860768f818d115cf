"""Executes one claimed run. Whatever its kind does, exactly one outcome is returned."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from duetime.engine.clock import SECOND, Clock
from duetime.engine.encoding import clean_text, error_text
from duetime.engine.errors import TRANSIENT
from duetime.engine.kind import STOPPED, Kind, StopReason, StopSignal, Work
from duetime.engine.model import EventRow, RunId, WorkerId, event_of
from duetime.engine.outcome import Cancelled, Completed, Failed, Outcome, Retry, Returned, Waiting
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.gates import GateGift
from duetime.engine.policy.options import policy_for_ending
from duetime.engine.policy.record import Finished
from duetime.engine.redaction import redacted, redacted_outcome, secrets_of
from duetime.engine.store import Store
from duetime.engine.tracebacks import traceback_of
from duetime.engine.worker.lease import Lease

log = logging.getLogger("duetime.worker")


class ClaimedRun:
    """A claimed run in this process."""

    __slots__ = ("begun", "claim", "id", "over", "report", "reported", "since", "stop", "worker")

    def __init__(self, claim: Claim, worker: WorkerId, since: float = 0.0) -> None:
        """`since` is the time of the claim on the monotonic clock, so that a jump of the wall clock makes no run look
        stalled."""
        self.id: RunId = claim.run.id
        self.claim, self.worker, self.since = claim, worker, since
        self.stop = StopSignal()
        self.begun = False
        self.over = False  # its thread is free again
        self.report: str | None = None
        self.reported = True

    @property
    def timeout(self) -> int | None:
        return policy_for_ending(self.claim.definition.policy).timeout

    def tell(self, text: str) -> None:
        """Keep a progress report for the next heartbeat, cleaned, because text that cannot be stored would make the
        heartbeat fail."""
        self.report, self.reported = clean_text(text[:500]), False


def execute_run(
    item: ClaimedRun,
    kinds: Mapping[str, Kind],
    clock: Clock,
    lease: Lease | None = None,
    event: EventRow | None = None,
    gift: GateGift | None = None,
) -> Finished:
    item.begun = True
    started = clock.now()
    definition, run = item.claim.definition, item.claim.run
    outcome: Outcome
    try:
        outcome = kinds[definition.kind].execute(Work(item.claim, item.stop, item.tell, lease, event, gift))
        if type(outcome) is not Completed or item.stop.is_set():
            outcome = _stored_outcome(item, outcome)
    except BaseException as error:  # an exception from a task must not end the thread that executes it
        outcome = failure_of(item, error)
    return Finished(run.id, run.fence, outcome, started, clock.now())


def load_event(item: ClaimedRun, store: Store, clock: Clock) -> EventRow | Finished | None:
    """Return the event that started a run, if one did, or the end of a run whose event is gone. Without the store, no
    attempt begins."""
    number = event_of(item.claim.run.cause)
    if number is None:
        return None
    try:
        event = store.event(number)
    except TRANSIENT:
        return end_without_start(item, Returned(), clock)
    error = "the event that started it is no longer stored, so it cannot run again; send the event again"
    return event or end_without_start(item, Failed(error, permanent=True), clock)


def _stored_outcome(item: ClaimedRun, outcome: Outcome) -> Outcome:
    if not isinstance(outcome, Outcome):  # a kind may come from another package and return anything
        raise TypeError(f"its kind returned {type(outcome).__name__} instead of an outcome")
    if item.stop.is_set():
        outcome = outcome_after_stop(item, outcome)
    return redacted_outcome(outcome, item.claim.definition.payload)


def failure_of(item: ClaimedRun, error: BaseException) -> Outcome:
    """Return the outcome of a run that raised. If describing the error also fails, only its type is kept and logged,
    because its text may contain secrets."""
    definition = item.claim.definition
    try:
        trace = traceback_of(error)
        text = redacted(trace, secrets_of(definition.payload))
        log.error("run %s of %s failed\n%s", item.id, definition.public_id, text)
        is_permanent = getattr(error, "permanent", False) is True
        return _stored_outcome(item, Failed(error_text(error), permanent=is_permanent, traceback=trace))
    except BaseException as second:
        names = type(error).__name__, type(second).__name__
        log.error("run %s of %s failed: %s; describing it raised %s", item.id, definition.public_id, *names)
        return Failed(f"{names[0]}; its message cannot be shown")


def end_without_start(item: ClaimedRun, outcome: Outcome, clock: Clock) -> Finished:
    """Return the end of a run of which no start is recorded: its work did not begin, or nobody knows."""
    return Finished(item.id, item.claim.run.fence, outcome, None, clock.now())


def outcome_after_stop(item: ClaimedRun, outcome: Outcome) -> Outcome:
    """Return the outcome of a run that was told to stop. A thread cannot be killed, so a run that returns after its
    timeout has failed. Its result is kept, because an agent may have done and used a lot by then."""
    reason = item.stop.reason
    assert reason is not None
    if reason is StopReason.TIMEOUT:
        result = outcome.result if isinstance(outcome, Completed | Failed | Retry) else None
        trace = outcome.traceback if isinstance(outcome, Failed | Retry) else None
        return Failed(f"timed out after {(item.timeout or 0) / SECOND:g} s", result=result, traceback=trace)
    if isinstance(outcome, Completed | Cancelled):
        return outcome
    if reason is StopReason.CANCELLED:
        return Cancelled(STOPPED[reason])
    if isinstance(outcome, Waiting):
        return outcome  # it was handed over: executing it again would wake the agent a second time
    # Interrupted. After a lost lease, the outcome counts only if nobody rescued the run; otherwise its fence is stale.
    if not policy_for_ending(item.claim.definition.policy).at_most_once:
        return Returned()  # it runs again, as after a crash
    error = f"{STOPPED[reason]}; it runs at most once, so it was not started again"
    return Failed(error, lost=reason is StopReason.LEASE)


# Executors execute runs: `Pool` in its threads, `InlineExecutor` in the calling thread.


class RunExecutor(Protocol):
    size: int

    def put(self, items: Sequence[ClaimedRun]) -> None: ...

    def take_back(self, before: float | None = None) -> list[ClaimedRun]:
        """Remove and return all runs that have not started, or those claimed before `before` (monotonic clock) and
        those queued behind them."""

    def head(self) -> ClaimedRun | None: ...

    @property
    def free(self) -> int: ...


class InlineExecutor:
    """Executes runs in the calling thread, one after the other."""

    size = 250

    def __init__(self, execute: Callable[[ClaimedRun], None]) -> None:
        self._execute = execute

    def put(self, items: Sequence[ClaimedRun]) -> None:
        for item in items:
            self._execute(item)

    def take_back(self, before: float | None = None) -> list[ClaimedRun]:
        return []

    def head(self) -> ClaimedRun | None:
        return None

    @property
    def free(self) -> int:
        return 1
