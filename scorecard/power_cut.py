"""Power cuts: a SQLite store is rebuilt as a cut may leave it, and has to hold whatever was acknowledged before."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from duetime.app import App, build
from duetime.engine.clock import instant_of
from duetime.engine.kind import Caller
from duetime.engine.store import RunQuery
from duetime.engine.validation import NewSchedule
from duetime.engine.worker.worker import Worker, WorkerOptions
from duetime.kinds.jobs.registry import Registry
from duetime.settings import Settings
from duetime.stores.sqlite.store import SqliteStore
from duetime.testing import SettableClock
from scorecard.line import Result, Scale, Tell
from scorecard.recording_vfs import Acknowledged, Disk, Operation, recorded, write_image
from tests.support.invariants import invariants

FILE = "store.db"
WAYS = ("dropped", "kept", "reordered", "torn")
CALLER = Caller("local", operator=True)
START = datetime(2026, 1, 1, tzinfo=UTC)
CHECKPOINT_PAGES = 60
"""SQLite's own 1,000 would put whole recordings between two checkpoints; small ones belong into every image."""
SELF_CHECK_SHARE = 0.5
"""Of the images of a disk that ignores syncs, at least so many must be found to have lost something."""


class Created(NamedTuple):
    public_id: str


class Changed(NamedTuple):
    public_id: str
    version: int


class Ended(NamedTuple):
    run: int
    status: str


