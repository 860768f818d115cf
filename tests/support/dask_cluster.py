"""A real Dask cluster on loopback: a scheduler and workers, each a process that a test kills and starts again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


class DaskCluster:
    def __init__(self, folder: Path, workers: int = 2, threads: int = 8) -> None:
        self._folder, self._port, self._threads = folder, free_port(), threads
        self._processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start_scheduler()
        self.workers = [self.start_worker() for _ in range(workers)]

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self._port}"

    def start_worker(self) -> subprocess.Popen[bytes]:
        threads = ("--nthreads", str(self._threads), "--memory-limit", "0")
        return self._start("dask_worker", self.address, "--no-nanny", "--no-dashboard", *threads)

    def restart_scheduler(self) -> None:
        """Kill the scheduler and start another one at the same address, and workers in place of those that end."""
        kill(self.scheduler)
        for worker in self.workers:
            kill(worker)
        self.scheduler = self._start_scheduler()
        self.workers = [self.start_worker() for _ in self.workers]

    def close(self) -> None:
        for process in self._processes:
            kill(process)

    def _start_scheduler(self) -> subprocess.Popen[bytes]:
        return self._start("dask_scheduler", "--host", "127.0.0.1", "--port", str(self._port), "--no-dashboard")

    def _start(self, module: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{module}", *options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "default"}
        with (self._folder / "dask.log").open("ab") as log:
            process = subprocess.Popen(command, cwd=self._folder, env=environment, stdout=log, stderr=log)
        self._processes.append(process)
        return process


def kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait(30)


@contextmanager
def dask_cluster(folder: Path, **options: int) -> Iterator[DaskCluster]:
    cluster = DaskCluster(folder, **options)
    try:
        yield cluster
    finally:
        cluster.close()
