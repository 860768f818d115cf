"""`python -m bench.instructions`: SQL statements and Python bytecode instructions per run and per create, counted and
not timed.

A worker with its real thread pool runs fixed workloads on a SQLite file and on a settable clock. The driver calls the
worker's steps itself, so that the number of transactions does not depend on timing. Creates come one after another from
the Python API. The instructions of all threads are
counted with `sys.settrace`, in functions of Duetime only. `--functions 30` also lists the functions that execute most.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import threading
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import apsw

from bench.scene import noop_registry
from duetime.api import Duetime, NotStartedWarning
from duetime.app import build
from duetime.engine.clock import DAY, HOUR, SECOND, Instant
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.validation import NewSchedule
from duetime.engine.worker.shares import ThreadPart
from duetime.engine.worker.threads import MAX_THREAD_WAIT
from duetime.settings import Settings
from duetime.testing import SettableClock

STARTS = itertools.count(1_800_000_000 * SECOND, 28 * DAY)
"""Every measurement has instants of its own: Duetime remembers the next instants that it computed before."""
THREADS = 4


class Workload(NamedTuple):
    """Schedules that are created before the counting starts; then the clock moves to each of their instants."""

    trigger: str
    config: dict[str, Any]
    schedules: int
    owners: int = 1
    instants: int = 1

    @property
    def runs(self) -> int:
        return self.schedules * self.instants


WORKLOADS = {
    "200 jobs at once": Workload("once", {"run_at": "in 1 hour"}, 200),
    "200 jobs of 10 owners at once": Workload("once", {"run_at": "in 1 hour"}, 200, owners=10),
    "4 intervals, 10 times": Workload("interval", {"hours": 1}, 4, instants=10),
    "1 cron expression, 10 times": Workload("cron", {"expression": "0 * * * *"}, 1, instants=10),
}


JOB = {"task": "noop"}
CREATES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "create a one-off job": ("job", JOB, {"delay": "3h"}),
    "create a cron job": ("job", JOB, {"cron": "*/7 3 * * 1"}),
    "create an interval job": ("job", JOB, {"every": "2h"}),
    "create a prompt": ("prompt", {"prompt": "Water the plants"}, {"delay": "3h"}),
    "create a notification": ("notification", {"topic": "plants", "message": "Water them"}, {"delay": "3h"}),
    "create a request": ("request", {"url": "https://example.com/"}, {"delay": "3h"}),
}
CREATED = 50


class Cost(NamedTuple):
    """The cost of a workload. `functions` contains the instructions of each function."""

    runs: int
    statements: int
    functions: Counter[str]

    @property
    def statements_per_run(self) -> float:
        return self.statements / self.runs

    @property
    def instructions_per_run(self) -> float:
        return self.functions.total() / self.runs


def measure(workload: Workload) -> Cost:
    """Run a workload twice with the same worker and count the second time, when caches are filled."""
    statements, instructions = Counter[str](), _Instructions()
    with tempfile.TemporaryDirectory(prefix="duetime-bench-") as folder, statements_in(statements):
        driver = _Driver(Path(folder))
        try:
            driver.create(workload)
            with instructions.in_threads():
                driver.start()
            driver.run_due(workload)
            if workload.trigger == "once":
                driver.create(workload)
            statements.clear()
            instructions.counts.clear()
            with instructions.in_this_thread():
                driver.run_due(workload)
                driver.stop()
        finally:
            driver.app.close()
    return Cost(workload.runs, statements.total(), instructions.by_name())


def measure_create(name: str) -> Cost:
    """Create schedules through the Python API twice and count the second time, when caches are filled."""
    kind, payload, when = CREATES[name]
    statements, instructions = Counter[str](), _Instructions()
    clock = SettableClock(Instant(next(STARTS)))
    with tempfile.TemporaryDirectory(prefix="duetime-bench-") as folder, statements_in(statements):
        settings = Settings(db=str(Path(folder) / "store.db"), timezone="UTC")
        duetime = Duetime(settings=settings, registry=noop_registry(), clock=clock)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotStartedWarning)
                for _ in range(CREATED):
                    duetime.create(kind, payload, **when)
            statements.clear()
            for _ in range(CREATED):
                clock.move_to(Instant(clock.now() + SECOND // 1000))
                with instructions.in_this_thread():
                    duetime.create(kind, payload, **when)
            counted = statements.total()
        finally:
            duetime.close()
    return Cost(CREATED, counted, instructions.by_name())


class _Driver:
    """A worker whose steps are called by the driver and whose runs are executed by the threads of its pool."""

    def __init__(self, folder: Path) -> None:
        self._clock = SettableClock(Instant(next(STARTS)))
        settings = Settings(db=str(folder / "store.db"), timezone="UTC", threads=THREADS, lease=24 * 3600.0)
        self.app = build(settings, clock=self._clock, registry=noop_registry())
        self._engine = self.app.engine()
        self._worker = self._engine.worker
        self._idle = threading.Event()
        self._end = self._engine.pool.shares.end
        self._engine.pool.shares.end = self._ended  # type: ignore[method-assign]
        self._worker.register()

    def start(self) -> None:
        self._engine.pool.start()

    def stop(self) -> None:
        assert self._engine.pool.stop(wait=10.0)

    def create(self, workload: Workload) -> None:
        payload = {"task": "noop", "args": [], "kwargs": {}}
        new = NewSchedule("job", "noop", workload.trigger, workload.config, payload)
        for number in range(workload.owners):
            caller = Caller(LOCAL if workload.owners == 1 else f"owner {number}")
            self.app.scheduler.create_many(caller, [new] * (workload.schedules // workload.owners))

    def run_due(self, workload: Workload) -> None:
        for _ in range(workload.instants):
            self._clock.move_to(Instant(self._clock.now() + HOUR))
            self._worker.beat()
            self._worker.rescue()
            while self._step():
                pass

    def _step(self) -> bool:
        self._idle.clear()
        self._worker.leave_to_others(MAX_THREAD_WAIT)
        more = self._worker.record_and_claim()
        assert not self._worker.claimed or self._idle.wait(30)
        return more

    def _ended(self, part: ThreadPart) -> None:
        """Signal that the threads have nothing left to run. Called with the lock of the pool."""
        self._end(part)
        if not self._engine.pool.shares.in_flight and self._engine.pool.free == THREADS:
            self._idle.set()


@contextmanager
def statements_in(counts: Counter[str]) -> Iterator[None]:
    """Count the statements of all connections that are opened meanwhile; each row of `executemany` counts."""

    def trace(_cursor: apsw.Cursor, statement: str, _values: object) -> bool:
        counts[statement] += 1
        return True

    def hook(connection: apsw.Connection) -> None:
        connection.exec_trace = trace

    apsw.connection_hooks.append(hook)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(hook)


class _Instructions:
    """Counts the instructions of Duetime's functions."""

    def __init__(self) -> None:
        self.counts: dict[CodeType, int] = defaultdict(int)

    def by_name(self) -> Counter[str]:
        return Counter({_name(code): number for code, number in self.counts.items()})

    @contextmanager
    def in_this_thread(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)

    @contextmanager
    def in_threads(self) -> Iterator[None]:
        """Count in the threads that are started meanwhile, for as long as they live."""
        before = threading.gettrace()
        threading.settrace(self._enter)
        try:
            yield
        finally:
            threading.settrace(before)

    def _enter(self, frame: FrameType, _event: str, _argument: object) -> Callable[..., Any] | None:
        if not frame.f_globals.get("__name__", "").startswith("duetime."):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._count

    def _count(self, frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        if event == "opcode":
            self.counts[frame.f_code] += 1
        return self._count


def _name(code: CodeType) -> str:
    return f"{Path(code.co_filename).stem}.{code.co_qualname}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.add_argument("--repeat", type=int, default=1, help="measure each workload this many times")
    parser.add_argument("--functions", type=int, default=0, help="list this many functions with their instructions")
    options = parser.parse_args()
    measurements: dict[str, Callable[[], Cost]] = {name: partial(measure, each) for name, each in WORKLOADS.items()}
    measurements |= {name: partial(measure_create, name) for name in CREATES}
    costs: list[Cost] = []
    print(f"{'per run or create':32}{'statements':>12}{'instructions':>14}")
    for name, measurement in measurements.items():
        for _ in range(options.repeat):
            costs.append(measurement())
            print(f"{name:32}{costs[-1].statements_per_run:12.3f}{costs[-1].instructions_per_run:14.1f}", flush=True)
        for function, number in costs[-1].functions.most_common(options.functions):
            print(f"    {number / costs[-1].runs:10.2f}  {function}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
