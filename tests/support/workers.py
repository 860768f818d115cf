"""Worker processes for tests: started, killed, stopped and resumed, with their output."""

from __future__ import annotations

import multiprocessing
import multiprocessing.forkserver
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from multiprocessing.context import ForkServerContext
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch

from duetime.app import App, build
from duetime.engine.clock import SECOND, Instant, SystemClock, datetime_of
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import Run, Schedule
from duetime.engine.store import RunQuery
from duetime.engine.validation import NewSchedule
from duetime.settings import Settings
from duetime.stores.base import BaseStore
from duetime.stores.postgres.store import PostgresStore
from tests.support.invariants import invariants
from tests.support.worker_process import Events, run, test_agents, test_tasks

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
CALLER = Caller(LOCAL, operator=True)
CLOCK = SystemClock()
LOOK = 0.025
"""Often enough for a test, seldom enough to leave the processors to what it waits for."""
OTHERS_IN_TRANSACTIONS = """SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
    AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"""


class Event(NamedTuple):
    verb: str
    key: str
    pid: int


class ShiftedClock(SystemClock):
    """The real clock with its wall time shifted by some seconds, for schedules that are already due and for jumps."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.shift = int(seconds * SECOND)

    def now(self) -> Instant:
        return Instant(super().now() + self.shift)


def eventually(ask: Callable[[], T], seconds: float, what: str) -> T:
    """Return the first true answer; a test that waits too long says what it waited for."""
    deadline = CLOCK.monotonic() + seconds
    pause = threading.Event()
    while not (answer := ask()):
        assert CLOCK.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        pause.wait(LOOK)
    return answer


def quickest(measure: Callable[[], float], bound: float, tries: int = 3) -> float:
    """Return the seconds of the quickest try; there are more tries only while none is within the bound. For promises
    about wall-clock time: other work of the machine makes a try longer, never shorter."""
    best = measure()
    for _ in range(tries - 1):
        if best < bound:
            break
        best = min(best, measure())
    return best


@cache
def _forkserver() -> ForkServerContext:
    """Start a process with everything imported, from which each worker is forked, because importing takes longer than
    most tests. It runs no threads and opens no store, so a fork of it is as good as a new process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([run.__module__, "tests.support.dying"])
    with patch.dict(os.environ, {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}):
        multiprocessing.forkserver.ensure_running()
    return context


def is_killed(store: BaseStore, target: Callable[..., None], *args: object) -> bool:
    """Run a function in a process of its own, and return whether the process was killed rather than ended. The database
    server of a killed process needs a moment to notice; until then its locks hold, and others pass over its rows."""
    process = _forkserver().Process(target=target, args=args)
    process.start()
    process.join(30)
    assert process.exitcode in (0, -signal.SIGKILL)
    killed = process.exitcode == -signal.SIGKILL
    process.close()
    if killed and isinstance(store, PostgresStore):
        eventually(lambda: store._rows(OTHERS_IN_TRANSACTIONS, ()) == [(0,)], 30, "the killed process's locks are gone")
    return killed


class WorkerProcess:
    def __init__(self, url: str, folder: Path, number: int, options: dict[str, Any]) -> None:
        given = {"url": url, "events": str(folder / "events"), **options}
        self._log = folder / f"worker-{number}.log"
        reading, writing = os.pipe()
        self._said = os.fdopen(reading, encoding="utf-8")
        with self._log.open("wb") as log, os.fdopen(writing) as said:
            self._process = _forkserver().Process(
                target=run, args=(given, dict(os.environ), DupFd(said.fileno()), DupFd(log.fileno()))
            )
            self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def said(self) -> str:
        return self._said.readline().strip()

    def ready(self) -> WorkerProcess:
        said = self.said()
        assert said == "ready", f"{said!r}\n{self.log}"
        return self

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def exit_code(self, seconds: float = 0) -> int | None:
        """Return the exit code; None if it has not ended within this many seconds."""
        self._process.join(seconds)
        return self._process.exitcode

    def kill(self) -> float:
        """Kill the process, and return when it was dead, on the monotonic clock."""
        self.signal(signal.SIGKILL)
        assert self.exit_code(10) is not None
        return CLOCK.monotonic()

    def terminate(self) -> int:
        """Stop gracefully, and return how many runs stayed unrecorded."""
        self.signal(signal.SIGTERM)
        return self.left()

    def terminating(self) -> None:
        self.signal(signal.SIGTERM)

    def left(self) -> int:
        word, _, number = self.said().partition(" ")
        assert word == "left", f"{word} {number}\n{self.log}"
        assert self.exit_code(10) == 0
        return int(number)

    def end(self) -> None:
        if self.exit_code() is None:
            self.signal(signal.SIGCONT)
            self.kill()
        self._process.close()
        self._said.close()


