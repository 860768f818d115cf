"""Exchanges with the store that isolate whatever cannot be stored or claimed, so that everything else continues."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence, Set
from contextlib import suppress
from typing import TypeAlias

from duetime.engine.clock import Clock, Instant
from duetime.engine.errors import TRANSIENT, NotFound, Refused, StoreUnusable, WorkerGone
from duetime.engine.model import RunId, ScheduleId, WorkerId
from duetime.engine.outcome import Failed, Returned
from duetime.engine.policy.catch_up import LEAD, Answers, Question
from duetime.engine.policy.changes import Change, Decision, rewind
from duetime.engine.policy.claim import Claim, mark_broken
from duetime.engine.policy.fair_share import Budget
from duetime.engine.policy.record import Finished
from duetime.engine.policy.rows import Writes
from duetime.engine.store import ClaimRequest, Planned, Store
from duetime.engine.triggers.step_budget import OutOfSteps
from duetime.engine.worker.runner import ClaimedRun

log = logging.getLogger("duetime.worker")

UNSTORABLE = Failed("its outcome could not be stored; the worker's log says why", permanent=True)

Done: TypeAlias = tuple[ClaimedRun, Finished]


def record_and_claim_in_parts(
    store: Store,
    worker: WorkerId,
    now: Instant,
    batch: Sequence[Done],
    wants: Sequence[ClaimRequest],
    budget: Budget | int | None = None,
    answers: Answers | None = None,
    unrecorded: Collection[ScheduleId] = (),
    planned: Planned | None = None,
) -> tuple[list[Claim], int, Sequence[Question]]:
    """Record a batch and claim runs; if that fails, split the exchange until the cause is isolated. With `planned`,
    another thread may already be claiming, which would mislead the search, so the error is raised instead."""
    known = {item.id: item.claim for item, _ in batch}
    finished = [finished for _, finished in batch]
    try:
        more = () if planned is None else (planned,)
        done = store.record_and_claim(worker, now, finished, wants, known, budget, answers, unrecorded, *more)
        return done.claims, done.seen, done.postponed
    except (WorkerGone, StoreUnusable, *TRANSIENT):
        raise
    except Exception as error:
        if planned is not None:
            raise
        parts = _halves(store, now, batch, wants, error)
    results = [
        record_and_claim_in_parts(store, worker, now, done, requests, budget, answers, unrecorded)
        for done, requests in parts
    ]
    claims = [claim for claims, _, _ in results for claim in claims]
    return claims, sum(seen for _, seen, _ in results), [question for _, _, left in results for question in left]


def _halves(
    store: Store, now: Instant, batch: Sequence[Done], wants: Sequence[ClaimRequest], error: Exception
) -> list[tuple[Sequence[Done], Sequence[ClaimRequest]]]:
    """Return the smaller exchanges to try instead; none if the cause was set aside."""
    if batch and wants:
        return [(batch, ()), ((), wants)]
    if len(batch) > 1:
        middle = len(batch) // 2
        return [(batch[:middle], ()), (batch[middle:], ())]
    if batch:
        item, finished = batch[0]
        if finished.outcome == UNSTORABLE:
            raise error
        log.error("the outcome of run %s could not be stored: %s", item.id, error)
        return [([(item, finished._replace(outcome=UNSTORABLE))], ())]
    if len(wants) > 1:
        return [((), [want._replace(turns=None)]) for want in wants]  # then the first entry of the lane is claimed
    if wants[0].limit > 1:
        return [((), [wants[0]._replace(limit=wants[0].limit // 2, turns=None)])]
    if wants[0].turns is not None:
        return [((), [wants[0]._replace(turns=None)])]
    if wants[0].lead:  # ahead of now, busy schedules are skipped, so the lane's first entry may not be the cause
        return [((), [wants[0]._replace(until=Instant(wants[0].until - wants[0].lead), lead=0)])]
    entry = store.earliest([wants[0].lane])
    if entry is None:
        raise error
    log.error("schedule %s cannot be claimed and is set aside: %s", entry.schedule, error)
    with suppress(NotFound):
        store.change(entry.schedule, now, lambda change: _set_aside(change, type(error).__name__))
    return []


def _set_aside(change: Change, reason: str) -> Decision[None]:
    writes = Writes()
    mark_broken(writes, *change.schedule, reason)
    return writes, None


def count_from(store: Store, clock: Clock, batch: int) -> None:
    """Rewind to the present all schedules about which something was decided in the future while the clock was ahead."""
    after, more = 0, True
    while more:
        ahead = store.ahead(Instant(clock.now() + LEAD), batch, after)
        for schedule in ahead:
            after = schedule
            with suppress(Refused):
                store.change(schedule, clock.now(), _rewind)
        more = len(ahead) == batch


def _rewind(change: Change) -> Decision[None]:
    """Rewind a schedule. A row that cannot be read is set aside, because it would otherwise be found again and
    again."""
    try:
        return rewind(change)
    except (OutOfSteps, *TRANSIENT):
        raise
    except Refused as refusal:
        return _set_aside(change, refusal.message)
    except Exception as error:
        return _set_aside(change, type(error).__name__)


# Limits on how many suspects a worker executes at once. A suspect is a run that a worker process held when it died.

IDLE_SECONDS = 5.0
"""Seconds without suspects after which the next group again starts with one run."""


class Suspects:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._under_way: dict[RunId, ClaimedRun] = {}
        self._parked: list[ClaimedRun] = []
        self._workers: Set[WorkerId] = frozenset()
        self._last = clock.monotonic()
        self.start_small()

    def start_small(self) -> None:
        """Reset the group sizes to one: after a death, and when a worker starts."""
        self._allowed = {False: 1, True: 1}

    def forget(self) -> None:
        """Drop all suspects, because they now belong to other workers."""
        self._under_way.clear()
        self._parked.clear()
        self.start_small()

    def look_at(self, workers: Iterable[WorkerId]) -> None:
        """Reset the group sizes if a worker has disappeared, because one of its runs may have killed it."""
        present = frozenset(workers)
        if self._workers - present:
            self.start_small()
        self._workers = present

    def capacity(self) -> int:
        """Return how many more suspects may be claimed."""
        if self._parked:
            return 0
        if not self._under_way and self._clock.monotonic() - self._last > IDLE_SECONDS:
            self.start_small()
        return max(0, self._allowed[self._are_repeated()] - len(self._under_way))

    def admit(self, items: list[ClaimedRun]) -> list[ClaimedRun]:
        """Return the runs that may start now, in order; the others start when `ended` returns them."""
        suspects = [item for item in items if item.claim.run.deaths]
        if not suspects:
            return items
        earlier, self._parked = self._parked, [*self._parked, *suspects]
        released = self._release()
        waiting = {id(item) for item in self._parked}
        return [item for item in earlier if item in released] + [item for item in items if id(item) not in waiting]

    def ended(self, done: Iterable[tuple[ClaimedRun, Finished]]) -> list[ClaimedRun]:
        """Return the suspects that may start now. Each suspect that was executed without killing this process allows
        one more of the same sort at once."""
        for item, finished in done if self._under_way else ():
            if self._under_way.get(item.id) is item:
                del self._under_way[item.id]
                self._last = self._clock.monotonic()
                if not isinstance(finished.outcome, Returned):
                    self._allowed[_is_repeated(item)] += 1
        return self._release() if self._parked else []

    def take_back(self, stalled: float = 0.0) -> list[ClaimedRun]:
        """Remove and return suspects that have not started `stalled` seconds after their claim, because another worker
        may have capacity."""
        if not self._parked:
            return []
        latest = self._clock.monotonic() - stalled
        taken = [item for item in self._parked if item.since <= latest]
        self._parked = [item for item in self._parked if item.since > latest]
        return taken

    def _release(self) -> list[ClaimedRun]:
        released = []
        for item in sorted(self._parked, key=lambda item: -item.claim.run.deaths):
            repeated = _is_repeated(item)
            if self._under_way and (
                self._are_repeated() != repeated or len(self._under_way) >= self._allowed[repeated]
            ):
                continue
            self._under_way[item.id] = item
            released.append(item)
        self._parked = [item for item in self._parked if self._under_way.get(item.id) is not item]
        return released

    def _are_repeated(self) -> bool:
        """Return whether the suspects in flight have several deaths each; all suspects in flight are of the same
        sort."""
        return any(_is_repeated(item) for item in self._under_way.values())


def _is_repeated(item: ClaimedRun) -> bool:
    return item.claim.run.deaths > 1