def measure(scale: Scale, tell: Tell) -> Result:
    """Record a busy store, rebuild it as of random instants in each way, and look for what is missing."""
    count = scale.of(5000, 40)
    with tempfile.TemporaryDirectory() as folder:
        record = list(_record(Path(folder), scale.of(600, 40)))
        seen = _Seen()
        for number, image in enumerate(_images(record, count, Disk())):
            seen.look(image, Path(folder), FILE)
            tell(f"{number + 1:,} of {count:,} images")
        checked = max(20, count // 50)
        careless = _Seen()
        for image in _images(record, checked, Disk(heeds_syncs=False)):
            careless.look(image, Path(folder), FILE)
    caught = len({failure.split(":")[0] for failure in careless.failures})
    failures = list(seen.failures)
    if caught < SELF_CHECK_SHARE * checked:
        failures.append(f"the check itself fails: of {checked} images without syncs only {caught} were found")
    measured = (
        f"{seen.facts:,} acknowledged facts, {len(seen.failures)} lost or inconsistent;"
        f" self-check: {caught} of {checked} images of a disk that ignores syncs were caught"
    )
    return Result({"images": count}, measured, tuple(failures))


class Image(NamedTuple):
    name: str
    files: dict[str, bytearray]
    facts: Sequence[Any]


def _images(record: Sequence[Operation], count: int, disk: Disk) -> Iterator[Image]:
    """Cut at instants that are spread over the recording, each in one of the ways."""
    first = next(at for at, operation in enumerate(record) if isinstance(operation, Acknowledged))
    chance = random.Random(f"power cuts, {disk.heeds_syncs}")
    cuts = sorted(chance.randrange(first + 1, len(record) + 1) for _ in range(count))
    facts: list[Any] = []
    done = 0
    for number, cut in enumerate(cuts):
        for operation in record[done:cut]:
            disk.apply(operation)
            if isinstance(operation, Acknowledged):
                facts.append(operation.fact)
        done = cut
        how = WAYS[number % len(WAYS)]
        yield Image(f"cut {cut} {how}", disk.image(chance, how), facts)


class _Seen:
    """The findings in the images."""

    def __init__(self) -> None:
        self.facts = 0
        self.failures: list[str] = []

    def look(self, image: Image, folder: Path, file: str) -> None:
        write_image(image.files, folder)
        self.facts += len(image.facts)
        try:
            self.failures += [f"{image.name}: {problem}" for problem in _problems(folder / file, image.facts)]
        except Exception as error:
            self.failures.append(f"{image.name}: it cannot be used: {type(error).__name__}: {error}")


def _problems(path: Path, facts: Sequence[Any]) -> list[str]:
    store = SqliteStore(path)
    try:
        store.migrate()
        problems = _damage(path)
        runs = dict(store._rows("SELECT id, status FROM runs", ()))
        versions = dict(store._rows("SELECT public_id, version FROM schedules", ()))
        invariants(store)
    except AssertionError as error:
        return [f"it contradicts itself: {error}"]
    finally:
        store.close()
    holds: dict[type, Callable[[Any], bool]] = {
        Created: lambda fact: fact.public_id in versions,
        Changed: lambda fact: versions.get(fact.public_id, 0) >= fact.version,
        Ended: lambda fact: runs.get(fact.run) == fact.status,
    }
    return problems + [f"lost: {fact}" for fact in facts if not holds[type(fact)](fact)]


def _damage(path: Path) -> list[str]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        answer = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
    finally:
        connection.close()
    return [] if answer == ["ok"] else answer


# -- the recording -------------------------------------------------------------------------------------------------


def _record(folder: Path, rounds: int) -> list[Operation]:
    """Create, claim, run, record, edit and pause, and note each fact as soon as the store has acknowledged it."""

    def checkpoint_often(connection: apsw.Connection) -> None:
        connection.wal_autocheckpoint(CHECKPOINT_PAGES)

    apsw.connection_hooks.append(checkpoint_often)
    try:
        with recorded() as record:
            scene = _Scene(folder / FILE, record)
            try:
                for number in range(rounds):
                    scene.round(number)
            finally:
                scene.app.close()
    finally:
        apsw.connection_hooks.remove(checkpoint_often)
    return record


class _Scene:
    """A worker that is stepped by hand on a settable clock, and a client that creates and changes schedules."""

    def __init__(self, path: Path, record: list[Operation]) -> None:
        self.record = record
        self.clock = SettableClock(instant_of(START))
        registry = Registry()

        @registry.task
        def work(number: int) -> int:
            """Fail every fifth time, so that retries are recorded too."""
            if number % 5 == 0:
                raise RuntimeError("as asked")
            return number

        self.app: App = build(Settings(db=str(path), timezone="UTC"), clock=self.clock, registry=registry)
        options = WorkerOptions(lease=10.0, name="recorded", lead=0)
        self.worker = Worker(self.app.store, self.app.kinds, self.clock, options)
        self.worker.register()
        self.known: set[Any] = set()

    def round(self, number: int) -> None:
        self._create(number)
        if number % 4 == 3:
            self._change(number)
        self.clock.move_to(instant_of(START + timedelta(seconds=number + 1)))
        while self.worker.tick():
            pass
        for run in self.app.store.runs(RunQuery(limit=30, count_to=0)).items:
            if run.finished is not None:
                self._acknowledge(Ended(run.id, run.status))

    def _create(self, number: int) -> None:
        period = number % 7 + 1
        trigger: tuple[str, dict[str, Any]] = ("once", {"run_at": (START + timedelta(seconds=number + 1)).isoformat()})
        if number % 10 == 0:
            trigger = ("interval", {"seconds": period})
        policy = {"max_attempts": 2, "backoff": 1} if number % 3 else {}
        new = NewSchedule("job", f"job {number}", *trigger, {"task": "work", "kwargs": {"number": number}}, policy)
        made = self.app.scheduler.create_many(CALLER, [new])
        self.last = made[0].definition
        self._acknowledge(Created(self.last.public_id))

    def _change(self, number: int) -> None:
        verb = ("pause", "cancel")[number // 4 % 2]
        getattr(self.app.scheduler, verb)(CALLER, self.last.public_id)
        found = self.app.store.get(self.last.id)
        assert found is not None
        self._acknowledge(Changed(found.definition.public_id, found.definition.version))

    def _acknowledge(self, fact: Any) -> None:
        if fact not in self.known:
            self.known.add(fact)
            self.record.append(Acknowledged(fact))
