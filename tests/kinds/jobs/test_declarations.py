"""Schedules that the code declares: workers create, change and cancel them."""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duetime import Duetime, InvalidInput, Registry, Schedule, Settings, Simulation
from duetime.engine.clock import DAY, Instant, SystemClock
from duetime.engine.errors import Conflict
from duetime.engine.model import OVER
from duetime.engine.scheduler import Scheduler
from duetime.kinds.jobs import declarations
from duetime.kinds.jobs.declaration_reader import PREFIX
from duetime.kinds.jobs.declarations import Declarations
from duetime.kinds.jobs.loading import FILE_PREFIX, TaskModuleError, load, load_file, task_modules
from duetime.kinds.jobs.registry import InvalidTask, default_registry
from duetime.service.operations.create import create_new

PATIENCE = 30
SECOND_HALF_PAST_TWO = datetime(2099, 10, 25, 2, 30, fold=1)
HOURLY = "@registry.task(every='1h')\ndef clean(): ..."
DAILY = "@registry.task(every='1d')\ndef clean(): ..."
WEEKLY = "@registry.task(every='1w')\ndef clean(): ..."
GONE = "@registry.task\ndef clean(): ..."


class Deployments:
    """Workers on one store, each with its own version of a module."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder, self._workers = url, folder, list[Duetime]()

    def version(self, text: str, module: str = "shop") -> Path:
        """Write a version of a module, in a folder of its own."""
        folder = self._folder / str(len(list(self._folder.iterdir())))
        folder.mkdir()
        file = folder / f"{module}.py"
        file.write_text(f"from duetime import Registry\nregistry = Registry()\n{text}\n")
        return file

    def prepare(self, text: str, module: str = "shop") -> Duetime:
        registry: Registry = load_file(str(self.version(text, module))).registry
        return self._prepare(registry)

    def prepare_default(self) -> Duetime:
        return self._prepare(None)

    def _prepare(self, registry: Registry | None) -> Duetime:
        worker = Duetime(settings=Settings(db=self._url, timezone="UTC"), registry=registry)
        self._workers.append(worker)
        return worker

    def start(self, text: str, module: str = "shop") -> Duetime:
        """Start a worker and return it."""
        return self.prepare(text, module).start()

    def close(self) -> None:
        for worker in self._workers:
            worker.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    postgres: str = request.getfixturevalue("clean_postgres_url") if request.param == "postgresql" else ""
    return postgres or str(tmp_path / "declared.db")


@pytest.fixture
def deployments(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployments]:
    monkeypatch.setattr(declarations, "CHECK_SECONDS", 0.05)
    folder = tmp_path / "versions"
    folder.mkdir()
    deployments = Deployments(url, folder)
    yield deployments
    deployments.close()
    forget_files()


def only(duetime: Duetime) -> Schedule:
    [schedule] = duetime.schedules()
    return schedule


def only_of(duetime: Duetime, name: str) -> Schedule:
    [schedule] = [each for each in duetime.schedules() if each.name == name]
    return schedule


def forget_files() -> None:
    """Forget the modules that were loaded by their paths, as in another process."""
    for name in [name for name in sys.modules if name.startswith(FILE_PREFIX)]:
        del sys.modules[name]


def wait_until(holds: Callable[[], bool]) -> None:
    clock = SystemClock()
    end = clock.monotonic() + PATIENCE
    while not holds():
        assert clock.monotonic() < end
        threading.Event().wait(0.02)


def test_a_worker_that_starts_creates_them(deployments: Deployments) -> None:
    duetime = deployments.start("""
@registry.task(when="every weekday at 8:30", args=["Ann"], kwargs={"greeting": "Hello"}, max_attempts=3, timeout="10m")
def greet(name: str, greeting: str): ...
@registry.task(name="report.send", cron="0 9 * * *", timezone="Europe/Berlin")
def send(): ...
@registry.task(rrule="FREQ=MONTHLY;BYDAY=-1FR")
def close_month(): ...
@registry.task(at="2099-12-24T18:00:00")
def celebrate(): ...
@registry.task
def plain(): ...
""")
    found = {each.name: each for each in duetime.schedules()}
    assert found.keys() == {"greet", "report.send", "close_month", "celebrate"}
    greet = found["greet"]
    assert greet.payload == {"task": "greet", "args": ["Ann"], "kwargs": {"greeting": "Hello"}}
    assert greet.policy is not None
    assert (greet.policy["max_attempts"], greet.policy["timeout_seconds"]) == (3, 600)
    assert found["report.send"].trigger["timezone"] == "Europe/Berlin"
    assert f"{found['celebrate'].next_run:%Y-%m-%d %H:%M}" == "2099-12-24 18:00"
    [worker] = duetime.workers()
    assert not any("declared" in lane for lane in worker.lanes), "its lanes are only lanes"


def test_they_run(deployments: Deployments) -> None:
    duetime = deployments.start("@registry.task(every='1s', max_runs=1)\ndef tick():\n    return 'tock'")
    wait_until(lambda: [each.result for each in duetime.history(status="completed")] == ["tock"])


def test_what_follows_another_one_may_come_before_it_in_the_code(deployments: Deployments) -> None:
    duetime = deployments.start("""
