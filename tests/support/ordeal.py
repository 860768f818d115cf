"""Jobs on a real cluster, while the test kills what runs them; executions are counted outside of the store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

from duetime.app import App, build
from duetime.engine.clock import SECOND, Instant, datetime_of
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import RunStatus
from duetime.engine.store import RunQuery
from duetime.engine.validation import NewSchedule
from duetime.kinds.jobs.executors import executor_type
from duetime.settings import ExecutorSettings, Settings
from tests.support import cluster_tasks
from tests.support.clusters import ROOT, Cluster, kill
from tests.support.workers import CLOCK, eventually

CALLER = Caller(LOCAL, operator=True)


class Ordeal:
    """Jobs in a store, and the Duetime that tracks them, in a process of its own."""

    def __init__(self, folder: Path, cluster: Cluster, name: str = "first", timeout: float | None = None) -> None:
        self._folder, self._name, self._timeout = folder, name, timeout
        self._options = {"url": str(folder / f"{name}.db"), "type": cluster.name, "address": cluster.address}
        self._process: subprocess.Popen[str] | None = None
        executors = {"cluster": ExecutorSettings(cluster.name, cluster.address)}
        settings = Settings(db=self._options["url"], timezone="UTC", executors=executors, max_schedules=100_000)
        self._app: App = build(settings, registry=cluster_tasks.registry)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        self._app.close()

    @property
    def _events(self) -> Path:
        return self._folder / f"{self._name}.events"

    def create_waiting(self, number: int, gate: Path) -> None:
        """Create jobs that end once a file exists."""
        due = _once_created(number)
        payload = {"task": "wait_for", "args": [str(gate)]}
        names = [f"{self._name}-{each}" for each in range(number)]
        for start in range(0, number, 1000):
            part = names[start : start + 1000]
            news = [NewSchedule("job", name, "once", {"run_at": due}, payload) for name in part]
            self._app.scheduler.create_all(CALLER, news)

    def out(self) -> int:
        """Return how many runs the cluster has, as far as the store knows."""
        return self._app.store.runs(RunQuery(holder="on:cluster", limit=1, count_to=100_000)).total

    def usage(self) -> tuple[float, float]:
        """Return the seconds of processor time and the megabytes that Duetime has used."""
        used = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8")
        peak = int(status.partition("VmHWM:")[2].split()[0])
        return (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK"), peak / 1024

    def create(self, number: int, seconds: float) -> None:
        due, policy, news = _once_created(number), {}, []
        if self._timeout is not None:
            policy = {"timeout": int(self._timeout * SECOND), "max_attempts": 3, "backoff": SECOND}
        for each in range(number):
            key = f"{self._name}-{each}"
            payload = {"task": "work", "args": [key, seconds, str(self._events)]}
            news.append(NewSchedule("job", key, "once", {"run_at": due}, payload, policy))
        self._app.scheduler.create_all(CALLER, news)

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.support.tracking_process", json.dumps(self._options)]
        with (self._folder / f"{self._name}.log").open("a") as log:
            path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
            environment = {**os.environ, "PYTHONPATH": path}
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", (self._folder / f"{self._name}.log").read_text()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            kill(process)  # type: ignore[arg-type]  # of texts or bytes
            assert process.stdout is not None
            process.stdout.close()

    def counts(self) -> dict[str, int]:
        return self._app.store.run_counts(RunQuery(count_to=100_000))

    def wait_for(self, completed: int, seconds: float = 300.0) -> None:
        eventually(lambda: self.counts().get("completed", 0) >= completed, seconds, f"{completed} of {self._name}")

    def executions(self) -> list[str]:
        return self._events.read_text(encoding="utf-8").split()

    def check(self, number: int, attempts: int = 1) -> None:
        """Check that every run was recorded once, with its own result."""
        assert self.counts() == {"completed": number}
        runs = self._app.store.runs(RunQuery(limit=100_000, count_to=0, most_bytes=2**40)).items
        assert len({run.schedule for run in runs}) == len(runs) == number
        assert {run.result for run in runs} == {f'"{self._name}-{each}"' for each in range(number)}
        assert all(run.name == json.loads(run.result or "") for run in runs)
        assert all(run.status == RunStatus.COMPLETED and 1 <= run.attempt <= attempts for run in runs)
        assert set(self.executions()) == {run.name for run in runs}


def _once_created(number: int) -> str:
    """Return a time at which so many jobs have been created."""
    return datetime_of(Instant(CLOCK.now() + 2 * SECOND + number * SECOND // 200)).isoformat()


def endure(folder: Path, cluster: Cluster, number: int, seconds: float, *, kills_head: bool = True) -> int:
    """Run jobs while a worker of the cluster, Duetime and the head are killed, once each; every run is recorded once.
    Return how many executions there were in all."""
    timeout = None if cluster.timeout is None else cluster.timeout + number * seconds / 2
    with Ordeal(folder, cluster, timeout=timeout) as ordeal:
        ordeal.create(number, seconds)
        ordeal.start()
        ordeal.wait_for(number // 5)
        cluster.kill(cluster.workers[0])
        ordeal.wait_for(2 * number // 5)
        ordeal.kill()
        cluster.workers[0] = cluster.start_worker()
        ordeal.start()
        ordeal.wait_for(3 * number // 5)
        if kills_head:
            cluster.restart_head()
        ordeal.wait_for(number, 300 + 2 * (timeout or 0))  # a call that the cluster has lost is made again after it
        ordeal.check(number, attempts=1 if timeout is None else 3)
        return len(ordeal.executions())


def crowd(folder: Path, cluster: Cluster, number: int) -> tuple[float, float]:
    """Have very many runs out at once. Return the seconds of processor time that each costs Duetime, and its megabytes
    of memory."""
    gate = folder / "gate"
    with Ordeal(folder, cluster) as ordeal:
        ordeal.create_waiting(number, gate)
        ordeal.start()
        with closing(executor_type(cluster.name)(cluster.address)) as executor:
            eventually(lambda: len(executor.keys("duetime-")) == number, 300, "all are out")
        assert ordeal.out() == number
        gate.touch()
        ordeal.wait_for(number, 600)
        seconds, megabytes = ordeal.usage()
        return seconds / number, megabytes
