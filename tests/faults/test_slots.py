"""A run keeps its thread until it returns, stops are heard within a beat, and a worker that waits costs nothing."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from duetime.engine.clock import SECOND
from duetime.engine.kind import StopReason, Work
from duetime.engine.outcome import Completed, Outcome
from duetime.engine.policy.changes import cancel
from duetime.engine.store import RunQuery
from duetime.engine.worker.threads import Engine
from duetime.engine.worker.worker import WorkerOptions
from tests.faults.conftest import LEASE, RealStore
from tests.support.drafts import once
from tests.support.hand import create, the
from tests.support.invariants import invariants
from tests.support.unreliable import Play, Unreliable
from tests.support.workers import CLOCK, Crew, eventually, quickest

PATIENCE = 30.0
WINDOW = 2.0


class Running:
    """An engine whose work waits for the test, whatever it is told."""

    def __init__(self, store: RealStore, act: Callable[[Work], Outcome] | None = None, **options: Any) -> None:
        self.store = store
        self.gate = threading.Event()
        self.works: list[Work] = []
        self.kind = Play(act=act or self._wait)
        self.engine = Engine(
            store, {"job": self.kind}, CLOCK, WorkerOptions(**{"threads": 2, "lease": LEASE, **options})
        )

    def _wait(self, work: Work) -> Outcome:
        self.works.append(work)
        assert self.gate.wait(60)
        return Completed()

    def __enter__(self) -> Running:
        self.engine.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.set()
        left = self.engine.stop()
        assert (left, self.engine.failure) == (0, None)

    def add(self, number: int = 1, *, later: float = -0.1, **given: Any) -> list[Any]:
        at = CLOCK.now() + int(later * SECOND)
        return create(self.store, *[once(at, created=at, **given) for _ in range(number)])

    def statuses(self) -> list[str]:
        return [run.status for run in self.store.runs(RunQuery(limit=1000)).items]


def test_a_thread_whose_time_is_up_keeps_its_slot_until_it_returns(store: RealStore) -> None:
    with Running(store) as running:
        (schedule,) = running.add(max_attempts=2, backoff=1, timeout=SECOND // 5)
        eventually(lambda: running.works, PATIENCE, "it is under way")
        first = running.works[0]
        assert first.stop.wait(PATIENCE)
        assert first.stop.reason is StopReason.TIMEOUT
        with pytest.raises(AssertionError, match="a second attempt"):
            eventually(lambda: len(running.works) > 1, 0.5, "a second attempt")
        progress = the(store, schedule.definition.id).progress
        assert (progress.active, running.statuses()) == (1, ["running"])
        assert running.engine.pool.free == 1
        running.gate.set()
        eventually(lambda: running.statuses() == ["completed"], PATIENCE, "the retry ends")
        (run,) = store.runs(RunQuery()).items
        (attempt,) = store.attempts(run.id)
        assert (run.attempt, attempt.number, attempt.error) == (2, 1, "timed out after 0.2 s")
        invariants(store)


def test_what_waits_too_long_for_a_thread_is_given_back_although_nothing_ends(store: RealStore) -> None:
    with Running(store) as running:
        running.engine.worker.pace.seconds = 0.0001  # so that more is claimed than there are threads
        running.add(20)
        eventually(lambda: len(running.works) == 2, PATIENCE, "every thread is busy")
        eventually(lambda: len(running.engine.worker.claimed) == 2, PATIENCE, "the others are given back")
        assert sorted(running.statuses()) == ["pending"] * 18 + ["running"] * 2
        invariants(store)


def test_no_outcome_ends_a_thread(store: RealStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that ended would be missing for good, and its run would stay running while the worker beats."""

    def act(work: Work) -> Any:
        if work.claim.definition.name == "raises":
            raise ValueError("wrong: abcdefg")
        return None if work.claim.definition.name == "returns nothing" else Completed()

    with Running(store, act) as running:
        monkeypatch.setattr(running.engine.worker.pace, "took", lambda _: 1 / 0)
        running.add(2, name="is not measured")
        eventually(lambda: running.statuses() == ["failed"] * 2, PATIENCE, "both fail")
        monkeypatch.undo()
        running.add(2, name="raises", payload=json.dumps({"body": '{"password": "\\ud800abcdefg"}'}))
        running.add(2, name="returns nothing")
        eventually(lambda: running.statuses() == ["failed"] * 6, PATIENCE, "all of them fail")
        running.add(2)
        eventually(lambda: running.statuses().count("completed") == 2, PATIENCE, "the threads go on")
    errors = {run.name: run.error for run in store.runs(RunQuery()).items}
    assert errors["returns nothing"] == "TypeError: its kind returned NoneType instead of an outcome"
    assert errors["raises"] == "ValueError: wrong: abcdefg"
    invariants(store)


