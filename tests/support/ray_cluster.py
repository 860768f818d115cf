"""A real Ray cluster on loopback: a head without processors, and nodes that have some."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.support.clusters import Cluster
from tests.support.ports import free_port
from tests.support.workers import eventually

STARTED = "Ray runtime started."


class RayCluster(Cluster):
    name, needs = "ray", "ray"

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._client_port = free_port()
        self._temporary = tempfile.mkdtemp(prefix="ray-")  # the paths of its sockets have to be short
        super().__init__(folder, workers)

    def close(self) -> None:
        super().close()
        shutil.rmtree(self._temporary, ignore_errors=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def client_address(self) -> str:
        """The address for programs on machines that are no nodes of the cluster."""
        return f"ray://127.0.0.1:{self._client_port}"

    def start_head(self) -> subprocess.Popen[bytes]:
        ports = ("--port", str(self._port), "--ray-client-server-port", str(self._client_port))
        return self._start("--head", *ports, "--num-cpus", "0", "--include-dashboard", "false")

    def start_worker(self) -> subprocess.Popen[bytes]:
        return self._start("--address", self.address, "--num-cpus", "4")

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill all processes of a node."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)

    def _start(self, *options: str) -> subprocess.Popen[bytes]:
        place = ("--node-ip-address", "127.0.0.1", "--temp-dir", self._temporary, "--object-store-memory", "80000000")
        ports = ("--min-worker-port", "0", "--max-worker-port", "0", "--disable-usage-stats", "--block")
        little = ("--include-log-monitor", "false", "--no-monitor")
        command = (sys.executable, "-m", "ray.scripts.scripts", "start", *options, *place, *ports, *little)
        before = self._log().count(STARTED)
        for _ in range(3):  # Ray gives a node half a minute to start, which is too little on a busy machine
            process = self.start(*command)
            eventually(partial(self._is_decided, process, before), 120, "a node starts")
            if process.poll() is None:
                return process
        raise AssertionError(self._log())

    def _is_decided(self, process: subprocess.Popen[bytes], before: int) -> bool:
        return process.poll() is not None or self._log().count(STARTED) > before

    def _log(self) -> str:
        log = self._folder / "ray.log"
        return log.read_text(encoding="utf-8") if log.exists() else ""
