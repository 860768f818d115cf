"""Everything mixed with everything by a machine that looks for the interleaving that breaks a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from duetime.engine.clock import DAY, MINUTE, SECOND, Instant
from duetime.engine.model import LIVE, Run, RunId, ScheduleId
from duetime.engine.outcome import Cancelled, Completed, Failed, Outcome, Retry, Returned, Waiting
from duetime.engine.policy import changes, checkout
from duetime.engine.policy.changes import Edit
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.record import Finished, Receipt
from duetime.engine.policy.rows import Draft
from duetime.engine.store import RunQuery
from duetime.engine.triggers import IntervalTrigger, trigger_to_json
from duetime.kinds.notifications.delivery import MESSENGER
from duetime.stores.base import BaseStore
from duetime.stores.postgres.store import PostgresStore
from duetime.stores.sqlite.store import MEMORY, SqliteStore
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand
from tests.support.invariants import check_skipped_ranges, invariants
from tests.support.refusals import attempt
from tests.support.shell import break_trigger, write
from tests.support.size import FULL

pytestmark = pytest.mark.slow

periods = st.sampled_from([SECOND, 7 * SECOND, MINUTE])
policies = st.fixed_dictionaries(
    {},
    optional={
        "overlap": st.sampled_from(["skip", "queue", "allow"]),
        "catch_up": st.sampled_from(["once", "all", "skip"]),
        "catch_up_limit": st.integers(1, 4),
        "queue_limit": st.integers(1, 3),
        "max_runs": st.integers(1, 4),
        "grace": st.sampled_from([0, 5 * SECOND]),
        "backoff": st.sampled_from([1, 3 * SECOND]),
    },
)
untaken = st.sampled_from([{}, {"untaken": "keep"}, {"untaken": "expire", "expire_after": 4 * SECOND}])
reliability = st.sampled_from([{}, {"at_most_once": True}, {"max_attempts": 3}])


class Machine(RuleBasedStateMachine):
    """Time moves on (and once in a while back); workers come, die and return from the dead."""

    opened: Callable[[], BaseStore]

    def __init__(self) -> None:
        super().__init__()
        self.now = int(T0)
        self.hands: list[Hand] = []
        self.inhand: list[tuple[Hand, Claim]] = []
        self.started: set[tuple[int, int, str]] = set()
        self.went_back = False

    schedules: Bundle[ScheduleId] = Bundle("schedules")
    claims: Bundle[tuple[Hand, Claim]] = Bundle("claims")

    @initialize()
    def begin(self) -> None:
        self.store = type(self).opened()
        self.hands = [Hand(self.store, "one"), Hand(self.store, "two")]

    def teardown(self) -> None:
        if hasattr(self, "store"):
            invariants(self.store)

    def create(self, draft: Draft) -> ScheduleId:
        result = self.store.create([draft])
        return result[0].schedule.definition.id

    @rule(
        target=schedules,
        period=periods,
        policy=policies,
        how=reliability,
        waits=untaken,
        last=st.none() | st.integers(1, 5),
    )
    def create_every(
        self, period: int, policy: dict[str, Any], how: dict[str, Any], waits: dict[str, Any], last: int | None
    ) -> ScheduleId:
        end = None if last is None else self.now + last * period
        return self.create(every(period, self.now, end=end, **policy, **how, **waits))

    @rule(target=schedules, after=st.sampled_from([0, SECOND]), policy=policies, how=reliability, waits=untaken)
    def create_once(self, after: int, policy: dict[str, Any], how: dict[str, Any], waits: dict[str, Any]) -> ScheduleId:
        return self.create(once(self.now + after, **policy, **how, **waits))

    @rule(step=st.sampled_from([1, SECOND, 3 * SECOND, 10 * SECOND, MINUTE, 10 * MINUTE]))
    def pass_time(self, step: int) -> None:
        self.now += step

    @rule(step=st.sampled_from([SECOND, 2 * MINUTE]))
    def set_the_clock_back(self, step: int) -> None:
        self.now -= step
        self.went_back = True
        for schedule in self.store.ahead(Instant(self.now), 100):
            attempt(self.store.change, schedule, Instant(self.now), changes.rewind)

    @rule(target=claims, who=st.integers(0, 1), limit=st.integers(1, 5))
    def claim(self, who: int, limit: int) -> Any:
        hand = self.hands[who]
        claims = hand.claim(self.now, limit=limit)
        assert len(claims) <= limit * 3
        for claim in claims:
            if claim.run.attempt == 1 and claim.run.fence == 1:
                occurrence = (claim.run.schedule, claim.run.due, claim.run.cause)
                assert occurrence not in self.started, "one occurrence, two runs"
                self.started.add(occurrence)
        return multiple(*[(hand, claim) for claim in claims])

    @rule(
        batch=st.lists(consumes(claims), max_size=4),
        kind=st.sampled_from(["done", "failed", "permanent", "retry", "waiting", "patient", "cancelled", "returned"]),
        twice=st.booleans(),
    )
    def record(self, batch: list[tuple[Hand, Claim]], kind: str, twice: bool) -> None:
        for hand in self.hands:
            mine = [claim for holder, claim in batch if holder is hand]
            finished = [
                Finished(claim.run.id, claim.run.fence, self.outcome(kind), claim.run.started, Instant(self.now))
                for claim in mine
            ]
            before = {claim.run.id: self.store.run(claim.run.id) for claim in mine}
            answers = self.store.record_and_claim(hand.id, Instant(self.now), finished, []).answers
            for claim, answer in zip(mine, answers, strict=True):
                if answer is not Receipt.RECORDED and answers.count(answer) == len(answers):
                    assert self.store.run(claim.run.id) == before[claim.run.id]
            if twice:
                repeated = self.store.record_and_claim(hand.id, Instant(self.now), finished, []).answers
                assert Receipt.RECORDED not in repeated

    def outcome(self, kind: str) -> Outcome:
        outcomes: dict[str, Outcome] = {
            "done": Completed("1"),
            "failed": Failed("no"),
            "permanent": Failed("never", permanent=True),
            "retry": Retry("later", 2 * SECOND),
            "waiting": Waiting(Instant(self.now + 5 * SECOND)),
            "patient": Waiting(),
            "cancelled": Cancelled(),
            "returned": Returned(),
        }
        return outcomes[kind]

    @rule(who=st.integers(0, 1))
    def die(self, who: int) -> None:
        assert self.hands[who].die(self.now) is not None
        self.hands[who] = Hand(self.store, "anew", self.now)

    @rule(who=st.integers(0, 1))
    def beat(self, who: int) -> None:
        self.store.beat(self.hands[who].id, Instant(self.now), {})

    @rule(schedule=schedules, verb=st.sampled_from(["pause", "resume", "resume", "cancel", "delete", "fire", "fire"]))
    def change(self, schedule: ScheduleId, verb: str) -> None:
        attempt(self.store.change, schedule, Instant(self.now), getattr(changes, verb))

    @rule(schedule=schedules, how=st.sampled_from([changes.restore, partial(changes.delete, forever=True)]))
    def restore_or_drop(self, schedule: ScheduleId, how: Callable[[changes.Change], changes.Decision[Any]]) -> None:
        attempt(self.store.change, schedule, Instant(self.now), how)

    @rule()
    def tell(self) -> None:
        self.store.tell_incidents(Instant(self.now))
        self.store.drop_tombstones(Instant(self.now - DAY))

    @rule(schedule=schedules, length=st.sampled_from([SECOND, 10 * SECOND, 10 * MINUTE]))
    def pause_for_a_while(self, schedule: ScheduleId, length: int) -> None:
        end = Instant(self.now + length)
        attempt(self.store.change, schedule, Instant(self.now), lambda change: changes.pause(change, end))

    @rule(schedule=schedules, period=st.none() | periods, policy=st.none() | st.sampled_from(["{}", '{"max_runs":1}']))
    def edit(self, schedule: ScheduleId, period: int | None, policy: str | None) -> None:
        trigger = None
        if period is not None:
            made = IntervalTrigger(timezone="UTC", period=period, anchor=Instant(self.now))
            trigger = trigger_to_json(made)
        patch = Edit(name="edited", trigger=trigger, policy=policy)
        attempt(self.store.change, schedule, Instant(self.now), lambda change: changes.edit(change, patch))

    @rule(schedule=schedules, subject=st.sampled_from(["inbox", "coder"]))
    def assign(self, schedule: ScheduleId, subject: str) -> None:
        patch = Edit(subject=subject)
        attempt(self.store.change, schedule, Instant(self.now), lambda change: changes.edit(change, patch))

    @rule(schedule=schedules, ahead=st.sampled_from([0, SECOND, MINUTE]))
    def move(self, schedule: ScheduleId, ahead: int) -> None:
        patch = Edit(next=Instant(self.now + ahead))
        attempt(self.store.change, schedule, Instant(self.now), lambda change: changes.edit(change, patch))

    @rule(schedule=schedules)
    def break_it(self, schedule: ScheduleId) -> None:
        break_trigger(self.store, schedule)

    @rule(schedule=schedules, pick=st.integers(0, 20), verb=st.sampled_from(["retry", "cancel_run", "hold", "finish"]))
    def change_run(self, schedule: ScheduleId, pick: int, verb: str) -> None:
        runs = self.store.runs(RunQuery(schedule=schedule)).items
        if not runs:
            return
        run = runs[pick % len(runs)]
        if verb in ("retry", "cancel_run"):
            attempt(self.store.change_run, run.id, Instant(self.now), getattr(changes, verb))
        elif verb == "hold":
            self.hold(run.id)
        else:
            self.finish(run, self.outcome(["done", "failed", "waiting"][pick % 3]))

    def hold(self, run: RunId) -> None:
        expires = Instant(self.now + 3 * SECOND)
        attempt(
            self.store.change_run,
            run,
            Instant(self.now),
            lambda change, seen: checkout.hold(change, seen, "ann", expires),
        )

    def finish(self, run: Run, outcome: Outcome) -> None:
        hold = checkout.hold_of(run)
        attempt(
            self.store.change_run,
            run.id,
            Instant(self.now),
            lambda change, seen: checkout.finish(change, seen, "ann", outcome, hold),
        )

    @rule()
    def prune(self) -> None:
        live = {run.id for status in LIVE for run in self.store.runs(RunQuery(status=status, limit=10_000)).items}
        self.store.prune(Instant(self.now), 50)
        self.store.trim(1, Instant(self.now), 50)
        assert all(self.store.run(run) is not None for run in live)

    @invariant()
    def everything_fits_together(self) -> None:
        if hasattr(self, "store"):
            invariants(self.store)
            if not self.went_back:
                check_skipped_ranges(self.store)


@contextmanager
def machine_on(opened: Callable[[], BaseStore]) -> Iterator[type[Machine]]:
    yield type("Machine", (Machine,), {"opened": staticmethod(opened)})


@pytest.mark.parametrize("examples", [12, pytest.param(150 if FULL else 50, marks=pytest.mark.later)])
def test_sqlite(examples: int) -> None:
    stores: list[SqliteStore] = []

    def opened() -> BaseStore:
        for earlier in stores:
            earlier.close()
        stores[:] = [SqliteStore(MEMORY, messenger=MESSENGER)]
        stores[0].migrate()
        return stores[0]

    with machine_on(opened) as machine:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=40,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )


def test_postgres(clean_postgres_url: str) -> None:
    store = PostgresStore(clean_postgres_url, messenger=MESSENGER)
    store.migrate()
    tables = "schedules, progress, due, runs, run_logs, attempts, workers, incidents, tombstones"

    def opened() -> BaseStore:
        write(store, f"TRUNCATE {tables}")
        return store

    try:
        with machine_on(opened) as machine:
            run_state_machine_as_test(
                machine,
                settings=settings(
                    max_examples=50 if FULL else 10,
                    stateful_step_count=30,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
    finally:
        store.close()