@registry.task(after="tick")
def follow(): return "after it"
@registry.task(every='1s', max_runs=1)
def tick(): return "tock"
@registry.task(on="github.push where ref = main")
def review(): ...
""")
    wait_until(lambda: {each.result for each in duetime.history(status="completed")} == {"tock", "after it"})
    words = {each.name: each.reads_as for each in duetime.schedules()}
    assert words["review"] == "on the event github.push where ref is main" and words["follow"] == "after tick succeeds"


def test_a_chain_may_stand_in_any_order_in_the_code(deployments: Deployments) -> None:
    duetime = deployments.start("""
@registry.task(after="second")
def third(): return 3
@registry.task(after="first")
def second(): return 2
@registry.task(every='1s', max_runs=1)
def first(): return 1
""")
    wait_until(lambda: [each.result for each in duetime.history(status="completed")] == [3, 2, 1])


def test_a_changed_declaration_changes_its_schedule(deployments: Deployments) -> None:
    first = only(deployments.start(HOURLY))
    second = only(deployments.start(DAILY))
    assert (second.id, second.version) == (first.id, 2) and "every day" in second.reads_as
    assert only(deployments.start(DAILY)).version == 2, "the same declaration changes nothing"


def test_one_that_is_gone_is_cancelled_and_can_come_back(deployments: Deployments) -> None:
    worker = deployments.start(HOURLY)
    first = only(worker)
    worker.stop()
    worker = deployments.start(GONE)
    assert only(worker).status == "cancelled"
    worker.stop()
    worker = deployments.start(HOURLY)
    [again] = worker.schedules("pending")
    assert (again.name, again.next_run is not None) == (first.name, True)


def test_a_module_that_was_not_imported_keeps_its_schedules(deployments: Deployments) -> None:
    deployments.start(HOURLY).stop()
    for name in [name for name in sys.modules if name.startswith(f"{FILE_PREFIX}shop")]:
        del sys.modules[name]
    worker = deployments.start("@registry.task(every='1d')\ndef other(): ...", module="other_shop")
    assert {each.name: each.status for each in worker.schedules()} == {"clean": "pending", "other": "pending"}


@pytest.mark.process
def test_a_module_that_cannot_be_imported_keeps_its_schedules(deployments: Deployments, url: str) -> None:
    worker = deployments.start(HOURLY)
    worker.stop()
    broken = deployments.version("import nothing_of_this_name")
    command = [sys.executable, "-m", "duetime", "worker", "--db", url, "--tasks", str(broken), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode and "could not be imported" in done.stderr
    assert only(worker).status == "pending"


@pytest.mark.parametrize("module", ["calendar", "pytest"])
def test_a_module_of_the_same_name_is_another_one(deployments: Deployments, module: str) -> None:
    """A file may be called like a module of the standard library, or of an installed package."""
    worker = deployments.start(HOURLY, module)
    worker.stop()
    forget_files()
    assert module in sys.modules
    other = deployments.start("@registry.task(every='1d')\ndef other(): ...", module="other_shop")
    assert {each.name: each.status for each in other.schedules()} == {"clean": "pending", "other": "pending"}
    other.stop()
    assert only_of(deployments.start(GONE, module), "clean").status == "cancelled", "this time it was imported"


@pytest.mark.parametrize("where", ["", "site-packages"])
def test_an_imported_module_whose_last_declaration_is_gone(
    deployments: Deployments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    worker = deployments.start(HOURLY, "imported_shop")
    worker.stop()
    forget_files()
    folder = tmp_path / where / "program"
    folder.mkdir(parents=True)
    (folder / "imported_shop.py").write_text("")
    monkeypatch.syspath_prepend(folder)
    load(["imported_shop"]) if where else importlib.import_module("imported_shop")
    try:
        assert only(deployments.start("", "other_shop")).status == "cancelled"
    finally:
        del sys.modules["imported_shop"]
        task_modules.discard("imported_shop")


def test_a_module_whose_import_failed_halfway_keeps_its_schedules(
    deployments: Deployments, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(default_registry, "_tasks", dict(default_registry._tasks))
    declare = "from duetime import task\n@task(every='{}')\ndef {}(): ...\n"
    first, second = declare.format("1h", "first_half"), declare.format("1h", "second_half")
    load_file(str(deployments.version(first + second)))
    worker = deployments.prepare_default().start()
    worker.stop()
    forget_files()
    for name in ("first_half", "second_half"):
        del default_registry._tasks[name]
    with pytest.raises(TaskModuleError):
        load_file(
            str(deployments.version(declare.format("2h", "first_half") + "import nothing_of_this_name\n" + second))
        )
    worker = deployments.prepare_default().start()
    assert {each.name: each.status for each in worker.schedules()} == {
        "first_half": "pending",
        "second_half": "pending",
    }
    assert all("hour" in each.reads_as and each.version == 1 for each in worker.schedules())
    assert "shop: its declared schedules stay as they are" in caplog.text


def test_what_a_person_did_stays(deployments: Deployments) -> None:
    worker = deployments.start(HOURLY)
    id = only(worker).id
    worker.pause(id, note="the disk is full")
    worker = deployments.start(DAILY)
    assert (only(worker).status, "every day" in only(worker).reads_as) == ("paused", True)
    worker.edit(id, name="Edited")
    assert only(deployments.start(DAILY)).name == "Edited"
    worker.cancel(id)
    for text in (DAILY, WEEKLY):
        assert only(deployments.start(text)).status == "cancelled"
    worker.delete(id)
    assert only(deployments.start(WEEKLY)).status == "pending", "deleted means that it is created again"


def test_what_is_over_stays_so_after_its_history_is_deleted(deployments: Deployments) -> None:
    once = "@registry.task(when='in 1 second')\ndef send(): ..."
    worker = deployments.start(f"{HOURLY}\n{once}")
    worker.cancel(only_of(worker, "clean").id)
    wait_until(lambda: only_of(worker, "send").status not in ("pending", "running"))
    before = {each.id for each in worker.schedules()}
    while worker.app.scheduler.store.prune(Instant(SystemClock().now() + DAY), 100):
        pass
    worker = deployments.start(f"{HOURLY}\n{once}")
    assert worker.history() == [] and {each.id for each in worker.schedules()} == before
    assert only_of(worker, "clean").status == "cancelled"


def test_two_workers_at_once_create_one(deployments: Deployments) -> None:
    for text in (HOURLY, DAILY, GONE, HOURLY):
        workers = [deployments.prepare(text) for _ in range(4)]
        ready, failures = threading.Barrier(len(workers)), list[BaseException]()

        def start(worker: Duetime, ready: threading.Barrier = ready, failures: list[Any] = failures) -> None:
            ready.wait()
            try:
                worker.start()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=start, args=(worker,)) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        living = workers[0].schedules("pending")
        assert not failures and len(living) == (text != GONE)
        for worker in workers:
            worker.stop()


@pytest.mark.process
def test_workers_in_processes_of_their_own(deployments: Deployments, url: str) -> None:
    """Two commands at once, as in a deployment."""
    file = deployments.version("from duetime import task\n@task(every='1h')\ndef clean(): ...")
    command = [sys.executable, "-m", "duetime", "worker", "--db", url, "--tasks", str(file), "--quiet"]
    watching = deployments.prepare("")
    processes = [subprocess.Popen(command) for _ in range(2)]
    try:
        wait_until(lambda: len(watching.workers()) == 2)
        wait_until(lambda: bool(watching.schedules()))
        assert only(watching).name == "clean"
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(PATIENCE) for process in processes] == [0, 0]


def test_a_replaced_declaration_waits_for_the_end_of_the_replacing_one(deployments: Deployments) -> None:
    deployments.start(HOURLY)
    new = deployments.start(DAILY)
    old = deployments.start(HOURLY)  # a worker with the old code starts again, as in a rolling deployment
    threading.Event().wait(0.3)
    assert "every day" in only(old).reads_as
    further = deployments.start(DAILY)
    new.stop()
    threading.Event().wait(0.3)
    assert "every day" in only(old).reads_as, "another worker with the new code is alive"
    further.stop()
    wait_until(lambda: "hour" in only(old).reads_as)  # the deployment was taken back
    stray = deployments.start(DAILY)
    threading.Event().wait(0.3)
    assert "hour" in only(stray).reads_as, "now the former one replaces the other"


def test_the_old_code_neither_revives_nor_cancels(deployments: Deployments) -> None:
    both = f"{HOURLY}\n@registry.task(every='2h')\ndef second(): ..."
    deployments.start(HOURLY)
    new = deployments.start(GONE + "\n@registry.task(every='2h')\ndef second(): ...")
    old = deployments.start(HOURLY)
    threading.Event().wait(0.3)
    assert {each.name: each.status for each in old.schedules()} == {"clean": "cancelled", "second": "pending"}
    newest = deployments.start(both)
    assert sorted(each.name for each in newest.schedules("pending")) == ["clean", "second"], "never replaced before"
    new.stop()


def test_another_new_version_replaces_the_last_one(deployments: Deployments) -> None:
    deployments.start(HOURLY)
    deployments.start(DAILY)
    assert "every week" in only(deployments.start(WEEKLY)).reads_as
    for text in (HOURLY, DAILY):
        old = deployments.start(text)
        threading.Event().wait(0.2)
        assert "every week" in only(old).reads_as


def pending_keys(duetime: Duetime) -> list[str]:
    """Return the modules and names of the declared schedules that are in force."""
    schedules = duetime.app.store.by_key_prefix("local", PREFIX)
    return sorted(each.definition.key.removeprefix(PREFIX) for each in schedules if each.progress.state not in OVER)


def test_a_renamed_module_takes_its_tasks_along(deployments: Deployments) -> None:
    """Otherwise, they would run twice for ever."""
    worker = deployments.start(f"{HOURLY}\n@registry.task(every='2h')\ndef stays(): ...", "tasks")
    for module in ("jobs", "shop.jobs", "tasks"):
        worker.stop()
        forget_files()
        worker = deployments.start(HOURLY, module)
        kept = [] if module == "tasks" else ["tasks:stays"]
        assert pending_keys(worker) == sorted([f"{module}:clean", *kept]), "only what is declared elsewhere has moved"


def test_a_module_is_renamed_in_a_rolling_deployment(deployments: Deployments) -> None:
    old = deployments.start(HOURLY, "tasks")
    forget_files()
    new = deployments.start(HOURLY, "jobs")
    threading.Event().wait(0.3)
    assert pending_keys(new) == ["jobs:clean", "tasks:clean"], "a live worker declares it, perhaps another program"
    old.stop()
    wait_until(lambda: pending_keys(new) == ["jobs:clean"])
    forget_files()
    stray = deployments.start(HOURLY, "tasks")  # a worker with the old code starts again
    threading.Event().wait(0.3)
    assert pending_keys(new) == ["jobs:clean"]
    new.delete(new.schedules("pending")[0].id)
    forget_files()
    further = deployments.start(HOURLY, "jobs")
    assert pending_keys(new) == ["jobs:clean"], "the old code does not replace the new one"
    further.stop()
    new.stop()
    wait_until(lambda: pending_keys(stray) == ["tasks:clean"])  # the deployment was taken back


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"every": "1h", "cron": "0 9 * * *"}, "exactly one"),
        ({"max_attempts": 3}, "exactly one"),
        ({"args": ["x"]}, "exactly one"),
        ({"when": "whenever"}, "could not parse"),
        ({"every": "1h", "max_attempts": 0}, "max_attempts: must be"),
        ({"every": "1h", "timeout": "x"}, "timeout: could not parse"),
        ({"every": "1h", "tries": 3}, "tries: unknown"),
        ({"every": "1h", "args": "Ann"}, r"args: must be a list of arguments, such as \['Ann'\]"),
        ({"every": "1h", "args": b"Ann"}, "args: must be a list of arguments"),
        ({"every": "1h", "args": 5}, "args: must be a list, not int"),
        ({"every": "1h", "args": [object()]}, "args: must hold JSON values only"),
        ({"every": "1h", "args": [float("nan")]}, "args: must hold JSON values only"),
        ({"every": "1h", "kwargs": [1]}, "kwargs: must be an object, not list"),
        ({"every": "1h", "kwargs": "ab"}, "kwargs: must be an object, not str"),
        ({"every": "1h", "kwargs": {(1, 2): 3}}, "kwargs: must hold JSON values only"),
        ({"when": 5}, "when: must be a text, not int"),
        ({"at": 5}, "at: must be a text, not int"),
        ({"cron": 5}, "cron: must be a text, not int"),
        ({"rrule": 5}, "rrule: must be a text, not int"),
        ({"every": "1h", "end": 5}, "end: must be a text, not int"),
        ({"every": "1h", "timezone": 5}, "timezone: must be a text, not int"),
        ({"at": SECOND_HALF_PAST_TWO}, "at: needs timezone beside it, because fold=1"),
        ({"at": SECOND_HALF_PAST_TWO, "timezone": None}, "at: needs timezone beside it, because fold=1"),
    ],
)
def test_what_cannot_be_read_fails_at_the_decorator(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidTask, match=reason):
        Registry().task(name="clean", **options)(lambda: None)


@pytest.mark.parametrize("times", [{"at": SECOND_HALF_PAST_TWO}, {"every": "1h", "start": SECOND_HALF_PAST_TWO}])
def test_of_two_equal_times_fold_means_the_second(times: dict[str, Any]) -> None:
    registry = Registry()
    registry.task(args=[7], timezone="Europe/Berlin", **times)(lambda_named([]))
    with Simulation(datetime(2099, 10, 24, tzinfo=UTC), registry=registry) as simulation:
        [schedule] = simulation.duetime.schedules()
        assert schedule.next_run == datetime(2099, 10, 25, 1, 30, tzinfo=UTC)


def test_what_cannot_be_created_is_logged(deployments: Deployments, caplog: pytest.LogCaptureFixture) -> None:
    worker = deployments.start(f"@registry.task(every='1h', args=[1])\ndef bad(): ...\n{HOURLY}")
    assert only(worker).name == "clean", "the others are created"
    assert "shop: the declared schedule of bad is not in force" in caplog.text


def test_one_that_is_refused_does_not_keep_back_the_others(
    deployments: Deployments, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_first(call: Any, new: Any, on_change: Any) -> Any:
        if new.name == "a_first":
            raise InvalidInput(field="at", problem="has passed")
        return create_new(call, new, on_change)

    monkeypatch.setattr(declarations, "create_new", refuse_first)
    worker = deployments.start(f"@registry.task(every='1h')\ndef a_first(): ...\n{HOURLY}")
    assert only(worker).name == "clean"
    assert "shop: the declared schedule of a_first is not in force: at: has passed" in caplog.text


def test_one_that_cannot_be_marked_as_gone_is_not_cancelled(
    deployments: Deployments, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would look as if a person had cancelled it, and would not come back with its declaration."""
    deployments.start(HOURLY).stop()

    def refuse_edit(*_: object) -> None:
        raise Conflict("somebody else was faster")

    monkeypatch.setattr(Scheduler, "edit", refuse_edit)
    worker = deployments.start(GONE)
    assert only(worker).status == "pending" and "could not be cancelled: somebody else" in caplog.text


