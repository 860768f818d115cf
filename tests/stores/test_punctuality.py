"""Nothing starts or is decided before its instant, and nothing waits longer than that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND, Instant
from duetime.engine.model import RunStatus, WorkerId
from duetime.engine.outcome import Returned
from duetime.engine.policy.catch_up import LEAD
from duetime.engine.policy.fair_share import Turns
from duetime.engine.policy.rows import start_of
from duetime.engine.store import ClaimRequest
from duetime.engine.triggers import IntervalTrigger
from duetime.engine.worker.runner import ClaimedRun
from duetime.engine.worker.worker import Worker, WorkerOptions
from duetime.stores.base import BaseStore
from duetime.testing import SettableClock
from tests.support.drafts import T0, draft, every, once
from tests.support.hand import Hand, create, create_one, runs_of, statuses, the
from tests.support.unreliable import Line, Play
from tests.support.workers import ShiftedClock

MILLISECOND = SECOND // 1000
DUE = Instant(T0 + MINUTE)


class Slow:
    """A store whose transactions take a while by the settable clock, and that counts them."""

    def __init__(self, store: BaseStore, clock: SettableClock, commit: int = 0) -> None:
        self._store, self._clock, self._commit = store, clock, commit
        self.exchanges = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def record_and_claim(self, *given: Any) -> Any:
        self.exchanges += 1
        done = self._store.record_and_claim(*given)
        self._clock.move_to(Instant(self._clock.now() + self._commit))
        return done


class Refusing:
    """A store that cannot claim the entry of a certain instant, alone or with others."""

    def __init__(self, store: BaseStore, instant: Instant) -> None:
        self._store, self._instant = store, instant

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def record_and_claim(
        self, worker: WorkerId, now: Instant, finished: Any, wants: Sequence[ClaimRequest], *more: Any
    ) -> Any:
        for want in wants:
            first = self._store.earliest([want.lane])
            there = self._store.earliest([want.lane], after=Instant(self._instant - 1))
            reached = there is not None and there.at == self._instant <= want.until
            if reached and (want.limit > 1 or want.lead or first == there):
                raise RuntimeError("cannot be stored")
        return self._store.record_and_claim(worker, now, finished, wants, *more)


class Waiting(Worker):
    """A worker without a timer that remembers for how long it should have waited."""

    def start_later(self, seconds: float, item: ClaimedRun) -> None:
        self.waits = [*getattr(self, "waits", []), seconds]
        self.executor.put([item])


def worker_on(store: Any, clock: Any) -> tuple[Waiting, Line]:
    worker = Waiting(store, {"job": Play()}, clock, WorkerOptions(lead=LEAD, lease=3600.0))
    worker.executor = line = Line(16)
    worker.register()
    return worker, line


def at(offset: float) -> Instant:
    """Milliseconds from the due instant."""
    return Instant(DUE + int(offset * MILLISECOND))


def claim_ahead(store: BaseStore, hand: Hand, now: int, until: int) -> Sequence[Any]:
    return store.record_and_claim(hand.id, Instant(now), [], [ClaimRequest("job", 100, Instant(until))]).claims


# -- what was claimed ahead -------------------------------------------------------------------------------------


@pytest.mark.parametrize("jitter", [0, 20 * SECOND])
def test_a_queued_run_is_released_at_its_instant_and_not_before(store: BaseStore, hand: Hand, jitter: int) -> None:
    trigger = IntervalTrigger(timezone="UTC", period=MINUTE, anchor=T0, jitter=jitter)
    schedule = create_one(store, draft(trigger, DUE, overlap="queue"))
    definition = the(store, schedule).definition
    (first,) = hand.claim(DUE + 30 * SECOND)
    start = start_of(definition, trigger, Instant(DUE + MINUTE))
    claim_ahead(store, hand, start - 50 * MILLISECOND, start)
    hand.record([first], start - 40 * MILLISECOND)
    assert hand.claim(start - 1) == []
    (second,) = hand.claim(start)
    assert (second.run.due, second.run.started) == (DUE + MINUTE, start)


def test_what_is_given_back_before_its_instant_starts_at_its_instant(store: BaseStore, hand: Hand) -> None:
    create_one(store, once(DUE))
    claims = claim_ahead(store, hand, at(-50), DUE)
    hand.record(claims, at(-40), Returned())
    assert hand.claim(at(-1)) == []
    assert len(hand.claim(DUE)) == 1


def test_a_rescue_before_its_instant_starts_nothing_early(store: BaseStore, hand: Hand) -> None:
    create_one(store, once(DUE))
    claim_ahead(store, hand, at(-50), DUE)
    hand.die(at(-40))
    other = Hand(store, "other")
    assert other.claim(at(-1)) == []
    assert len(other.claim(DUE)) == 1


def test_the_time_that_the_commit_takes_is_part_of_the_wait(store: BaseStore) -> None:
    clock = SettableClock(at(-100))
    worker, _ = worker_on(Slow(store, clock, 40 * MILLISECOND), clock)
    create(store, once(DUE))
    worker.record_and_claim()
    assert worker.waits == [0.06]


def test_a_commit_that_takes_longer_than_the_lead_delays_nothing_further(store: BaseStore) -> None:
    clock = SettableClock(at(-100))
    worker, line = worker_on(Slow(store, clock, 130 * MILLISECOND), clock)
    create(store, once(DUE))
    worker.record_and_claim()
    assert not hasattr(worker, "waits")
    assert len(line.items) == 1


# -- what is decided at its instant -----------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", ["skip", "queue", "allow"])
def test_a_busy_schedule_is_decided_at_its_instant(store: BaseStore, overlap: str) -> None:
    """The run before ends within the last 100 ms: by the instant there is nothing to overlap with."""
    clock = SettableClock(DUE)
    slow = Slow(store, clock)
    worker, line = worker_on(slow, clock)
    schedule = create_one(store, every(MINUTE, overlap=overlap, grace=0, catch_up="skip"))
    worker.record_and_claim()
    clock.move_to(at(60_000 - 70))
    worker.notice()
    worker.record_and_claim()
    assert statuses(store, schedule) == ["running"]
    worker.execute(line.items.pop())
    worker.record_and_claim()
    clock.move_to(at(60_000))
    worker.record_and_claim()
    assert [(run.due, run.status) for run in runs_of(store, schedule)] == [
        (DUE, RunStatus.COMPLETED),
        (DUE + MINUTE, RunStatus.RUNNING),
    ]


def test_a_schedule_that_is_still_busy_at_its_instant_follows_its_overlap(store: BaseStore) -> None:
    clock = SettableClock(DUE)
    worker, _ = worker_on(store, clock)
    skipping, queueing = create(store, every(MINUTE), every(MINUTE, overlap="queue", grace=0, catch_up="skip"))
    worker.record_and_claim()
    clock.move_to(at(60_004))
    worker.record_and_claim()
    assert statuses(store, skipping.definition.id) == ["running", "skipped"]
    assert statuses(store, queueing.definition.id) == ["running", "queued"], "a moment after its instant is not late"


def test_a_worker_looks_again_exactly_at_the_instant_of_a_busy_schedule(store: BaseStore) -> None:
    clock = SettableClock(DUE)
    slow = Slow(store, clock)
    worker, _ = worker_on(slow, clock)
    create(store, every(MINUTE))
    while worker.record_and_claim():
        pass
    clock.move_to(at(60_000 - 100))
    before = slow.exchanges
    while worker.record_and_claim():
        pass
    assert worker.seconds_to_look() == 0.1
    assert slow.exchanges == before + 1
    clock.move_to(at(60_000 - 1))
    assert worker.record_and_claim() is False
    assert slow.exchanges == before + 1, "until then the store is left in peace"


def test_what_stands_behind_a_busy_schedule_is_still_claimed_ahead(store: BaseStore) -> None:
    clock = SettableClock(DUE)
    worker, line = worker_on(store, clock)
    create(store, every(MINUTE))
    while worker.record_and_claim():
        pass
    create(store, once(at(60_000 + 30)), once(at(60_000 + 10)))
    clock.move_to(at(60_000 - 90))
    worker.notice()
    while worker.record_and_claim():
        pass
    assert [item.claim.at for item in line.items] == [DUE, at(60_000 + 10)]
    assert worker.seconds_to_look() == pytest.approx(0.02), "for the one behind"
    clock.move_to(at(60_000 - 70))
    while worker.record_and_claim():
        pass
    assert [item.claim.at for item in line.items] == [DUE, at(60_000 + 10), at(60_000 + 30)]
    assert worker.seconds_to_look() == pytest.approx(0.07), "for the instant of the busy one"


def test_a_claim_ahead_waits_a_little_for_an_exchange_that_comes_anyway(store: BaseStore) -> None:
    clock = SettableClock(at(-200))
    worker, line = worker_on(store, clock)
    create(store, once(at(0)), once(at(5)), once(at(10)))
    while worker.record_and_claim():
        pass
    assert worker.seconds_to_look() == 0.1
    assert worker.seconds_to_look(latest=True) == 0.1375, "more than half of the lead is left"
    clock.move_to(at(-100))
    worker.record_and_claim()
    assert [item.claim.at for item in line.items] == [at(0)]
    clock.move_to(at(-90))
    assert worker.seconds_to_look() == 0, "the next two can be claimed"
    assert worker.seconds_to_look(latest=True) == pytest.approx(0.0325), "and nothing has to be done yet"
    worker.execute(line.items[0])
    worker.record_and_claim()
    assert [item.claim.at for item in line.items] == [at(0), at(5), at(10)], "the exchange that records claims both"


def test_what_is_decided_at_its_instant_is_not_put_off(store: BaseStore) -> None:
    clock = SettableClock(DUE)
    worker, _ = worker_on(store, clock)
    create(store, every(MINUTE))
    while worker.record_and_claim():
        pass
    clock.move_to(at(60_000 - 100))
    while worker.record_and_claim():
        pass
    assert worker.seconds_to_look() == worker.seconds_to_look(latest=True) == 0.1
    worker.notice()
    assert worker.seconds_to_look(latest=True) == 0


@pytest.mark.parametrize("owners", [5, 120])
@pytest.mark.parametrize("turns", [None, Turns()], ids=["by time", "in turns"])
def test_busy_schedules_at_the_head_of_the_queue_starve_nobody(
    store: BaseStore, hand: Hand, turns: Turns | None, owners: int
) -> None:
    create(store, *(every(MINUTE, owner=f"owner {number}") for number in range(owners)))
    hand.claim(DUE, limit=200)
    idle = create_one(store, once(at(60_000 + 50), owner="zoe"))
    now = at(60_000 - 40)
    found = store.record_and_claim(
        hand.id, now, [], [ClaimRequest("job", 2, Instant(now + LEAD), turns=turns, lead=LEAD)]
    )
    assert [claim.definition.id for claim in found.claims] == [idle]


def test_a_busy_schedule_is_not_set_aside_for_another_one_that_cannot_be_claimed(store: BaseStore) -> None:
    clock = SettableClock(DUE)
    worker, _ = worker_on(Refusing(store, at(60_000 + 10)), clock)
    busy = create_one(store, every(MINUTE))
    while worker.record_and_claim():
        pass
    culprit = create_one(store, once(at(60_000 + 10)))
    for moment, state in ((-60, "active"), (10, "broken")):
        clock.move_to(at(60_000 + moment))
        worker.notice()
        while worker.record_and_claim():
            pass
        assert [the(store, each).progress.state for each in (busy, culprit)] == ["active", state]


# -- the store's own clock --------------------------------------------------------------------------------------


def test_a_worker_whose_clock_is_a_day_ahead_claims_nothing_early(store: BaseStore) -> None:
    real = store.now()
    if real is None:
        pytest.skip("a store without a clock of its own goes by this machine's")
    now = Instant(real)
    minutely = create_one(store, every(MINUTE, now - MINUTE - SECOND, created=now))
    create(store, once(now + HOUR, created=now), once(now + HOUR, created=now, at_most_once=True))
    worker, line = worker_on(store, ShiftedClock(DAY / SECOND))
    for _ in range(3):
        worker.notice()
        worker.record_and_claim()
    assert [item.claim.run.due for item in line.items] == [now - SECOND]
    assert the(store, minutely).progress.next == now - SECOND + MINUTE, "nothing was caught up with that is yet to come"


def test_a_settable_clock_is_not_bound_by_the_store_s(store: BaseStore) -> None:
    """A simulation may be years ahead of the server that it runs on."""
    worker, line = worker_on(store, SettableClock(DUE))
    create(store, once(DUE))
    worker.record_and_claim()
    assert len(line.items) == 1
