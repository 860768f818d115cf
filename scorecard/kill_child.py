"""A process that works on a store and kills itself with SIGKILL at a named step. The product has no hooks for this:
the named methods are wrapped from here.
"""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import apsw

from duetime.app import App, build
from duetime.engine.clock import SECOND, Instant, datetime_of
from duetime.engine.kind import Caller
from duetime.engine.outcome import Completed
from duetime.engine.policy.record import Receipt
from duetime.engine.validation import NewSchedule
from duetime.engine.worker.runner import ClaimedRun
from duetime.engine.worker.worker import Worker, WorkerOptions
from duetime.kinds.jobs.context import TaskContext
from duetime.kinds.jobs.registry import Registry
from duetime.settings import Settings
from duetime.stores.postgres.connections import psycopg
from duetime.stores.postgres.store import PostgresStore
from duetime.stores.postgres.transaction import PostgresTransaction
from duetime.stores.sqlite.store import SqliteStore
from duetime.stores.sqlite.transaction import SqliteTransaction
from duetime.testing import SettableClock

CALLER = Caller("local", operator=True)
LEASE = 2.0
ROUNDS = 60
STATEMENT = "statement"
"""The step of a migration: so many statements were executed."""
STATEMENTS = "statements"
"""The file in which a migration that was not killed leaves the number of its statements."""
TASK = "task"
"""The step of a run: inside the task, before or after its side effect."""
STATEMENT_STEPS = frozenset({"delete_dead_worker"})
"""Steps that are a named statement of a transaction and no method."""
ALSO = {"insert_schedules": ("_insert_few",)}
"""Other methods of a step: few schedules are inserted with one statement."""
WRAPPED = (SqliteStore, PostgresStore, SqliteTransaction, PostgresTransaction)


@dataclass(frozen=True, slots=True)
class Order:
    """A kill: of a process that does `verb`, `when` (before or after) it passes `step` for the n-th time."""

    verb: str
    when: str
    step: str
    passes: int
    url: str
    folder: str
    start: Instant

    @property
    def name(self) -> str:
        return f"{self.verb}: {self.when} {self.step}, pass {self.passes}"


class Log:
    """A log: one write per line in append mode, on disk before anybody goes on: what was said survives a kill."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def say(self, *words: Any) -> None:
        os.write(self._file, (json.dumps(words) + "\n").encode())
        os.fdatasync(self._file)


def main(order: Order) -> None:
    """Work until the step is passed so often; a process that comes to an end was not killed."""
    logging.getLogger("duetime").setLevel(logging.CRITICAL)
    trap = _Trap(order)
    if order.verb == "migrate":
        _migrate(order, trap)
        return
    trap.wrap_methods()
    scene = Scene(order.url, Path(order.folder), "child", SettableClock(order.start), trap.passed)
    for number in range(ROUNDS):
        if order.verb == "rescue":
            scene.leave_to_rescue(number)
        else:
            scene.create(number)
            scene.work()


class _Trap:
    """Counts the passes of one step, and kills the process at the right one."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self.seen = 0

    def passed(self, step: str, when: str) -> None:
        if (step, when) != (self._order.step, self._order.when):
            return
        self.seen += 1
        if self.seen >= self._order.passes:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrap_methods(self) -> None:
        step = self._order.step
        for owner in WRAPPED:
            for name in ("rows",) if step in STATEMENT_STEPS else (step, *ALSO.get(step, ())):
                if callable(method := getattr(owner, name, None)):
                    setattr(owner, name, self._wrapped(method))

    def _wrapped(self, method: Callable[..., Any]) -> Callable[..., Any]:
        step = self._order.step

        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            if step in STATEMENT_STEPS and args[1] != step:
                return method(*args, **kwargs)
            self.passed(step, "before")
            result = method(*args, **kwargs)
            self.passed(step, "after")
            return result

        return call