def test_declared_tasks_of_another_registry_are_not_gone(
    deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may have workers with a registry of their own beside the default one."""
    monkeypatch.setattr(default_registry, "_tasks", dict(default_registry._tasks))
    deployments.start("from duetime import task\n@task(every='1h')\ndef clean(): ...\nregistry = None").stop()
    worker = deployments.start("@registry.task(every='1d')\ndef other(): ...")
    assert {each.name: each.status for each in worker.schedules()} == {"clean": "pending", "other": "pending"}


def test_agents_cannot_take_the_keys(deployments: Deployments) -> None:
    worker = deployments.start(HOURLY)
    [schedule] = worker.app.store.by_key_prefix("local", PREFIX)
    assert schedule.definition.key == f"{PREFIX}shop:clean"
    stored = worker.app.store.workers()[0].lanes.split(",")
    assert len([lane for lane in stored if lane.startswith("job:declared:")]) == 1


def test_a_simulation_has_them() -> None:
    registry, calls = Registry(), list[int]()
    registry.task(every="1h", args=[7])(lambda_named(calls))
    with Simulation(datetime(2026, 3, 2, tzinfo=UTC), registry=registry) as simulation:
        simulation.advance(timedelta(hours=3))
        assert calls == [7, 7, 7]
        assert Declarations(simulation.duetime.app.services, registry).apply()


def lambda_named(calls: list[int]) -> Callable[[int], None]:
    def count(number: int) -> None:
        calls.append(number)

    return count
