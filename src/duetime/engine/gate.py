"""The interface of gates: the condition `only_if` of a schedule, which is checked before its work. The kind that knows
the tasks implements it as its attribute `gates`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller, Kind, Work
from duetime.engine.outcome import Returned


class GateLook(NamedTuple):
    """What a gate saw."""

    reason: str | None
    """Why it lets nothing pass; None if it does."""
    memory: str | None = None
    """What it remembers, as JSON, once the work succeeds, or at once if it lets nothing pass; None if it remembers
    nothing new."""
    result: str | None = None
    """What the work gets, as JSON."""


class Gates(Protocol):
    def check(self, gate: str, caller: Caller) -> None:
        """Check the gate of a new or edited schedule. Raises InvalidInput, naming the field."""

    def look(self, gate: str, memory: str | None, work: Work) -> GateLook | Returned:
        """Check whether the work is to be done. May raise: the gate failed. A run whose tasks this worker does not know
        is returned."""


def gates_of(kinds: Mapping[str, Kind]) -> Gates | None:
    return next((kind.gates for kind in kinds.values() if hasattr(kind, "gates")), None)


def check_gate_of(kinds: Mapping[str, Kind], gate: str, caller: Caller) -> None:
    """Check a gate. Raises InvalidInput."""
    gates = gates_of(kinds)
    if gates is None:
        raise InvalidInput(field="only_if", problem="needs the kind of work that has the tasks; leave it out")
    gates.check(gate, caller)
