"""The executor for Ray, beside what test_clusters.py tries: its addresses, cancelled runs, and large answers."""

from __future__ import annotations

import socket
from pathlib import Path
from unittest.mock import patch

import pytest

from duetime.engine.model import RunStatus
from duetime.kinds.jobs.executors import ray as module
from duetime.kinds.jobs.executors import types_of_executors
from duetime.kinds.jobs.executors.status import executor_checks
from duetime.settings import ExecutorSettings, Settings
from tests.support.ports import free_port
from tests.support.ray_cluster import RayCluster
from tests.support.tracking import CALLER, tracked
from tests.support.workers import eventually

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]


def check(address: str) -> tuple[str, str]:
    (each,) = executor_checks(Settings(executors={"cluster": ExecutorSettings("ray", address)}))
    return each.status, each.message


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_cluster_that_is_away_is_noticed_at_once(scheme: str) -> None:
    address = f"{scheme}127.0.0.1:{free_port()}"
    status, message = check(address)
    assert status == "fail"
    assert f"cluster (ray at {address}) cannot be reached: ConnectionRefusedError" in message


def test_an_address_without_a_port_says_how_it_looks() -> None:
    status, message = check("ray://cluster.example.org")
    assert status == "fail" and "its address needs a port: ray://host:10001" in message


def test_a_server_that_never_answers_is_left() -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    change = "import duetime.kinds.jobs.executors.ray as own; own.PATIENCE_AT_FIRST = 3.0"
    impatient = module._PROGRAM.replace("; ", f"; {change}; ")
    with socket.create_server(("127.0.0.1", 0)) as server, patch.object(module, "_PROGRAM", impatient):
        status, message = check(f"127.0.0.1:{server.getsockname()[1]}")
    assert status == "fail" and "it does not answer" in message


@pytest.mark.later
def test_runs_on_a_cluster_of_which_this_machine_is_no_node(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    path, busy, quotes = types_of_executors()["ray"], tmp_path / "busy", '"' * 30_000
    busy.mkdir()
    with RayCluster(tmp_path) as cluster:
        assert check(cluster.client_address)[1].endswith("workers: 2")
        with tracked(str(tmp_path / "due.db"), cluster.client_address, path) as heavy:
            endless = [heavy.create("work_for_good", str(busy), name=f"endless {each}") for each in range(8)]
            heavy.tick()
            eventually(lambda: heavy.tracker.step() and len([*busy.iterdir()]) == 8, 60, "all processors work")
            for each in endless:
                heavy.app.scheduler.cancel_run(CALLER, heavy.run_of(each).id)
            large = heavy.ended(heavy.create("about", quotes))
            assert large.status == RunStatus.COMPLETED and len(large.result or "") > 60_000
            processes = [Path("/proc", each.name) for each in busy.iterdir()]
            eventually(lambda: not any(each.exists() for each in processes), 20, "cancelled runs end there")
            heavy.tracker._close()
