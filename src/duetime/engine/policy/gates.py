"""What gates remember, and what they give to runs.

A gate compares what it sees with its memory. A run that it lets pass is given what it saw, before the work begins. That
becomes the memory with the run's success, in the same transaction, so that a change is not lost if the run fails. While
such a run waits or runs, the gate compares with what that run was given. Numbers order what was given, because runs do
not end in that order.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from duetime.engine.encoding import json_object
from duetime.engine.model import Definition, Run, RunId, ScheduleId
from duetime.engine.policy.follow_ups import result_text, told_text
from duetime.engine.policy.options import policy_for_ending
from duetime.engine.policy.rows import MemoryWrite, Writes

MOST_REMEMBERED: Final = 16 * 1024
"""Maximum bytes that the gate of a schedule remembers, and also of the result that it gives to a run."""
FIRST_LOOK: Final = "this was the first look of its gate, with which later ones are compared"


class StoredMemory(NamedTuple):
    """The row of a schedule that remembers something."""

    gate: str | None
    number: int
    memory: str | None
    news: str | None
    """The digest of the outcome that was told last."""


NO_MEMORY: Final = StoredMemory(None, 0, None, None)


class MemoryReader(Protocol):
    """Lookups in the current transaction; only decisions about schedules that remember something make them."""

    def memory_of(self, schedule: ScheduleId) -> StoredMemory:
        """Return what a schedule remembers of its gate and of what was told."""

    def gate_gifts(self, schedule: ScheduleId) -> dict[RunId, str]:
        """Return what the gate of a schedule gave to its runs that have not ended."""

    def run_before(self, run: Run) -> Run | None:
        """Return the run of the same schedule that was due before."""


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


def gift_from(text: str | None) -> GateGift | None:
    stored = None if text is None else json_object(text)
    return None if stored is None else GateGift(**{name: stored[name] for name in GateGift._fields if name in stored})


class GateState(NamedTuple):
    """What a gate is compared with now."""

    number: int
    memory: str | None


def digest_of(gate: str) -> str:
    return hashlib.sha256(gate.encode()).hexdigest()[:16]


def state_of(gate: str, stored: StoredMemory, gifts: Iterable[GateGift]) -> GateState:
    """Return the latest of what the gate remembers and of what it gave to runs that have not ended."""
    own = stored.gate == gate
    states = [GateState(stored.number, stored.memory if own else None)]
    states += [GateState(each.number, each.memory) for each in gifts if each.gate == gate and each.memory is not None]
    return max(states, key=lambda state: state.number)


def remember(writes: Writes, completed: Run, reader: MemoryReader) -> None:
    """Make what a run was given the memory of its gate, because the run succeeded."""
    gift = gift_from(reader.gate_gifts(completed.schedule).get(completed.id))
    if gift is not None and gift.memory is not None:
        writes.further += (memory_write(completed, gift.gate, gift.number, gift.memory),)


def is_news(writes: Writes, closed: Run, reader: MemoryReader) -> bool:
    """Return whether the outcome of a run differs from the one that was told last, and note that it is told now. An
    earlier decision of this batch may have told another one, which the store does not show yet."""
    text = told_text(closed)
    if text is None:
        return False
    digest = hashlib.sha256(text.encode()).hexdigest()
    kind = closed.schedule, "remember_told"
    earlier = [each.values[0] for each in writes.further if isinstance(each, MemoryWrite) and each[:2] == kind]
    last = earlier[-1] if earlier else reader.memory_of(closed.schedule).news
    if last != digest:
        writes.further += (MemoryWrite(closed.schedule, "remember_told", (digest,)),)
    return last != digest


def gate_of(definition: Definition) -> str:
    """Return the digest of the gate of a schedule; empty if it has none."""
    only_if = policy_for_ending(definition.policy).only_if
    return "" if only_if is None else digest_of(only_if)


def memory_write(run: Run, gate: str, number: int, memory: str) -> MemoryWrite:
    """Return the memory of a gate from now on, unless the stored one has a later number or belongs to another gate."""
    return MemoryWrite(run.schedule, "remember_gate", (gate, number, memory))


def reset_gate(before: Definition, after: Definition) -> tuple[MemoryWrite, ...]:
    """Return what an edit of a schedule writes if it changes the gate, which then begins with a first look."""
    gate = gate_of(after)
    return () if gate == gate_of(before) else (MemoryWrite(after.id, "reset_gate", (gate,)),)
