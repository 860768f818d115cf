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

LEFT = "whoever took it ended without finishing it"
"""Why a run waits again that was given back by nobody in particular."""


def not_yours(run_id: int) -> Err:
    return Err("not_yours", f"Run {run_id} is not yours to finish.")


def hold_of(run: Run) -> str:
    """Which taking of a run is meant: agents that share a token share a holder, and only this tells them apart."""
    return f"hold_{run.id}_{run.fence}"


def take(change: Change, run: Run, holder: str, lease: int, least: int = 0) -> Decision:
    """For `lease` microseconds, or as long as the schedule's own timeout says; never for less than `least`."""
    definition, progress = change.schedule
    if change.depth and definition.depth >= change.depth:  # what it schedules would be no deeper than what it does
        return changing.not_possible("taken", "as deep as what the run schedules that asks for it")
    if progress.state != ScheduleState.ACTIVE:
        return changing.not_possible("taken", progress.state)
    if run.until is not None and run.until <= change.now:
        return changing.not_possible("taken", "overdue")
    if _lapsed(run, change.now):  # a worker would free it too, but nobody has to wait for one
        run = run._replace(holder=None, expires=None)
    length = max(policy_for_ending(definition.policy).timeout or lease, least)
    decision = changing.hold(change, run, holder, Instant(change.now + length))
    if isinstance(decision, Err):
        return decision
    writes, taken = decision.value
    return Ok((writes, Held(taken, definition, progress)))


def finish(change: Change, run: Run, holder: str, outcome: Outcome, hold: str | None = None) -> Decision:
    """Without `hold` the holder alone is the proof: a late answer to an earlier taking by the same holder then counts
    for the present one, which is the same work for the same party."""
    if _lapsed(run, change.now) or hold not in (None, hold_of(run)):
        return not_yours(run.id)
    return changing.finish_held(change, run, holder, Finished(run.id, run.fence, outcome, None, change.now))


def _lapsed(run: Run, now: Instant) -> bool:
    return run.expires is not None and run.expires <= now
