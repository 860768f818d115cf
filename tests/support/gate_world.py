"""A page that changes, a schedule whose gate looks at it, and workers that are played step by step and die."""

from __future__ import annotations

import json
from typing import Any

from duetime.engine.clock import MINUTE, Instant
from duetime.engine.kind import Caller
from duetime.engine.model import LOCAL, Run, RunId, Schedule, ScheduleId
from duetime.engine.policy.gates import GateGift
from duetime.engine.policy.record import Finished
from duetime.engine.worker.gate import check_gate
from duetime.engine.worker.runner import ClaimedRun, execute_run
from duetime.engine.worker.worker import Worker, WorkerOptions
from duetime.kinds.jobs.builtin import TASKS
from duetime.kinds.jobs.context import PermanentError, TaskContext
from duetime.kinds.jobs.gate_tasks import GATE_TASKS
from duetime.kinds.jobs.kind import JobKind
from duetime.kinds.jobs.registry import Registry, Task
from duetime.stores.base import BaseStore
from duetime.testing import SettableClock
from tests.support.drafts import T0, every
from tests.support.hand import create_one, runs_of
from tests.support.unreliable import Line

CALLER = Caller(LOCAL, operator=True)
GATE = "page() | changed()"


class GateWorld:
    """`page` is what the gate sees, `works` what the work was given, and `fails` whether the work fails."""

    def __init__(
        self, store: BaseStore, gate: str = GATE, now: int = T0, schedule: ScheduleId | None = None, **policy: Any
    ) -> None:
        """With a schedule, go on with one that another world has created."""
        self.store, self.clock = store, SettableClock(Instant(now))
        self.page: Any = "first"
        self.fails = False
        self.works: list[Any] = []
        self.gifts: dict[RunId, GateGift] = {}
        registry = Registry((*TASKS, *GATE_TASKS, Task(self._page, name="page"), Task(self._work, name="work")))
        self.kind = JobKind(registry)
        self.kinds = {"job": self.kind}
        payload = json.dumps({"task": "work", "args": [], "kwargs": {}}, separators=(",", ":"))
        if schedule is None:
            draft = every(MINUTE, now, only_if=gate, payload=payload, created=Instant(now), **policy)
            schedule = create_one(store, draft)
        self.schedule = schedule
        self.worker = self.new_worker()

    def _page(self) -> Any:
        if isinstance(self.page, Exception):
            raise self.page
        return self.page

    def _work(self, context: TaskContext) -> str:
        self.works.append(context.gate)
        if self.fails:
            raise PermanentError("it failed")
        return "done"

    def new_worker(self) -> Worker:
        worker = Worker(self.store, self.kinds, self.clock, WorkerOptions(lease=1e9))
        worker.register()
        return worker

    def tick(self, minutes: int = 1) -> None:
        """Let time pass, a minute at a time, and run what is due."""
        for _ in range(minutes):
            self.clock.move_to(Instant(self.clock.now() + MINUTE))
            self.settle()

    def settle(self) -> None:
        while self.worker.tick():
            pass

    def poll(self, page: Any, *, fails: bool = False) -> list[Any]:
        """Return what the work was given when the page looks like this."""
        self.page, self.fails, before = page, fails, len(self.works)
        self.tick()
        return self.works[before:]

    def runs(self) -> list[Run]:
        return runs_of(self.store, self.schedule)

    def rows(self) -> list[tuple[str, int, str | None]]:
        return [(run.status, run.number, run.error) for run in self.runs()]

    def stored(self) -> Schedule:
        schedule = self.store.get(self.schedule)
        assert schedule is not None
        return schedule

    def gift(self, run: Run) -> Any:
        gift = self.store.gate_gift(run.id)
        return None if gift is None or gift.result is None else json.loads(gift.result)

    # -- step by step, with several runs at a time

    def hold(self) -> Line:
        """Let a worker only claim."""
        self.worker.executor = line = Line(100)
        return line

    def check(self, item: ClaimedRun) -> bool:
        """Check the gate of a run; return whether it passes. What it does not let pass is recorded."""
        gift = check_gate(item, self.kinds, self.store, self.clock, None, None)
        if isinstance(gift, GateGift):
            self.gifts[item.id] = gift
            return True
        self.record(item, gift)
        return False

    def work(self, item: ClaimedRun, *, fails: bool = False) -> Finished:
        """Do the work of a run that has passed its gate; it is not recorded yet."""
        self.fails = fails
        return execute_run(item, self.kinds, self.clock, None, None, self.gifts[item.id])

    def finish(self, item: ClaimedRun, *, fails: bool = False) -> None:
        self.record(item, self.work(item, fails=fails))

    def record(self, item: ClaimedRun, finished: Finished) -> None:
        item.over = True
        self.worker.held.done.append((item, finished))
        self.worker.record_and_claim()

    def kill(self) -> None:
        """Let the worker die with what it holds, and another one take its place."""
        row = next(row for row in self.store.workers() if row.id == self.worker.id)
        assert self.store.rescue(row.id, row.beat, self.clock.now()) is not None
        self.worker = self.new_worker()
