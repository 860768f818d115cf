"""Decisions about runs of schedules with a gate: what a run is given, and a run that the gate does not let pass."""

from __future__ import annotations

from duetime.engine.clock import Instant
from duetime.engine.model import Cause, Run, RunStatus
from duetime.engine.outcome import Skipped
from duetime.engine.policy.decision import Change, Decision
from duetime.engine.policy.finish import HeldRun, Reader, discount, end_run, miss_untaken
from duetime.engine.policy.gates import FIRST_LOOK, GateGift, gate_of, gift_from, memory_write, state_of
from duetime.engine.policy.options import Policy, Untaken, policy_for_ending
from duetime.engine.policy.rows import Extension, RunColumn, Writes


def give(change: Change, run: Run, *, fence: int, gift: GateGift, number: int) -> Decision[bool]:
    """Give a run what its gate saw, unless the gate has given something else since it was compared with `number`. A
    waiting run that nobody took is replaced now: as long as nothing changes, it waits."""
    definition, progress = change.schedule
    if run.status != RunStatus.RUNNING or run.fence != fence:
        return Writes(), True  # it belongs to somebody else by now, and its outcome will be stale
    reader = change.reader
    if gift.memory is not None:
        gifts = [each for each in map(gift_from, reader.gate_gifts(definition.id).values()) if each is not None]
        if state_of(gift.gate, reader.memory_of(definition.id), gifts).number != number:
            return Writes(), False
    writes = Writes(columns=[RunColumn("gate", gift.to_json(), run.id)])
    policy = policy_for_ending(definition.policy)
    if progress.untaken and policy.untaken == Untaken.REPLACE:
        for waiting in reader.live_runs(definition.id):
            if waiting.status == RunStatus.WAITING and waiting.holder is None:
                miss_untaken(writes, HeldRun(waiting, definition, progress), policy, change.now, reader)
    return writes, True


def skip(writes: Writes, held: HeldRun, policy: Policy, outcome: Skipped, now: Instant, reader: Reader) -> None:
    """End a run that its gate did not let pass. Consecutive ones share a row, to which this one is added."""
    run, before = held.run, writes.progress_of(held.progress)
    discount(writes, held, policy, now)
    closed = run._replace(
        status=RunStatus.SKIPPED, attempt=0, worker=None, started=None, finished=now, until=None, error=outcome.reason
    )
    end_run(writes, held, policy, closed, now, reader)
    progress = writes.progress[run.schedule]
    # What the page of the schedule shows of its last run stays, because this was none.
    writes.progress[run.schedule] = progress._replace(
        last_status=before.last_status or RunStatus.SKIPPED, last_error=before.last_error
    )
    if outcome.memory is not None:
        writes.further += (memory_write(run, gate_of(held.definition), outcome.number + 1, outcome.memory),)
    earlier = None if run.cause != Cause.TRIGGER or run.attempt > 1 or run.deaths else reader.run_before(run)
    if earlier is None or not _continues(earlier, outcome.reason) or earlier.id in writes.runs:
        return
    del writes.runs[run.id]
    writes.runs_gone.append(run.id)
    if earlier.error != outcome.reason:
        writes.runs[earlier.id] = earlier._replace(error=outcome.reason)
    writes.extensions.append(Extension(earlier.id, run.due, 1))


def _continues(earlier: Run, reason: str) -> bool:
    """Return whether the row of an earlier skip also stands for the next one. A row without a fence was never claimed:
    its occurrences were passed over for another reason."""
    if earlier.status != RunStatus.SKIPPED or earlier.cause != Cause.TRIGGER or not earlier.fence:
        return False
    return earlier.error in (reason, FIRST_LOOK)
