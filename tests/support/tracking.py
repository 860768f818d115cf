"""A worker and the tracker of its executor, which do one step whenever a test says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from duetime.app import App, build
from duetime.engine.clock import Instant, datetime_of
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import Run, RunId, Schedule
from duetime.engine.policy.catch_up import LEAD
from duetime.engine.store import RunQuery
from duetime.engine.validation import NewSchedule
from duetime.engine.worker.worker import Worker
from duetime.kinds.jobs import executors
from duetime.kinds.jobs.executors.tracker import Tracker
from duetime.kinds.jobs.kind import JobKind
from duetime.service.presenters import run_shape
from duetime.settings import ExecutorSettings, Settings
from tests.support import cluster_tasks
from tests.support.local_cluster import PATH, ClusterState, LocalCluster
from tests.support.workers import eventually

NAME = "cluster"
CALLER = Caller(LOCAL, operator=True)


class Tracked:
    """An application on a store, whose tasks run on a cluster that the test controls."""

    def __init__(self, app: App) -> None:
        self.app, self.store = app, app.store
        self.worker = self.another_worker()
        self.tracker = self.another_tracker()

    @property
    def settings(self) -> ExecutorSettings:
        return self.app.settings.executors[NAME]

    @property
    def cluster(self) -> ClusterState:
        return LocalCluster.at.setdefault(self.settings.address, ClusterState())

    def another_worker(self) -> Worker:
        """Return a worker that runs everything in the thread of the test."""
        engine = self.app.engine()
        return Worker(self.store, self.app.kinds, engine.worker.clock, engine.options)

    def another_tracker(self, worker: Worker | None = None) -> Tracker:
        own, kind = worker or self.worker, self.app.services.kind(JobKind)
        (entry,) = kind.entries()
        return Tracker(NAME, self.settings, self.store, own.clock, lambda: own.id, kind.call_text, entry)

    def create(self, task: str, *args: Any, owner: str = LOCAL, name: str = "heavy", **policy: Any) -> Schedule:
        due = datetime_of(Instant(self.worker.clock.now() + LEAD)).isoformat()
        new = NewSchedule("job", name, "once", {"run_at": due}, {"task": task, "args": list(args)}, policy)
        return self.app.scheduler.create(CALLER._replace(owner=owner), new)

    def tick(self) -> None:
        """Let the worker claim, hand over and record."""
        while self.worker.tick():
            pass

    def run_of(self, schedule: Schedule) -> Run:
        (run,) = self.store.runs(RunQuery(schedule=schedule.definition.id)).items
        return run

    def ticked(self, schedule: Schedule) -> Run:
        """Let the worker go on, and return the only run."""
        self.tick()
        return self.run_of(schedule)

    def ended(self, schedule: Schedule) -> Run:
        """Step until the only run has ended."""
        self.tick()
        return self.run_ended(self.run_of(schedule).id)

    def run_ended(self, run: RunId) -> Run:
        def look() -> Run | None:
            self.tick()
            self.tracker.step()
            row = self.store.run(run)
            return row if row is not None and row.finished is not None else None

        ended = eventually(look, 20, "the run ended")
        assert ended is not None
        return ended

    def view(self, schedule: Schedule) -> dict[str, Any]:
        return run_shape(self.run_of(schedule), {}, "UTC")


@contextmanager
def tracked(url: str, address: str = "here", path: str = PATH, **settings: Any) -> Iterator[Tracked]:
    with patch.dict(executors._BUILT_IN, {"local": path}):
        executors.types_of_executors.cache_clear()
        cluster = ExecutorSettings("local", address, **settings)
        app = build(Settings(db=url, timezone="UTC", executors={NAME: cluster}), registry=cluster_tasks.registry)
        try:
            yield Tracked(app)
        finally:
            app.close()
            executors.types_of_executors.cache_clear()
            state = LocalCluster.at.pop(address, None)
            if state is not None:
                state.pool.shutdown(cancel_futures=True)


def handed_over(heavy: Tracked, task: str, *args: Any, **policy: Any) -> Schedule:
    """Create a job and hand its run to the cluster."""
    schedule = heavy.create(task, *args, **policy)
    heavy.tick()
    heavy.tracker.step()
    return schedule
