"""A process whose engine works on a disk that fails, beside a lock holder, or without descriptors or memory."""

from __future__ import annotations

import itertools
import logging
import random
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from duetime.app import build
from duetime.engine.errors import DuetimeError
from duetime.engine.kind import Caller
from duetime.engine.model import Run, ScheduleState
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.engine.validation import NewSchedule
from duetime.kinds.jobs.context import TaskContext
from duetime.kinds.jobs.registry import Registry
from duetime.settings import Settings

CALLER = Caller("local", operator=True)
SORTS = ("full", "failing", "read-only", "locked", "descriptors", "memory")
SCHEDULES = 4
LASTS = (0.2, 0.5)
"""Seconds that a fault lasts, from and to."""
RECOVERY = 15.0
"""Seconds after which it is not waited for any longer."""
SPARE_MEMORY = 256 * 1024


class Tried(NamedTuple):
    """A fault: what a client heard meanwhile, and how long the work needed to go on."""

    sort: str
    error: str | None
    """None where the request succeeded."""
    clear: bool
    recovery: float
    alive: bool


class Ended(NamedTuple):
    broken: list[str]
    uncovered: list[str]


class FaultyVFS(apsw.VFS):
    """The system's VFS, whose writes, reads and syncs fail while somebody wants them to."""

    def __init__(self) -> None:
        self.error: Callable[[], Exception] | None = None
        self.base = apsw.vfs_names()[0]
        super().__init__("faulty", self.base, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _FaultyFile(self, name, flags)

    def check(self) -> None:
        if self.error is not None:
            raise self.error()


class _FaultyFile(apsw.VFSFile):
    def __init__(self, vfs: FaultyVFS, name: Any, flags: list[int]) -> None:
        self._vfs = vfs
        super().__init__(vfs.base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._vfs.check()
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._vfs.check()
        super().xSync(flags)


ERRORS: dict[str, Callable[[], Exception]] = {
    "full": lambda: apsw.FullError("full"),
    "failing": lambda: apsw.IOError("EIO"),
    "read-only": lambda: apsw.ReadOnlyError("read-only"),
}


def main(folder: str, count: int, seed: int, answers: Connection) -> None:
    """Cause so many faults, one after the other, and send what came of each; at the end, how the schedules are."""
    logging.getLogger("duetime").setLevel(logging.CRITICAL + 1)
    vfs = FaultyVFS()
    scene = _Scene(Path(folder), random.Random(seed), vfs)
    try:
        for number in range(count):
            answers.send(scene.suffer(SORTS[number % len(SORTS)]))
        answers.send(scene.end())
    finally:
        answers.close()
        scene.close()


class _Scene:
    def __init__(self, folder: Path, chance: random.Random, vfs: FaultyVFS) -> None:
        self.chance, self.vfs = chance, vfs
        self.ran: dict[str, threading.Event] = {}
        self._numbers = itertools.count()
        self.holder = LockHolder(folder / "store.db")
        self.app = build(Settings(db=str(folder / "store.db"), timezone="UTC", threads=4), registry=self._tasks())
        self.engine = self.app.engine()
        self.engine.start()
        self.began = datetime.now(UTC)
        for number in range(SCHEDULES):
            self._create(f"every second {number}", "interval", {"seconds": 1}, {"catch_up": "all"})

    def _tasks(self) -> Registry:
        registry = Registry()

        @registry.task
        def mark(key: str, context: TaskContext) -> None:
            """Record that the task ran."""
            self.ran.setdefault(key, threading.Event()).set()

        return registry

    def _create(self, key: str, type_: str, config: dict[str, Any], policy: dict[str, Any]) -> DuetimeError | None:
        new = NewSchedule("job", key, type_, config, {"task": "mark", "kwargs": {"key": key}}, policy)
        try:
            self.app.scheduler.create(CALLER, new)
        except DuetimeError as error:
            return error
        return None

    def _create_once(self) -> str:
        """Create a one-off that is due at once; return its key, or raise what a client would hear."""
        key = f"once {next(self._numbers)}"
        refused = self._create(key, "once", {"run_at": (datetime.now(UTC) + timedelta(seconds=0.1)).isoformat()}, {})
        if refused is not None:
            raise DuetimeError(refused.message or refused.code)
        return key

    def suffer(self, sort: str) -> Tried:
        """Ask for something amid the fault, then measure how long it takes until new work is carried out again."""
        heard: list[tuple[str | None, bool]] = []
        client = threading.Thread(target=lambda: heard.append(self._heard(sort)))
        with self._fault(sort):
            if sort in ("descriptors", "memory"):
                heard.append(self._heard(sort))  # there may be no thread to be had
            else:
                client.start()
            threading.Event().wait(self.chance.uniform(*LASTS))
        if client.ident is not None:
            client.join()
        error, clear = heard[0]
        return Tried(sort, error, clear, self._recovery(), self.engine.failure is None)

    def _heard(self, sort: str) -> tuple[str | None, bool]:
        """Return what a client hears that asks for something amid the fault, and whether it says what to do."""
        try:
            self._create_once()
        except DuetimeError as said:
            return str(said), ";" in str(said)
        except MemoryError:
            return "MemoryError", sort == "memory"
        except Exception as said:
            return f"{type(said).__name__}: {said}", False
        return None, True

    def _recovery(self) -> float:
        began = time.monotonic()
        while time.monotonic() - began < RECOVERY and self.engine.failure is None:
            try:
                key = self._create_once()
            except DuetimeError:
                threading.Event().wait(0.05)
                continue
            self.ran.setdefault(key, threading.Event()).wait(RECOVERY)
            break
        return time.monotonic() - began

    @contextmanager
    def _fault(self, sort: str) -> Iterator[None]:
        if sort in ERRORS:
            self.vfs.error = ERRORS[sort]
            try:
                yield
            finally:
                self.vfs.error = None
        elif sort == "locked":
            with self.holder.holding():
                yield
        elif sort == "descriptors":
            with _limited(resource.RLIMIT_NOFILE, len(list(Path("/proc/self/fd").iterdir()))):
                yield
        else:
            with _limited(resource.RLIMIT_AS, _address_space() + SPARE_MEMORY):
                yield

    def end(self) -> Ended:
        """Wait until the schedules have caught up, and look at what they are and have."""
        store = self.app.store
        deadline = time.monotonic() + RECOVERY
        uncovered: list[str] = []
        until = datetime.now(UTC) - timedelta(seconds=2)
        while time.monotonic() < deadline:
            uncovered = [text for number in range(SCHEDULES) for text in self._uncovered(number, until)]
            if not uncovered:
                break
            threading.Event().wait(0.2)
        schedules = store.search(ScheduleQuery(limit=10_000, count_to=0)).items
        broken = [one.definition.name for one in schedules if one.progress.state == ScheduleState.BROKEN]
        return Ended(broken, uncovered)

    def _uncovered(self, number: int, until: datetime) -> list[str]:
        """Return the seconds between the first and the last row that have no row."""
        name = f"every second {number}"
        rows = [run for run in self._runs() if run.name == name]
        covered = {second for run in rows for second in range(run.due // 10**6, (run.last or run.due) // 10**6 + 1)}
        if not covered:
            return [f"{name} never ran"]
        last = int(until.timestamp())
        return [
            f"{name} has no row for second {second}" for second in range(min(covered), last) if second not in covered
        ]

    def _runs(self) -> list[Run]:
        found: list[Run] = []
        cursor = None
        while True:
            page = self.app.store.runs(RunQuery(limit=1000, cursor=cursor, count_to=0))
            found += page.items
            if (cursor := page.cursor) is None:
                return found

    def close(self) -> None:
        self.engine.stop(2.0)
        self.app.close()
        self.holder.close()


@contextmanager
def _limited(what: int, soft: int) -> Iterator[None]:
    before, hard = resource.getrlimit(what)
    resource.setrlimit(what, (soft, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (before, hard))


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()


@dataclass
class LockHolder:
    """Another process that takes SQLite's write lock when it is told to. See scorecard/lock_holder.py."""

    path: Path

    def __post_init__(self) -> None:
        command = [sys.executable, "-m", "scorecard.lock_holder", str(self.path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        self._process.stdout.readline()

    @contextmanager
    def holding(self) -> Iterator[None]:
        self._tell("hold")
        try:
            yield
        finally:
            self._tell("release")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
