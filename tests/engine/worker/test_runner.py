"""Exactly one outcome comes back, whatever a kind does and however late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from duetime.engine.clock import SECOND, Instant
from duetime.engine.kind import Caller, Prepared, StopReason, ThreadUse, Work
from duetime.engine.model import WorkerId
from duetime.engine.outcome import Cancelled, Completed, Failed, Outcome, Retry, Returned, Waiting
from duetime.engine.worker.runner import ClaimedRun, execute_run
from duetime.stores.sqlite.store import SqliteStore
from duetime.testing import SettableClock
from tests.support.drafts import T0, once
from tests.support.hand import Hand, create


class Late:
    """Comes back after its time was up."""

    name = "job"
    defaults: Mapping[str, Any] = {}
    counts_depth = True
    thread_use = ThreadUse.SHARED
    remembered: tuple[str, ...] = ()

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def public_id(self, now: Instant, trigger_type: str) -> str:
        return "{id}"

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        return Prepared(payload, "x")

    def execute(self, work: Work) -> Outcome:
        work.stop.set(StopReason.TIMEOUT)
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