def _migrate(order: Order, trap: _Trap) -> None:
    """Bring an old schema up to date, and count the statements of both dialects."""

    def trace(_cursor: Any, _statement: str, _bindings: Any) -> bool:
        trap.passed(STATEMENT, "before")
        return True

    apsw.connection_hooks.append(lambda connection: connection.set_exec_trace(trace))
    execute: Any = psycopg.Connection.execute

    def counted(*args: Any, **kwargs: Any) -> Any:
        trap.passed(STATEMENT, "before")
        return execute(*args, **kwargs)

    setattr(psycopg.Connection, "execute", counted)  # noqa: B010 - mypy refuses a plain assignment to a method
    build(Settings(db=order.url, timezone="UTC"), clock=SettableClock(order.start), registry=Registry()).close()
    (Path(order.folder) / STATEMENTS).write_text(str(trap.seen), encoding="utf-8")


class Scene:
    """A client and a worker in one process, stepped by hand; every acknowledgement goes to a log."""

    def __init__(
        self, url: str, folder: Path, who: str, clock: SettableClock, passed: Callable[[str, str], None]
    ) -> None:
        self.clock = clock
        self.effects = Log(folder / f"effects-{who}")
        self.acknowledged = Log(folder / "acknowledged")
        settings = Settings(db=url, timezone="UTC")
        self.app: App = build(settings, clock=clock, registry=self._tasks(passed))
        self._note_outcomes()
        self.worker = self._worker(who)

    def _tasks(self, passed: Callable[[str, str], None]) -> Registry:
        registry = Registry()

        @registry.task
        def work(key: str, fails: bool, context: TaskContext) -> None:
            """Leave a side effect; a task that fails does so at its first attempt."""
            passed(TASK, "before")
            self.effects.say(key, context.run_id)
            passed(TASK, "after")
            if fails and context.attempt == 1:
                raise RuntimeError("as asked")

        return registry

    def _worker(self, name: str) -> Worker:
        options = WorkerOptions(lease=LEASE, name=name, lead=0)
        worker = Worker(self.app.store, self.app.kinds, self.clock, options)
        worker.register()
        return worker

    def _note_outcomes(self) -> None:
        """Log each outcome as acknowledged when its exchange has returned."""
        exchange = self.app.store.record_and_claim

        def noted(*args: Any, **kwargs: Any) -> Any:
            result = exchange(*args, **kwargs)
            for item, answer in zip(args[2], result.answers, strict=True):
                if answer is Receipt.RECORDED and isinstance(item.outcome, Completed):
                    self.acknowledged.say("completed", item.run)
            return result

        setattr(self.app.store, "record_and_claim", noted)  # noqa: B010 - as above

    def create(self, number: int) -> None:
        """Create three one-offs a second ahead: a plain one, an at-most-once one, and one whose first attempt fails."""
        due = datetime_of(self.clock.now()) + timedelta(seconds=1)
        policies: Sequence[dict[str, Any]] = ({}, {"at_most_once": True}, {"max_attempts": 3, "backoff": SECOND})
        for sort, policy in enumerate(policies):
            key = f"{number}-{sort}"
            payload = {"task": "work", "kwargs": {"key": key, "fails": sort == 2}}
            self.app.scheduler.create_many(
                CALLER,
                [NewSchedule("job", key, "once", {"run_at": due.isoformat()}, payload, policy, idempotency_key=key)],
            )
            self.acknowledged.say("created", key)

    def work(self) -> None:
        self.pass_time(1.0)
        while self.worker.tick():
            pass

    def pass_time(self, seconds: float) -> None:
        self.clock.move_to(Instant(self.clock.now() + int(seconds * SECOND)))

    def leave_to_rescue(self, number: int) -> None:
        """Let another worker claim and say no more, until this one gives its runs back and carries them out."""
        self.create(number)
        self.pass_time(1.0)
        silent = self._worker("silent")
        silent.executor = _Silent()
        silent.record_and_claim()
        for _ in range(int(LEASE / self.worker.watch_interval) + 3):
            self.pass_time(self.worker.watch_interval)
            self.worker.tick()


class _Silent:
    """Takes runs and never carries them out."""

    size = free = 250

    def put(self, items: Sequence[ClaimedRun]) -> None: ...

    def take_back(self, before: float | None = None) -> list[ClaimedRun]:
        return []

    def take_stalled(self, before: float) -> list[ClaimedRun]:
        return []

    def head(self) -> ClaimedRun | None:
        return None
