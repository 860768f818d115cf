"""Real clusters on loopback: a head (a scheduler or a broker) and workers, all processes that a test kills and starts
again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]


def kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait(30)


class Cluster(ABC):
    name: ClassVar[str]
    """Its type in the settings, and the extra that brings what it needs."""
    needs: ClassVar[str]
    """A module without which there is no such cluster."""
    timeout: ClassVar[float | None] = None
    """Seconds that a run has at least; None if none of its runs needs a timeout."""
    keeps_workers: ClassVar[bool] = False
    """Whether workers outlive their head."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder, self._port = folder, free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        self.head = self.start_head()
        self.workers = [self.start_worker() for _ in range(workers)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for process in self._processes:
            self.kill(process)

    @classmethod
    def missing(cls) -> str | None:
        """Return what has to be installed before there can be such a cluster."""
        return f"the extra {cls.name} is not installed" if find_spec(cls.needs) is None else None

    @property
    @abstractmethod
    def address(self) -> str: ...

    @abstractmethod
    def start_head(self) -> subprocess.Popen[bytes]: ...

    @abstractmethod
    def start_worker(self) -> subprocess.Popen[bytes]: ...

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        kill(process)

    def restart_head(self) -> None:
        """Kill the head and start another one at the same address, and workers in place of those that end with it."""
        self.kill(self.head)
        if not self.keeps_workers:
            for worker in self.workers:
                self.kill(worker)
        self.head = self.start_head()
        if not self.keeps_workers:
            self.workers = [self.start_worker() for _ in self.workers]

    def start(self, *command: str, **variables: str) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "default", **variables}
        with (self._folder / f"{self.name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self._folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        self._processes.append(process)
        return process


class DaskCluster(Cluster):
    name, needs = "dask", "distributed"

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self._port}"

    def start_head(self) -> subprocess.Popen[bytes]:
        return self._start("dask_scheduler", "--host", "127.0.0.1", "--port", str(self._port))

    def start_worker(self) -> subprocess.Popen[bytes]:
        return self._start("dask_worker", self.address, "--no-nanny", "--nthreads", "8", "--memory-limit", "0")

    def _start(self, module: str, *options: str) -> subprocess.Popen[bytes]:
        return self.start(sys.executable, "-m", f"distributed.cli.{module}", *options, "--no-dashboard")


class CeleryCluster(Cluster):
    name, needs, timeout, keeps_workers = "celery", "celery", 30.0, True

    @classmethod
    def missing(cls) -> str | None:
        redis = None if shutil.which("redis-server") else "there is no redis-server; Debian has a package of that name"
        return super().missing() or redis

    @property
    def address(self) -> str:
        return f"redis://127.0.0.1:{self._port}/0"

    def start_head(self) -> subprocess.Popen[bytes]:
        where = ("--bind", "127.0.0.1", "--port", str(self._port), "--dir", str(self._folder))
        return self.start("redis-server", *where, "--appendonly", "yes", "--appendfsync", "always", "--save", "")

    def start_worker(self) -> subprocess.Popen[bytes]:
        options = ("--concurrency", "4", "--loglevel", "WARNING", "-n", f"worker{os.urandom(4).hex()}@%h")
        app = ("-A", "tests.support.celery_app", "worker")
        return self.start(sys.executable, "-m", "celery", *app, *options, TEST_REDIS=self.address)

    def close(self) -> None:
        for process in self._processes:
            process.terminate()  # workers end the processes that they have started
        super().close()
