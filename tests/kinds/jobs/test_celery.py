"""Runs on real Celery workers with a real Redis, each of which is killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from duetime.kinds.jobs.executors.status import executor_checks
from duetime.settings import ExecutorSettings, Settings
from tests.support.dask_cluster import ROOT, free_port, kill
from tests.support.ordeal import Ordeal
from tests.support.size import FULL

pytest.importorskip("celery", reason="the extra celery is not installed")
pytestmark = pytest.mark.process
TIMEOUT = 30.0


class CeleryCluster:
    """Redis and workers, each a process that a test kills and starts again."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, free_port()
        self.redis = self._start_redis()
        self.workers = [self.start_worker() for _ in range(2)]

    @property
    def address(self) -> str:
        return f"redis://127.0.0.1:{self._port}/0"

    def start_worker(self) -> subprocess.Popen[bytes]:
        options = ("--concurrency", "4", "--loglevel", "WARNING", "-n", f"worker{os.urandom(4).hex()}@%h")
        return self._start(sys.executable, "-m", "celery", "-A", "tests.support.celery_app", "worker", *options)

    def restart_redis(self) -> None:
        kill(self.redis)
        self.redis = self._start_redis()

    def close(self) -> None:
        for process in (*self.workers, self.redis):
            process.terminate()
        for process in (*self.workers, self.redis):
            kill(process)

    def _start_redis(self) -> subprocess.Popen[bytes]:
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip("there is no redis-server here; Debian's package redis-server brings it")
        options = ("--port", str(self._port), "--appendonly", "yes", "--appendfsync", "always", "--save", "")
        return self._start(program, "--bind", "127.0.0.1", "--dir", str(self._folder), *options)

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "default", "TEST_REDIS": self.address}
        with (self._folder / "celery.log").open("ab") as log:
            return subprocess.Popen(command, cwd=self._folder, env=environment, stdout=log, stderr=log)


@contextmanager
def celery_cluster(folder: Path) -> Iterator[CeleryCluster]:
    cluster = CeleryCluster(folder)
    try:
        yield cluster
    finally:
        cluster.close()


def test_a_redis_that_is_away_is_named_without_its_password() -> None:
    address = f"redis://:hunter2-hunter2@127.0.0.1:{free_port()}/0"
    settings = Settings(executors={"cluster": ExecutorSettings("celery", address)})
    (check,) = executor_checks(settings)
    assert check.status == "fail" and "cluster (celery at redis://" in check.message
    assert "hunter2" not in check.message


@pytest.mark.later
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("number", "seconds"), [(60, 0.05), *([(1000, 0.3)] if FULL else [])])
def test_every_run_is_recorded_once_within_its_timeout(tmp_path: Path, number: int, seconds: float) -> None:
    with (
        celery_cluster(tmp_path) as cluster,
        Ordeal(tmp_path, "celery", cluster.address, timeout=TIMEOUT + number * seconds) as ordeal,
    ):
        ordeal.create(number, seconds)
        ordeal.start()
        ordeal.wait_for(number // 5)
        kill(cluster.workers[0])
        ordeal.wait_for(2 * number // 5)
        ordeal.kill()
        cluster.workers[0] = cluster.start_worker()
        ordeal.start()
        ordeal.wait_for(3 * number // 5)
        cluster.restart_redis()
        ordeal.wait_for(number)
        ordeal.check(number, attempts=3)
