"""What gates remember, what they give to runs, and runs that they do not let pass.

A gate compares what it sees with its memory. A run that it lets pass is given what it saw, before the work begins. That
becomes the memory with the run's success, in the same transaction, so that a change is not lost if the run fails. While
such a run waits or runs, the gate compares with what that run was given. Numbers order what was given, because runs do
not end in that order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from duetime.engine.clock import Instant
from duetime.engine.model import Cause, Definition, Run, RunStatus, ScheduleId, ScheduleState, event_of
from duetime.engine.outcome import Skipped
from duetime.engine.policy.decision import Change, Decision, not_possible
from duetime.engine.policy.finish import (
    NEWER,
    HeldRun,
    Reader,
    discount,
    end_run,
    is_queued_event,
    release,
    replace_untaken,
    skipped,
)
from duetime.engine.policy.follow_ups import result_text
from duetime.engine.policy.options import NotifyOn, Overlap, Policy, Untaken, policy_for_ending
from duetime.engine.policy.rows import Extension, MemoryWrite, RunColumn, StoredMemory, Writes
from duetime.engine.value_class import NamedTuple

MOST_REMEMBERED: Final = 16 * 1024
"""Maximum bytes that the gate of a schedule remembers, and also of the result that it gives to a run."""
FIRST_LOOK: Final = "this was the first look of its gate, with which later ones are compared"


class GateGift(NamedTuple):
    """What the gate gave to a run, as the run keeps it."""

    gate: str = ""
    number: int = 0
    memory: str | None = None
    """What the gate remembers once the run succeeds, as JSON."""
    result: str | None = None
    """What the work gets, as JSON."""
    failure: str | None = None
    """Why the gate could not be checked, so that the work is done without it."""
    is_forced: bool = False
    """Whether somebody started the run without a check of the gate."""

    @property
    def text(self) -> str:
        """What people and agents read of it."""
        return self.failure or result_text(self.result)

    def to_json(self) -> str:
        return json.dumps({name: value for name, value in self._asdict().items() if value}, ensure_ascii=False)


def gift_from(text: str) -> GateGift:
    return GateGift(**json.loads(text))


def gate_of(definition: Definition) -> str:
    """Return the digest of the gate of a schedule; empty if it has none."""
    only_if = policy_for_ending(definition.policy).only_if
    if only_if is None:
        return ""
    import hashlib  # few schedules have one

    return hashlib.sha256(only_if.encode()).hexdigest()[:16]


def last_of(gate: str, stored: StoredMemory, gifts: Iterable[str]) -> GateGift:
    """Return the latest of what a gate remembers and of what it gave to runs that have not ended."""
    remembered = GateGift(gate, stored.number, stored.memory if stored.gate == gate else None)
    later = [each for each in map(gift_from, gifts) if each.gate == gate and each.memory is not None]
    return max([remembered, *later], key=lambda each: each.number)


def give(change: Change, run: Run, *, fence: int, gift: GateGift) -> Decision[bool | None]:
    """Give a run what its gate saw, unless the gate has given something else since it was compared. A waiting run that
    nobody took is replaced now: as long as nothing changes, it waits. Return None if the run waits until the gate was
    checked for newer events."""
    definition, progress = change.schedule
    if run.status != RunStatus.RUNNING or run.fence != fence:
        raise not_possible("given anything", run.status)  # it belongs to somebody else by now
    reader = change.reader
    if gift.memory is not None:
        last = last_of(gift.gate, reader.memory_of(definition.id), reader.gate_gifts(definition.id).values())
        if gift.number != last.number + 1:
            return Writes(), False
    writes = Writes(columns=[RunColumn("gate", gift.to_json(), run.id)])
    policy = policy_for_ending(definition.policy)
    if progress.untaken and policy.untaken == Untaken.REPLACE:
        replace_untaken(writes, change.schedule, policy, change.now, reader)
    goes_on = progress.state == ScheduleState.ACTIVE and not run.stop
    if policy.overlap == Overlap.LATEST and goes_on and event_of(run.cause) is not None:
        return writes, _is_newest(writes, change, policy, run) or None
    return writes, True


def _is_newest(writes: Writes, change: Change, policy: Policy, run: Run) -> bool:
    """End the run of an earlier event that has passed the gate, because this one has, too. Return whether no newer
    event is left to check; otherwise, queue the run again, and let the next one be checked."""
    (definition, before), reader, now = change.schedule, change.reader, change.now
    gifts = reader.gate_gifts(definition.id)
    queued = [each for each in reader.live_runs(definition.id) if is_queued_event(each, reader)]
    for each in queued:
        if each.id in gifts:
            writes.runs[each.id] = skipped(each, NEWER, now)
            discount(writes, HeldRun(each, definition, before), policy, now)
            progress = writes.progress[definition.id]
            writes.progress[definition.id] = progress._replace(queued=progress.queued - 1)
    if all(each.id in gifts for each in queued):
        return True
    progress = writes.progress_of(before)
    progress = progress._replace(active=progress.active - 1, queued=progress.queued + 1)
    after = release(writes, definition, policy, progress, now, reader)
    if after.active == progress.active:  # nothing else may start
        writes.progress[definition.id] = after._replace(active=after.active + 1, queued=after.queued - 1)
        return True
    writes.progress[definition.id] = after
    writes.runs[run.id] = run._replace(
        status=RunStatus.QUEUED, attempt=run.attempt - 1, worker=None, started=None, fence=run.fence + 1
    )
    return False


def remember(writes: Writes, completed: Run, reader: Reader) -> None:
    """Make what a run was given the memory of its gate, because the run succeeded."""
    gift = gift_from(reader.gate_gifts(completed.schedule).get(completed.id, "{}"))
    if gift.memory is not None:
        values = gift.gate, gift.number, gift.memory
        writes.further += (MemoryWrite(completed.schedule, "remember_gate", values),)


def reset_memory(before: Definition, after: Definition) -> Iterator[MemoryWrite]:
    """Yield what an edit of a schedule makes it forget: a gate that changes begins with a first look. With another
    `notify_on`, nobody notes what is told, and another topic was told nothing, so that `change` begins by telling
    whatever comes next."""
    gate = gate_of(after)
    if gate != gate_of(before):
        yield MemoryWrite(after.id, "reset_gate", (gate,))
    policies = [policy_for_ending(each.policy) for each in (before, after)]
    ways = {(policy.notify_on, policy.deliver_to) for policy in policies}
    if len(ways) > 1 and NotifyOn.CHANGE in {policy.notify_on for policy in policies}:
        yield MemoryWrite(after.id, "forget_told")


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
    if outcome.memory is not None and not _is_of_a_live_run(outcome.memory, run.schedule, reader):
        values = gate_of(held.definition), outcome.number, outcome.memory
        writes.further += (MemoryWrite(run.schedule, "remember_gate", values),)
    earlier = None if run.cause != Cause.TRIGGER or run.attempt > 1 or run.deaths else reader.run_before(run)
    if earlier is None or not _continues(earlier, outcome.reason) or earlier.id in writes.runs:
        return
    del writes.runs[run.id]
    writes.runs_gone.append(run.id)
    if earlier.error != outcome.reason:
        writes.runs[earlier.id] = earlier._replace(error=outcome.reason)
    writes.extensions.append(Extension(earlier.id, run.due, 1))


def _is_of_a_live_run(memory: str, schedule: ScheduleId, reader: Reader) -> bool:
    """Return whether a look that lets nothing pass may contain, for another of its steps, what a run was given that has
    not ended. Only the success of that run may make it the memory."""
    return len(json.loads(memory)) > 1 and any(gift_from(gift).memory for gift in reader.gate_gifts(schedule).values())


def _continues(earlier: Run, reason: str) -> bool:
    """Return whether the row of an earlier skip also stands for the next one. A row without a fence was never claimed:
    its occurrences were passed over for another reason."""
    if earlier.status != RunStatus.SKIPPED or earlier.cause != Cause.TRIGGER or not earlier.fence:
        return False
    return earlier.error in (reason, FIRST_LOOK)
