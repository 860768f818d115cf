"""Decisions about waiting runs: a holder takes a run under a lease and reports its outcome."""

from __future__ import annotations

from duetime.engine.clock import Instant
from duetime.engine.errors import Conflict
from duetime.engine.model import HELD_BACK, Run, RunStatus, Schedule, ScheduleState, Trouble, is_held_back
from duetime.engine.outcome import Outcome, Returned
from duetime.engine.policy.decision import Change, Decision, as_stored, not_possible
from duetime.engine.policy.finish import HeldRun
from duetime.engine.policy.incidents import note
from duetime.engine.policy.options import policy_for_ending, policy_from_json
from duetime.engine.policy.record import Finished, begin_to_wait, count_untaken, settle
from duetime.engine.policy.rows import Writes, run_entry

LEFT = "the agent that took it ended without finishing it"
"""The reason for which a run waits again if its holder ended without giving one."""


def was_left(run: Run) -> bool:
    """Return whether the run's last holder ended without giving a reason. The next time, such a run is handed out
    alone, so that it cannot keep other runs from being done."""
    return run.error == LEFT


def not_yours(run_id: int) -> Conflict:
    return Conflict(f"Run {run_id} is not yours to finish.", code="not_yours")


def hold_of(run: Run) -> str:
    """Identify one checkout of a run: agents that share a token are the same holder, and only this value tells them
    apart."""
    return f"hold_{run.id}_{run.fence}"


def take(change: Change, run: Run, holder: str, lease: int, least: int = 0) -> Decision[HeldRun]:
    """Take a run for `lease` microseconds, or for its schedule's timeout if set; never for less than `least`."""
    definition, progress = change.schedule
    if change.depth and definition.depth >= change.depth:  # its depth was raised after it was found
        raise not_possible("taken", "as deep as what the run schedules that asks for it")
    if progress.state != ScheduleState.ACTIVE:
        raise not_possible("taken", progress.state)
    if run.until is not None and run.until <= change.now:
        raise not_possible("taken", "overdue")
    if _is_lapsed(run, change.now):  # a worker would release it too, but there is no need to wait for one
        run = run._replace(holder=None, expires=None)
        freed = progress._replace(untaken=progress.untaken + 1)
        change = change._replace(schedule=Schedule(definition, freed))
    length = max(policy_for_ending(definition.policy).timeout or lease, least)
    writes, taken = hold(change, run, holder, Instant(change.now + length))
    return writes, HeldRun(taken, definition, writes.progress[definition.id])


@as_stored
def hold(change: Change, run: Run, holder: str, expires: Instant) -> Decision[Run]:
    """Assign a waiting run to a holder, who alone may finish it until the lease expires."""
    definition, progress = change.schedule
    if run.status != RunStatus.WAITING or run.holder is not None:
        raise not_possible("taken", run.status)
    policy = policy_from_json(definition.policy)
    taken = run._replace(
        holder=holder, expires=expires, fence=run.fence + 1, attempt=run.attempt + 1, started=change.now
    )
    writes = Writes(runs={run.id: taken})
    count_untaken(writes, progress, -1)
    writes.move(run_entry(definition, policy, taken, expires))
    return writes, taken


def finish(change: Change, run: Run, holder: str, outcome: Outcome, hold: str | None = None) -> Decision[Run]:
    """Finish a taken run. Without `hold`, being the holder is sufficient: a late answer to an earlier checkout by the
    same holder then counts for the current one, which is the same work for the same party."""
    is_held = run.status == RunStatus.WAITING and run.holder == holder and not _is_lapsed(run, change.now)
    if not is_held or hold not in (None, hold_of(run)):
        raise not_yours(run.id)
    definition, progress = change.schedule
    writes = Writes()
    policy = policy_for_ending(definition.policy)
    writes.due_gone.append(run_entry(definition, policy, run, change.now))
    handed_over = run.until is not None and run.until == run.expires  # handed to an agent that answers later
    if isinstance(outcome, Returned) and not handed_over:  # back to waiting, without being admitted again
        error = outcome.reason or run.error
        back = run._replace(attempt=run.attempt - 1, started=None, fence=run.fence + 1, error=error)
        writes.runs[run.id] = back._replace(holder=None, expires=None)
        begin_to_wait(writes, HeldRun(run, definition, progress), policy, change.now, change.reader)
        if run.until is not None and progress.state == ScheduleState.ACTIVE:
            writes.due_new.append(run_entry(definition, policy, run, run.until))
        return writes, writes.runs[run.id]
    # it was already counted as taken
    freed = run._replace(status=RunStatus.RUNNING, holder=None, until=None, expires=None)
    item = Finished(run.id, run.fence, outcome, None, change.now)
    settle(writes, HeldRun(freed, definition, progress), item, change.now, change.reader)
    return writes, writes.runs[run.id]


def hold_back(change: Change, run: Run, holder: str, reason: str) -> Decision[Run]:
    """Keep a run whose executor is away: no deadline passes meanwhile. An incident says so, once."""
    if run.status != RunStatus.WAITING or run.holder != holder or is_held_back(run):
        raise not_possible("held back", run.status)
    definition = change.schedule.definition
    policy = policy_for_ending(definition.policy)
    held = run._replace(error=f"{HELD_BACK}{reason}", until=None, expires=None)
    writes = Writes(runs={run.id: held}, due_gone=[run_entry(definition, policy, run, change.now)])
    note(writes, definition, policy, Trouble.HELD, reason)
    return writes, held


def hand_over_again(change: Change, run: Run, holder: str) -> Decision[Run]:
    """Let a run that was held back begin now, with its whole timeout."""
    if run.holder != holder or not is_held_back(run):
        raise not_possible("handed over", run.status)
    definition, progress = change.schedule
    policy = policy_for_ending(definition.policy)
    until = None if policy.timeout is None else Instant(change.now + policy.timeout)
    again = run._replace(error=None, until=until, expires=until, started=change.now)
    writes = Writes(runs={run.id: again})
    if until is not None and progress.state == ScheduleState.ACTIVE:
        writes.due_new.append(run_entry(definition, policy, again, until))
    return writes, again


def _is_lapsed(run: Run, now: Instant) -> bool:
    return run.expires is not None and run.expires <= now
