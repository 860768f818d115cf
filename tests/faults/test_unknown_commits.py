"""A commit whose answer got lost: the worker asks what it holds, and every occurrence is recorded once."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from duetime.engine.clock import SECOND, SystemClock
from duetime.engine.errors import StoreUnavailable
from duetime.engine.kind import Caller, Work
from duetime.engine.outcome import Failed, Outcome
from duetime.engine.policy.record import Receipt
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import RunQuery
from duetime.engine.validation import NewSchedule
from duetime.engine.worker.threads import Engine
from duetime.engine.worker.worker import Worker, WorkerOptions
from tests.faults.conftest import RealStore
from tests.support.drafts import once
from tests.support.hand import create
from tests.support.invariants import invariants
from tests.support.unreliable import AFTER, BEFORE, Line, Play, Unreliable
from tests.support.workers import eventually

CLOCK = SystemClock()


def due(number: int, **policy: Any) -> list[Any]:
    now = CLOCK.now() - SECOND
    return [once(now, created=now, **policy) for _ in range(number)]


def insistent(worker: Worker) -> None:
    """Goes on as the engine does: a store that is away is tried again."""
    worker.notice()
    while True:
        try:
            if not worker.record_and_claim():
                return
        except StoreUnavailable:
            worker.notice()


@pytest.mark.parametrize("fault", [BEFORE, AFTER])
@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize("exact", [False, True])
def test_a_lost_answer_changes_nothing(store: RealStore, fault: str, call: int, exact: bool) -> None:
    """The first exchange claims, the second records: either may be written or not, and the worker cannot know."""
    create(store, *due(5, at_most_once=exact))
    kind, unsure = Play(), Unreliable(store, {call: fault})
    worker = Worker(unsure, {"job": kind}, CLOCK, WorkerOptions())
    insistent(worker)
    runs = store.runs(RunQuery()).items
    assert [(run.status, run.attempt) for run in runs] == [("completed", 1)] * 5
    assert Counter(kind.begun) == {run.id: 1 for run in runs}
    assert Counter(unsure.answers)[Receipt.RECORDED] == 5
    assert (Receipt.ALREADY in unsure.answers) == (fault == AFTER and call == 2)
    assert worker.claimed == {}
    invariants(store)


def test_a_run_that_was_given_back_and_claimed_again_in_doubt_is_started(store: RealStore) -> None:
    """Its old record must not take the new claim out of the worker's hands."""
    create(store, *due(1))
    unsure = Unreliable(store, {2: AFTER})
    worker = Worker(unsure, {"job": Play()}, CLOCK, WorkerOptions())
    line = worker.executor = Line(1)
    worker.record_and_claim()
    assert len(line.items) == 1
    worker.give_back_unstarted()
    worker.notice()
    with pytest.raises(StoreUnavailable):
        worker.record_and_claim()  # gives it back and claims it once more, in one commit of which nobody hears
    worker.record_and_claim()
    assert len(line.items) == 1, "it is in line again"
    assert [item.claim.run.fence for item in worker.claimed.values()] == [line.items[0].claim.run.fence]
    worker.execute(line.items.pop())
    worker.record_and_claim()
    assert [(run.status, run.attempt) for run in store.runs(RunQuery()).items] == [("completed", 1)]
    assert worker.claimed == {}
    invariants(store)


def test_a_whole_engine_on_an_unreliable_store_runs_everything_once(store: RealStore) -> None:
    """Seeded: of three exchanges one is lost, on the way there or on the way back. Failures are retried as usual."""
    create(store, *due(300), *due(20, max_attempts=3, backoff=1, subject="fails"), *due(20, at_most_once=True))
    chance = random.Random(7)
    plan = {call: chance.choice((BEFORE, AFTER)) for call in range(1, 60) if chance.random() < 0.33}

    def act(work: Work) -> Outcome:
        if work.claim.definition.subject == "fails" and work.claim.run.attempt == 1:
            return Failed("the first time")
        return done(work)

    kind, done = Play(act=act), Play().execute
    unsure = Unreliable(store, plan)
    engine = Engine(unsure, {"job": kind}, CLOCK, WorkerOptions(threads=4, batch=20))
    engine.start()
    eventually(lambda: store.runs(RunQuery(status="completed", limit=1)).total == 340, 30, "all runs end")
    assert engine.stop() == 0
    assert engine.failure is None
    runs = store.runs(RunQuery(limit=1000)).items
    fails = {run.id for run in runs if run.attempt == 2}
    assert len(runs) == 340
    assert len(fails) == 20
    assert Counter(kind.begun) == {run.id: 2 if run.id in fails else 1 for run in runs}
    assert Counter(unsure.answers)[Receipt.RECORDED] == 360
    assert unsure.calls > 5
    invariants(store)


@pytest.mark.parametrize("fault", [BEFORE, AFTER])
def test_a_create_whose_answer_was_lost_is_made_once(store: RealStore, fault: str) -> None:
    unsure = Unreliable(store, {1: fault}, "create")
    scheduler = Scheduler(unsure, {"job": Play()}, CLOCK)
    scheduler.create(Caller("ada"), NewSchedule("job", "tea", "interval", {"minutes": 5}, {}))
    assert store.health(CLOCK.now()).schedules == 1
    invariants(store)