class Crew:
    """Worker processes on one store, and the store itself."""

    def __init__(self, url: str, folder: Path, **options: Any) -> None:
        self.url, self.folder, self.options = url, folder, options
        self.workers: list[WorkerProcess] = []
        self.events_file = folder / "events"
        self.events_file.touch()
        self.clock = ShiftedClock()
        settings = Settings(db=url, timezone="UTC", max_schedules=1_000_000, agents=test_agents(options))
        self.app: App = build(settings, clock=self.clock, registry=test_tasks(Events(str(self.events_file))))

    def start(self, count: int = 1, *, wait: bool = True, **options: Any) -> list[WorkerProcess]:
        number = len(self.workers)
        fresh = [WorkerProcess(self.url, self.folder, number + i, {**self.options, **options}) for i in range(count)]
        self.workers += fresh
        for worker in fresh if wait else ():
            worker.ready()
        return fresh

    def close(self) -> None:
        for worker in self.workers:
            worker.end()
        self.app.close()

    # -- what there is to do ------------------------------------------------------------------------------------

    def add(
        self, task: str, keys: Sequence[str], *, policy: dict[str, Any] | None = None, overdue: float = 0.5, **more: Any
    ) -> list[Schedule]:
        """Create one-off schedules, one per key, that were due `overdue` seconds ago. Nobody is told of their failures,
        whose messages would be further runs."""
        policy = {"alert": "off", **(policy or {})}
        due = datetime_of(Instant(CLOCK.now() - int(overdue * SECOND))).isoformat()
        return self.create(
            [
                NewSchedule("job", key, "once", {"run_at": due}, {"task": task, "kwargs": {"key": key, **more}}, policy)
                for key in keys
            ],
            ago=overdue + 10,  # checking thousands, one after the other, takes a while
        )

    def create(self, news: Sequence[NewSchedule], ago: float = 0.0) -> list[Schedule]:
        """Create schedules as if some seconds ago, so that a time that is already due is not in the past."""
        self.clock.shift = -int(ago * SECOND)
        try:
            made = self.app.scheduler.create_many(CALLER, news)
        finally:
            self.clock.shift = 0
        return list(made)

    def gate(self, name: str = "gate") -> Path:
        """Return a file that tasks wait for: they continue when the test touches it."""
        return self.folder / name

    # -- what happened ------------------------------------------------------------------------------------------

    def events(self, verb: str | None = None) -> list[Event]:
        text = self.events_file.read_text(encoding="utf-8")
        lines = text[: text.rfind("\n") + 1].splitlines()  # the last line may be incomplete
        found = [Event(verb, key, int(pid)) for verb, key, pid in map(str.split, lines)]
        return [event for event in found if verb in (None, event.verb)]

    def count(self, verb: str) -> Counter[str]:
        return Counter(event.key for event in self.events(verb))

    def runs(self, **query: Any) -> list[Run]:
        found: list[Run] = []
        cursor = None
        while True:
            page = self.app.store.runs(RunQuery(limit=1000, cursor=cursor, **query))
            found += page.items
            if (cursor := page.cursor) is None:
                return found

    def statuses(self) -> Counter[str]:
        return Counter(run.status for run in self.runs())

    def settled(self, seconds: float, number: int) -> None:
        """Wait until this many runs have ended and nothing is left to do."""

        def done() -> bool:
            health = self.app.store.health(CLOCK.now())
            ended = self.app.store.runs(RunQuery(limit=1, count_to=number)).total
            return health.due == 0 and health.running == 0 and ended >= number

        eventually(done, seconds, f"{number} runs ended, and nothing is due")

    def check(self) -> None:
        """Check the invariants of the store."""
        assert isinstance(self.app.store, BaseStore)
        invariants(self.app.store)

    def logs(self) -> str:
        return "\n".join(worker.log for worker in self.workers)


@contextmanager
def crew(url: str, folder: Path, **options: Any) -> Iterator[Crew]:
    made = Crew(url, folder, **options)
    try:
        yield made
    finally:
        made.close()