def test_a_running_job_hears_of_its_cancellation_within_a_beat(store: RealStore) -> None:
    heard: list[float] = []

    def act(work: Work) -> Outcome:
        running.works.append(work)
        assert work.stop.wait(PATIENCE)
        heard.append(CLOCK.monotonic())
        return Completed()

    def seconds_to_hear() -> float:
        running.works.clear()
        heard.clear()
        (schedule,) = running.add()
        eventually(lambda: running.works, PATIENCE, "it is under way")
        asked = CLOCK.monotonic()
        store.change(schedule.definition.id, CLOCK.now(), cancel)
        eventually(lambda: heard, PATIENCE, "it hears of it")
        print(f"heard after {heard[0] - asked:.2f} s")  # noqa: T201 - a figure for the reader
        assert running.works[0].stop.reason is StopReason.CANCELLED
        return heard[0] - asked

    bound = LEASE / 4 + 0.5
    with Running(store, act) as running:
        assert quickest(seconds_to_hear, bound) < bound


def test_the_deadline_is_told_although_the_beat_hangs_in_the_store(store: RealStore) -> None:
    released = threading.Event()

    class Hanging(Unreliable):
        def beat(self, *given: Any) -> Any:
            if running.works:
                assert released.wait(PATIENCE)
            return store.beat(*given)

    running = Running(store)
    running.engine = Engine(
        cast(Any, Hanging(store)), {"job": running.kind}, CLOCK, WorkerOptions(threads=2, lease=1.0)
    )
    with running:
        running.add()
        eventually(lambda: running.works, PATIENCE, "it is under way")
        assert running.works[0].stop.wait(PATIENCE / 2)
        assert running.works[0].stop.reason is StopReason.LEASE
        released.set()


def test_what_was_claimed_ahead_of_its_instant_is_not_begun_by_a_worker_that_stops(store: RealStore) -> None:
    with Running(store, lead=60 * SECOND) as running:
        running.add(later=50.0)
        eventually(lambda: running.statuses() == ["running"], PATIENCE, "it is claimed, and waits for its instant")
    assert running.works == []
    assert running.statuses() == ["pending"]
    (run,) = store.runs(RunQuery()).items
    assert run.attempt == 0
    invariants(store)


def test_a_worker_that_was_taken_for_dead_claims_nothing_for_threads_that_are_still_busy(store: RealStore) -> None:
    with Running(store) as running:
        running.add(2, at_most_once=True)
        eventually(lambda: len(running.works) == 2, PATIENCE, "both threads are busy")
        first = running.engine.worker.id
        (row,) = store.workers()
        while store.rescue(row.id, row.beat, CLOCK.now()) is None:
            (row,) = store.workers()
        running.add(5)
        eventually(lambda: running.engine.worker.id not in (None, first), PATIENCE, "it starts anew")
        assert {work.stop.reason for work in running.works} == {StopReason.LEASE}
        with pytest.raises(AssertionError, match="a claim"):
            eventually(lambda: "running" in running.statuses(), 1.0, "a claim")
        running.gate.set()
        eventually(lambda: sorted(running.statuses()) == ["completed"] * 5 + ["lost"] * 2, PATIENCE, "it goes on")
        invariants(store)


def test_at_most_once_work_starts_at_once_when_a_thread_becomes_free(store: RealStore) -> None:
    """A wake-up that got lost would cost a second each time."""
    began = CLOCK.monotonic()
    with Running(store, lambda work: Completed(), threads=1) as running:
        running.add(30, at_most_once=True)
        eventually(lambda: running.statuses() == ["completed"] * 30, 20, "they run one after the other")
        assert CLOCK.monotonic() - began < 10


# -- what waiting costs ------------------------------------------------------------------------------------------------


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.later
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc to read the processor time from")
@pytest.mark.parametrize("state", ["idle", "busy"])
def test_a_worker_that_waits_costs_next_to_nothing(team: Crew, state: str) -> None:
    """Idle: nothing is due for an hour. Busy: every thread waits, and more of every sort is due behind it."""
    (worker,) = team.start(1, threads=2, lease=10.0)
    gate = team.gate()
    if state == "idle":
        team.add("mark", ["later"], overdue=-3600)
    else:
        team.add("park", ["p0", "p1"])
        eventually(lambda: len(team.events("begun")) == 2, PATIENCE, "its threads are busy")
        team.add("mark", [f"k{number}" for number in range(50)])
        team.add("mark", [f"e{number}" for number in range(50)], policy={"at_most_once": True})
    settling = cpu_seconds(worker.pid)
    with pytest.raises(AssertionError, match="it settles"):
        eventually(lambda: False, WINDOW, "it settles")
    used = cpu_seconds(worker.pid) - settling
    print(f"{state}: {used / WINDOW:.1%} of a processor")  # noqa: T201 - a figure for the reader
    assert used / WINDOW < 0.10
    assert not gate.exists()
