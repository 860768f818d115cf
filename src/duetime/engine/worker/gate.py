"""Checks the gate of a claimed run before its work."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from duetime.engine.clock import SECOND, Clock
from duetime.engine.encoding import error_text, shorten_error
from duetime.engine.errors import TRANSIENT, Refused
from duetime.engine.kind import Gates, Kind, StopReason, Work, gates_of
from duetime.engine.model import EventRow
from duetime.engine.outcome import Outcome, Returned, Skipped
from duetime.engine.policy.gates import MOST_REMEMBERED, GateGift, gate_of, give
from duetime.engine.policy.options import GateFailure, policy_for_ending
from duetime.engine.policy.record import Finished
from duetime.engine.redaction import redacted, redacted_outcome, secrets_of
from duetime.engine.store import Store
from duetime.engine.worker.lease import Lease
from duetime.engine.worker.runner import ClaimedRun, end_without_start, outcome_after_stop

log = logging.getLogger("duetime.worker")

_MOST_LOOKS: Final = 3
"""How often a gate is checked if other runs of its schedule are given something meanwhile."""
_LATER: Final = SECOND
_AWAY: Final = 5 * SECOND
NO_GATES: Final = "this worker cannot check only_if; start one with the tasks"


def check_gate(
    item: ClaimedRun, kinds: Mapping[str, Kind], store: Store, clock: Clock, lease: Lease | None, event: EventRow | None
) -> Finished | GateGift:
    """Return what the gate gave to a run whose work is to be done, or the end of a run that it does not let pass."""
    item.begun = True
    work = Work(item.claim, item.stop, item.tell, lease, event)
    outcome: Outcome | GateGift
    try:
        outcome = store.gate_gift(item.id) or _outcome(item, gates_of(kinds), store, clock, work)
    except TRANSIENT as error:
        outcome = Returned(f"the store was away when its gate was checked: {error}", _AWAY)
    except Refused:  # the run or its schedule is gone, or belongs to another worker by now
        outcome = Returned()
    if isinstance(outcome, GateGift):  # maybe of an earlier attempt, or of somebody who started the run without a check
        return outcome
    return end_without_start(item, redacted_outcome(outcome, item.claim.definition.payload), clock)


def _outcome(item: ClaimedRun, gates: Gates | None, store: Store, clock: Clock, work: Work) -> Outcome | GateGift:
    run, gate = item.claim.run, gate_of(item.claim.definition)
    if gates is None:
        return Returned(NO_GATES, _AWAY)
    for _ in range(_MOST_LOOKS):
        last = store.last_gift(run.schedule, gate)
        look = _look(work, gates, last.memory)
        if item.stop.is_set():
            # Its work has not begun, so an interrupted run is returned even if it runs at most once.
            is_over = item.stop.reason in (StopReason.CANCELLED, StopReason.TIMEOUT)
            return outcome_after_stop(item, Returned()) if is_over else Returned()
        if isinstance(look, Skipped):
            return replace(look, number=last.number + 1)
        if isinstance(look, Returned):
            return look
        gift = look._replace(gate=gate, number=last.number + 1)
        is_given = store.change_run(run.id, clock.now(), partial(give, fence=run.fence, gift=gift))
        if is_given is None:  # it was queued again
            return Returned()
        if is_given:
            return gift
    return Returned("other runs of its schedule are checked at the same time", _LATER)


def _look(work: Work, gates: Gates, memory: str | None) -> GateGift | Skipped | Returned:
    """Check the gate. If that fails, the work is done without it, or skipped if its schedule says so."""
    run, definition, _ = work.claim
    policy = policy_for_ending(definition.policy)
    try:
        look = gates.look(policy.only_if or "", memory, work)
        if not isinstance(look, Returned) and len((look.memory or "").encode()) > MOST_REMEMBERED:
            raise ValueError(f"it would remember more than {MOST_REMEMBERED // 1024} KB")
        return look
    except BaseException as error:  # an exception from a task must not end the thread that executes it
        failure = shorten_error(redacted(f"its gate failed: {error_text(error)}", secrets_of(definition.payload)))
        log.warning("run %s of %s: %s", run.id, definition.public_id, failure)
        return Skipped(failure) if policy.gate_failure == GateFailure.SKIP else GateGift(failure=failure)
