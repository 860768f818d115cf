"""Decisions about a dead worker's runs: returned, ended as lost, or kept from killing a further process.

The last heartbeat of a worker lists its runs that had not begun. Such a run most likely has nothing to do with the
death: it returns at once, and the death does not count against it. It may have begun after that heartbeat all the same,
so this is done twice in a row at most. All other runs become suspects; `worker.suspects` says how they return.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from duetime.engine.clock import Instant
from duetime.engine.model import Attempt, Run, RunId, RunStatus, ScheduleState
from duetime.engine.policy.finish import HeldRun, Reader, end_run, pause_and_tell
from duetime.engine.policy.options import policy_for_ending
from duetime.engine.policy.record import go_on
from duetime.engine.policy.rows import earliest_start
from duetime.engine.policy.writes import Writes

MOST_DEATHS = 3
"""A run with this many deaths, the last of them with no other suspect, is not started again."""
MOST_SPARED = 2
"""How often in a row a run that had not begun is returned without counting a death."""
_BASE = 4


class Excuses:
    """Which runs of a dead worker had not begun at its last heartbeat, and how often each was spared before.

    The latter is a number in the run's row: how often, combined with the fence of the last time, so that it counts only
    if nothing happened to the run in between. Only this class computes and interprets it.
    """

    def __init__(self, not_begun: Collection[RunId] = (), spared: Mapping[RunId, int] | None = None) -> None:
        self._not_begun = frozenset(not_begun)
        self._spared = spared or {}

    def hold_for(self, run: Run) -> bool:
        return run.id in self._not_begun and self._times(run) < MOST_SPARED

    def used(self, run: Run) -> int:
        """Return the number to write when a run is spared once more."""
        return (run.fence + 1) * _BASE + self._times(run) + 1

    def _times(self, run: Run) -> int:
        fence, times = divmod(self._spared.get(run.id, 0), _BASE)
        return times if run.fence == fence + 1 else 0


NO_EXCUSES = Excuses()


def plan_rescue(held: Sequence[HeldRun], now: Instant, reader: Reader, excuses: Excuses = NO_EXCUSES) -> Writes:
    writes = Writes()
    blamed = [row for row in held if not excuses.hold_for(row.run)]
    alone = sum(row.run.deaths > 0 for row in blamed) <= 1
    for row in held:
        if policy_for_ending(row.definition.policy).at_most_once:
            _lose(writes, row, now, reader)  # it may have begun since, and must never run twice
        elif excuses.hold_for(row.run):
            writes.spared[row.run.id] = excuses.used(row.run)
            _spare(writes, row, now, reader)
        else:
            _blame(writes, row, now, reader, alone)
    return writes


def _spare(writes: Writes, held: HeldRun, now: Instant, reader: Reader) -> None:
    error = "its worker died before it began"
    run = held.run._replace(
        attempt=held.run.attempt - 1, fence=held.run.fence + 1, worker=None, started=None, error=error
    )
    go_on(writes, held, run, max(now, earliest_start(held.definition, run)), now, reader)


def _blame(writes: Writes, held: HeldRun, now: Instant, reader: Reader, alone: bool) -> None:
    error = "its worker died"
    run = _died_with(held, error)
    if run.deaths >= MOST_DEATHS and alone:
        _quarantine(writes, held, run, now, reader)
        return
    writes.attempts.append(Attempt(run.id, run.attempt, run.started, now, RunStatus.LOST, error))
    go_on(writes, held, run, max(now, earliest_start(held.definition, run)), now, reader)


def _lose(writes: Writes, held: HeldRun, now: Instant, reader: Reader) -> None:
    run = _died_with(held, "its worker died; it runs at most once, so it was not started again")
    policy = policy_for_ending(held.definition.policy)
    end_run(writes, held, policy, run._replace(status=RunStatus.LOST, finished=now), now, reader)


def _died_with(held: HeldRun, error: str) -> Run:
    return held.run._replace(deaths=held.run.deaths + 1, fence=held.run.fence + 1, worker=None, error=error)


def _quarantine(writes: Writes, held: HeldRun, run: Run, now: Instant, reader: Reader) -> None:
    """Fail the run and pause its schedule: the next occurrence would only kill another worker."""
    policy = policy_for_ending(held.definition.policy)
    error = f"quarantined: {run.deaths} workers died while they held it"
    closed = run._replace(status=RunStatus.FAILED, finished=now, error=error)
    end_run(writes, held, policy, closed, now, reader)
    progress = writes.progress[run.schedule]
    if progress.state == ScheduleState.ACTIVE:
        note = f"paused because run {run.id} was quarantined; resume it once the cause is mended"
        writes.progress[run.schedule] = pause_and_tell(writes, held.definition, policy, progress, closed, note, now)
