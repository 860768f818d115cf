"""The compose files in real containers: `make containers` needs a Docker engine with Compose, and ports 8765 and 8766.

`tests/e2e/test_containers.py` tries the same commands as processes, without an engine."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.cli import ROOT
from tests.support.workers import eventually

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(900),  # images are built first
    pytest.mark.skipif(
        not os.environ.get("DUETIME_TEST_CONTAINERS"), reason="`make containers` starts them in a Docker engine"
    ),
]

PATIENCE = 60
SECRETS = {"DUETIME_SECRET": uuid.uuid4().hex * 3, "POSTGRES_PASSWORD": uuid.uuid4().hex}


class Project:
    """The containers of one compose file."""

    def __init__(self, file: str) -> None:
        self._command = ["docker", "compose", "-f", str(ROOT / file), "--project-directory", str(ROOT)]
        if file.startswith("deploy/dask"):
            self._command = self._command[:4]
        self._command += ["-p", f"duetime-{uuid.uuid4().hex[:8]}"]

    def compose(self, command: str, check: bool = True) -> str:
        done = subprocess.run(
            [*self._command, *shlex.split(command)],
            env=os.environ | SECRETS, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900,
            check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def duetime(self, service: str, command: str) -> str:
        return self.compose(f"exec -T {service} duetime {command}")

    def results(self, service: str) -> list[Any]:
        """Return what the completed runs returned, the latest first; nothing while the store is away."""
        output = self.compose(
            f"exec -T {service} duetime runs list --status completed --limit 1000 --json", check=False
        )
        return [run["result"] for run in json.loads(output)["runs"]] if output.startswith("{") else []


@pytest.fixture
def start() -> Iterator[Callable[[str], Project]]:
    projects: list[Project] = []

    def up(file: str) -> Project:
        projects.append(Project(file))
        projects[-1].compose("up -d --wait")
        return projects[-1]

    yield up
    for project in projects:
        project.compose("down -v --timeout 10")


def test_a_node_goes_on_when_the_other_is_killed(start: Callable[[str], Project]) -> None:
    nodes = start("compose.yaml")
    nodes.duetime("node-a", "job add beat --task echo --arg here --every 1s")
    eventually(lambda: nodes.results("node-b"), PATIENCE, "a run completes")
    nodes.compose("kill node-a")
    before = len(nodes.results("node-b"))
    eventually(lambda: len(nodes.results("node-b")) > before + 2, PATIENCE, "runs go on")


def test_the_nodes_follow_a_promoted_standby(start: Callable[[str], Project]) -> None:
    nodes = start("deploy/compose.standby.yaml")
    nodes.duetime("node-a", "job add beat --task echo --arg here --every 1s")
    eventually(lambda: nodes.results("node-b"), PATIENCE, "a run completes")
    nodes.compose("rm --stop --force primary")
    eventually(lambda: "WARNING duetime.worker" in nodes.compose("logs node-b"), PATIENCE, "a warning, nothing masked")
    nodes.compose("exec -T -u postgres standby pg_ctl promote")
    eventually(lambda: nodes.results("node-a"), PATIENCE, "the promoted server answers")
    before = len(nodes.results("node-a"))
    eventually(lambda: len(nodes.results("node-a")) > before + 2, PATIENCE, "runs go on")


def test_the_workers_of_the_dask_cluster_run_a_task(start: Callable[[str], Project]) -> None:
    cluster = start("deploy/dask/compose.yaml")
    cluster.duetime("duetime", "job add sums --task sums --arg 1000 --every 1s")
    eventually(lambda: len(cluster.results("duetime")) > 3, PATIENCE, "runs complete on the cluster")
    hosts, sums = zip(*(result.split(": ") for result in cluster.results("duetime")), strict=True)
    assert set(sums) == {"499500"}
    own = cluster.compose("exec -T duetime hostname").strip()
    assert hosts and own not in hosts
