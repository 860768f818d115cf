"""A worker controlled by a test: it claims and records only when it is told to."""

from __future__ import annotations

from collections.abc import Sequence

from duetime.engine.clock import Instant
from duetime.engine.kind import Caller
from duetime.engine.model import Run, RunId, Schedule, ScheduleId
from duetime.engine.outcome import Completed, Outcome
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.record import Finished, Receipt
from duetime.engine.policy.rows import Draft
from duetime.engine.queries import Queries
from duetime.engine.store import ClaimRequest, RunQuery
from duetime.stores.base import BaseStore
from tests.support.drafts import T0

LANES = ("job", "job:exact", "job:solo")
DONE = Completed('"done"')


class Hand:
    def __init__(self, store: BaseStore, name: str = "hand", now: int = T0) -> None:
        self.store = store
        self.id = store.register(name, LANES, False, Instant(now))

    def claim(self, now: int, limit: int = 100, lanes: Sequence[str] = LANES) -> list[Claim]:
        wants = [ClaimRequest(lane, limit, Instant(now)) for lane in lanes]
        return self.store.record_and_claim(self.id, Instant(now), [], wants).claims

    def record(self, claims: Sequence[Claim], now: int, outcome: Outcome = DONE) -> list[Receipt]:
        finished = [Finished(c.run.id, c.run.fence, outcome, c.run.started, Instant(now)) for c in claims]
        known = {claim.run.id: claim for claim in claims}
        return self.store.record_and_claim(self.id, Instant(now), finished, [], known).answers

    def beat_of(self) -> int:
        return next(row.beat for row in self.store.workers() if row.id == self.id)

    def die(self, now: int) -> int | None:
        """Let another worker declare this one dead."""
        return self.store.rescue(self.id, self.beat_of(), Instant(now))


def create(store: BaseStore, *drafts: Draft) -> list[Schedule]:
    result = store.create(drafts)
    return [created.schedule for created in result]


def create_one(store: BaseStore, draft: Draft) -> ScheduleId:
    return create(store, draft)[0].definition.id


def the(store: BaseStore, schedule: ScheduleId) -> Schedule:
    found = store.get(schedule)
    assert found is not None
    return found


def the_run(store: BaseStore, run: RunId) -> Run:
    found = store.run(run)
    assert found is not None
    return found


def history_of(scheduler: Queries, caller: Caller, id: str) -> list[Run]:
    """Return the runs of a schedule that a caller sees, the latest first."""
    schedule = scheduler.find(caller, id, deleted=True)
    assert schedule is not None
    return scheduler.runs(caller, RunQuery(schedule=schedule.definition.id)).items


def runs_of(store: BaseStore, schedule: ScheduleId) -> list[Run]:
    """Return the runs of a schedule, oldest first."""
    return store.runs(RunQuery(schedule=schedule, limit=10_000)).items[::-1]


def statuses(store: BaseStore, schedule: ScheduleId) -> list[str]:
    return [run.status for run in runs_of(store, schedule)]
