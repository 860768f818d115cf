"""Edits, pauses and resumes in any order: a schedule that is active goes on firing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from duetime.engine.clock import DAY, HOUR, MINUTE, Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.engine.limits import Limits
from duetime.engine.model import ScheduleState
from duetime.engine.policy import changes
from duetime.engine.policy.claim import Claim
from duetime.engine.validation import Changes, Drafter
from duetime.kinds.notifications.delivery import MESSENGER
from duetime.stores.base import BaseStore
from duetime.stores.postgres.store import PostgresStore
from duetime.stores.sqlite.store import MEMORY, SqliteStore
from tests.support.drafts import T0, every
from tests.support.hand import Hand, create_one, the
from tests.support.invariants import check_skipped_ranges, invariants
from tests.support.refusals import attempt
from tests.support.shell import write
from tests.support.size import FULL

pytestmark = pytest.mark.slow

DRAFTER = Drafter({}, "UTC", Limits())
policies = st.fixed_dictionaries(
    {},
    optional={
        "overlap": st.sampled_from(["skip", "queue", "allow"]),
        "catch_up": st.sampled_from(["once", "all", "skip"]),
        "queue_limit": st.integers(1, 2),
    },
)


class Machine(RuleBasedStateMachine):
    """One schedule, whose rule people replace at once or from a later time on."""

    opened: Callable[[], BaseStore]

    def __init__(self) -> None:
        super().__init__()
        self.now = int(T0)
        self.claims: list[Claim] = []

    @initialize(policy=policies)
    def begin(self, policy: dict[str, Any]) -> None:
        self.store = type(self).opened()
        self.hand = Hand(self.store)
        self.schedule = create_one(self.store, every(HOUR, self.now, **policy))
        self.period = HOUR

    @rule(hours=st.sampled_from([1, 2, 3, 7]), ahead=st.none() | st.sampled_from([MINUTE, 5 * HOUR, 3 * DAY, 30 * DAY]))
    def edit(self, hours: int, ahead: int | None) -> None:
        now = Instant(self.now)
        starting = None if ahead is None else Instant(now + ahead)
        asked = Changes(trigger_type="interval", trigger_config={"hours": hours}, starting=starting)
        try:
            patch = DRAFTER.patch(Caller("ada"), the(self.store, self.schedule), asked, now)
        except InvalidInput as error:
            assert "5 times already" in str(error)
            return
        self.store.change(self.schedule, now, lambda change: changes.edit(change, patch))
        self.period = max(self.period, hours * HOUR)

    @rule(ends=st.booleans())
    def pause(self, ends: bool) -> None:
        until = Instant(self.now + 4 * HOUR) if ends else None
        attempt(self.store.change, self.schedule, Instant(self.now), lambda change: changes.pause(change, until))

    @rule()
    def resume(self) -> None:
        attempt(self.store.change, self.schedule, Instant(self.now), changes.resume)

    @rule(step=st.sampled_from([MINUTE, HOUR, 5 * HOUR, 2 * DAY, 40 * DAY]))
    def pass_time(self, step: int) -> None:
        self.now += step

    @rule()
    def claim(self) -> None:
        self.claims += self.hand.claim(self.now)

    @rule()
    def finish(self) -> None:
        self.hand.record(self.claims, self.now)
        self.claims.clear()

    @invariant()
    def it_fires_within_the_longest_period_that_it_ever_had(self) -> None:
        if not hasattr(self, "schedule"):
            return
        progress = the(self.store, self.schedule).progress
        assert progress.state in (ScheduleState.ACTIVE, ScheduleState.PAUSED)
        if progress.state == ScheduleState.ACTIVE:
            assert progress.next is not None and progress.next <= self.now + self.period, "active, and does not fire"
        invariants(self.store)
        check_skipped_ranges(self.store)


def check(opened: Callable[[], BaseStore], examples: int) -> None:
    run_state_machine_as_test(
        type("Machine", (Machine,), {"opened": staticmethod(opened)}),
        settings=settings(
            max_examples=examples, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_sqlite() -> None:
    stores: list[SqliteStore] = []

    def opened() -> BaseStore:
        for earlier in stores:
            earlier.close()
        stores[:] = [SqliteStore(MEMORY, messenger=MESSENGER)]
        stores[0].migrate()
        return stores[0]

    check(opened, 300 if FULL else 60)


def test_postgres(clean_postgres_url: str) -> None:
    store = PostgresStore(clean_postgres_url, messenger=MESSENGER)
    store.migrate()

    def opened() -> BaseStore:
        write(store, "TRUNCATE schedules, progress, due, runs, run_logs, attempts, workers")
        return store

    try:
        check(opened, 50 if FULL else 5)
    finally:
        store.close()
