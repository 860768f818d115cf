"""Exactly one outcome comes back, whatever a kind does and however late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from duetime.engine.clock import SECOND, Instant
from duetime.engine.kind import Caller, Prepared, StopReason, ThreadUse, Work
from duetime.engine.model import Definition, WorkerId
from duetime.engine.outcome import Cancelled, Completed, Failed, Outcome, Retry, Returned, Waiting
from duetime.engine.worker.runner import ClaimedRun, execute_run
from duetime.stores.sqlite.store import SqliteStore
from duetime.testing import SettableClock
from tests.support.drafts import T0, once
from tests.support.hand import Hand, create, the_run


class Late:
    """Comes back after its time was up."""

    name = "job"
    reason = StopReason.TIMEOUT
    defaults: Mapping[str, Any] = {}
    counts_depth = True
    thread_use = ThreadUse.SHARED
    remembered: tuple[str, ...] = ()

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def scopes_for(self, definition: Definition) -> tuple[str, ...]:
        return ()

    def public_id(self, now: Instant, trigger_type: str) -> str:
        return "{id}"

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        return Prepared(payload, "x")

    def execute(self, work: Work) -> Outcome:
        work.stop.set(self.reason)
        return self._outcome

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        (Completed('{"text":"late"}'), '{"text":"late"}'),
        (
            Failed("stopped", result='{"text":"half","usage":{"dollars":0.5}}'),
            '{"text":"half","usage":{"dollars":0.5}}',
        ),
        (Retry("later", result='"kept"'), '"kept"'),
        *((each, None) for each in (Waiting(), Returned("busy"), Cancelled())),
    ],
)
def test_what_came_back_too_late_failed_and_is_kept(outcome: Outcome, result: str | None) -> None:
    store = SqliteStore(":memory:")
    store.migrate()
    create(store, once(timeout=2 * SECOND))
    [claim] = Hand(store).claim(T0)
    ended = execute_run(ClaimedRun(claim, WorkerId(1)), {"job": Late(outcome)}, SettableClock(Instant(T0)))
    assert ended.outcome == Failed("timed out after 2 s", result=result)
    store.close()


@pytest.mark.parametrize(
    ("at_most_once", "reason", "status"),
    [
        (True, StopReason.LEASE, "lost"),
        (True, StopReason.SHUTDOWN, "failed"),
        (False, StopReason.LEASE, "pending"),
        (False, StopReason.SHUTDOWN, "pending"),
    ],
)
def test_an_interrupted_run_starts_again_unless_it_runs_at_most_once(
    at_most_once: bool, reason: StopReason, status: str
) -> None:
    """Nobody knows how far it came when its worker lost its lease, as if the worker had died."""
    store = SqliteStore(":memory:")
    store.migrate()
    hand = Hand(store)
    create(store, once(at_most_once=at_most_once))
    [claim] = hand.claim(T0)
    kind = Late(Failed("its process is gone"))
    kind.reason = reason
    ended = execute_run(ClaimedRun(claim, WorkerId(1)), {"job": kind}, SettableClock(Instant(T0)))
    hand.record([claim], T0, ended.outcome)
    assert the_run(store, claim.run.id).status == status
    store.close()


@pytest.mark.parametrize("reason", [StopReason.SHUTDOWN, StopReason.LEASE])
@pytest.mark.parametrize("at_most_once", [False, True])
def test_what_was_handed_over_while_its_worker_stopped_waits_for_the_answer(
    reason: StopReason, at_most_once: bool
) -> None:
    """Else the agent that accepted it would be woken a second time, and its answer refused."""
    store = SqliteStore(":memory:")
    store.migrate()
    hand = Hand(store)
    create(store, once(at_most_once=at_most_once))
    [claim] = hand.claim(T0)
    kind = Late(Waiting(Instant(T0 + SECOND), "the agent"))
    kind.reason = reason
    ended = execute_run(ClaimedRun(claim, WorkerId(1)), {"job": kind}, SettableClock(Instant(T0)))
    hand.record([claim], T0, ended.outcome)
    run = the_run(store, claim.run.id)
    assert (run.status, run.holder) == ("waiting", "the agent")
    store.close()
