"""Waiting runs change hands: somebody takes one for a while, and says what became of it."""

from __future__ import annotations

from duetime.core.clock import Instant
from duetime.core.model import Run, ScheduleState
from duetime.core.outcome import Outcome
from duetime.core.policy import changing
from duetime.core.policy.changing import Change, Decision
from duetime.core.policy.ending import Held
from duetime.core.policy.settling import Finished
from duetime.core.policy.values import policy_for_ending
from duetime.core.result import Err, Ok


def not_yours(run_id: int) -> Err:
    return Err("not_yours", f"Run {run_id} is not yours to finish.")


def take(change: Change, run: Run, holder: str, lease: int) -> Decision:
    """For `lease` microseconds, or as long as the schedule's own timeout says."""
    definition, progress = change.schedule
    if progress.state != ScheduleState.ACTIVE:
        return changing.not_possible("taken", progress.state)
    if run.until is not None and run.until <= change.now:
        return changing.not_possible("taken", "overdue")
    if _lapsed(run, change.now):  # a worker would free it too, but nobody has to wait for one
        run = run._replace(holder=None, expires=None)
    length = policy_for_ending(definition.policy).timeout or lease
    decision = changing.hold(change, run, holder, Instant(change.now + length))
    if isinstance(decision, Err):
        return decision
    writes, taken = decision.value
    return Ok((writes, Held(taken, definition, progress)))


def finish(change: Change, run: Run, holder: str, outcome: Outcome) -> Decision:
    """The holder alone is the proof, for agents are given no fence: a late answer to an earlier hold of the same holder
    counts for the present one, which is the same work for the same party."""
    if _lapsed(run, change.now):
        return not_yours(run.id)
    return changing.finish_held(change, run, holder, Finished(run.id, run.fence, outcome, None, change.now))


def _lapsed(run: Run, now: Instant) -> bool:
    return run.expires is not None and run.expires <= now
