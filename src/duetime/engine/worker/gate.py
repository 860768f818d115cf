"""Checks the gate of a claimed run before its work."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Final

from duetime.engine.clock import SECOND, Clock
from duetime.engine.encoding import error_text, shorten_error
from duetime.engine.errors import TRANSIENT, Refused
from duetime.engine.kind import STOPPED, GateLook, Gates, Kind, StopReason, Work, gates_of
from duetime.engine.outcome import Cancelled, Failed, Outcome, Returned, Skipped
from duetime.engine.policy.gate_runs import give
from duetime.engine.policy.gates import MOST_REMEMBERED, GateGift, digest_of
from duetime.engine.policy.options import GateFailure, policy_for_ending
from duetime.engine.policy.record import Finished
from duetime.engine.redaction import redacted, redacted_outcome, secrets_of
from duetime.engine.store import Store
from duetime.engine.worker.lease import Lease
from duetime.engine.worker.runner import ClaimedRun

log = logging.getLogger("duetime.worker")

_MOST_LOOKS: Final = 3
"""How often a gate is checked if other runs of its schedule are given something meanwhile."""
_LATER: Final = SECOND
_AWAY: Final = 5 * SECOND
NO_GATES: Final = "this worker cannot check only_if; start one with the tasks"


def check_gate(
    item: ClaimedRun, kinds: Mapping[str, Kind], store: Store, clock: Clock, lease: Lease | None
) -> Finished | GateGift:
    """Return what the gate gave to a run whose work is to be done, or the end of a run that it does not let pass."""
    item.begun = True
    run = item.claim.run
    outcome: Outcome | GateGift
    try:
        outcome = _outcome(item, kinds, store, clock, lease)
    except TRANSIENT as error:
        outcome = Returned(f"the store was away when its gate was checked: {error}", _AWAY)
    except Refused:  # the run or its schedule is gone
        outcome = Returned()
    if isinstance(outcome, GateGift):
        return outcome
    return Finished(run.id, run.fence, redacted_outcome(outcome, item.claim.definition.payload), None, clock.now())


def _outcome(
    item: ClaimedRun, kinds: Mapping[str, Kind], store: Store, clock: Clock, lease: Lease | None
) -> Outcome | GateGift:
    run, policy = item.claim.run, policy_for_ending(item.claim.definition.policy)
    assert policy.only_if is not None
    gate, gates = digest_of(policy.only_if), gates_of(kinds)
    for _ in range(_MOST_LOOKS):
        gift, state = store.gate_state(run, gate)
        if gift is not None:  # of an earlier attempt, or somebody started the run without a check
            return gift
        if gates is None:
            return Returned(NO_GATES, _AWAY)
        look = _look(item, gates, policy.only_if, state.memory, lease)
        if item.stop.is_set():
            return _stopped(item)
        if isinstance(look, Returned):
            return look
        if isinstance(look, GateLook):
            if look.reason is not None:
                return Skipped(look.reason, look.memory, state.number)
            gift = GateGift(gate, state.number + 1, look.memory, look.result)
        elif policy.gate_failure == GateFailure.SKIP:
            return Skipped(look)
        else:
            gift = GateGift(gate, failure=look)
        if store.change_run(run.id, clock.now(), partial(give, fence=run.fence, gift=gift, number=state.number)):
            return gift
    return Returned("other runs of its schedule are checked at the same time", _LATER)


def _look(
    item: ClaimedRun, gates: Gates, gate: str, memory: str | None, lease: Lease | None
) -> GateLook | Returned | str:
    """Return what the gate saw, or why it could not be checked."""
    definition = item.claim.definition
    try:
        look = gates.look(gate, memory, Work(item.claim, item.stop, item.tell, lease))
        if isinstance(look, GateLook) and len((look.memory or "").encode()) > MOST_REMEMBERED:
            raise ValueError(f"it would remember more than {MOST_REMEMBERED // 1024} KB")
        return look
    except BaseException as error:  # an exception from a task must not end the thread that executes it
        failure = redacted(f"its gate failed: {error_text(error)}", secrets_of(definition.payload))
        log.warning("run %s of %s: %s", item.id, definition.public_id, failure)
        return shorten_error(failure)


def _stopped(item: ClaimedRun) -> Outcome:
    """Return the outcome of a run that was stopped while its gate was checked: its work has not begun."""
    reason = item.stop.reason
    if reason is StopReason.CANCELLED:
        return Cancelled(STOPPED[reason])
    if reason is StopReason.TIMEOUT:
        return Failed(f"timed out after {(item.timeout or 0) / SECOND:g} s, while its gate was checked")
    return Returned()
