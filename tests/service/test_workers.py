"""Which workers count as alive for a kind of work, and what is said if there is none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from duetime.engine.clock import HOUR, Instant
from duetime.engine.model import WorkerId, WorkerRow
from duetime.engine.scheduler import Scheduler
from duetime.service.services import Services
from duetime.service.workers import living
from tests.support.drafts import T0
from tests.support.wordings import SESSION_WARNING


def test_a_worker_that_does_not_take_a_kind_is_none_for_it() -> None:
    worker = WorkerRow(WorkerId(1), "one", "notification,notification:exact", 0, T0, 0, T0)
    assert living([worker], T0, "notification") == living([worker], T0) == [worker]
    assert living([worker], T0, "job") == living([worker], Instant(T0 + HOUR)) == []


def idle_warnings(workers: list[WorkerRow], kind: str, now: Instant) -> list[str]:
    store, clock = SimpleNamespace(workers=lambda: workers), SimpleNamespace(now=lambda: now)
    scheduler = SimpleNamespace(store=store, clock=clock)
    return [each.text for each in Services(cast(Scheduler, scheduler)).worker_warnings(kind)]


def test_a_worker_that_lives_with_its_client_is_no_promise() -> None:
    staying = WorkerRow(WorkerId(1), "one", "job", 0, T0, 0, T0)
    [warning] = idle_warnings([staying._replace(session=1)], "job", T0)
    assert warning == SESSION_WARNING
    assert idle_warnings([staying, staying._replace(session=1)], "job", T0) == []
    [warning] = idle_warnings([staying], "job", Instant(T0 + HOUR))
    assert warning.startswith("No worker is running")
    [warning] = idle_warnings([staying], "prompt", T0)
    assert warning.startswith("No worker that is running takes a prompt"), "though one runs"
