"""Runs on a real Dask cluster, of which a worker, Duetime itself and the scheduler are killed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from duetime.kinds.jobs.executors.dask import DaskExecutor
from tests.support.dask_cluster import DaskCluster, dask_cluster
from tests.support.ordeal import Ordeal
from tests.support.size import FULL
from tests.support.tracking import tracked
from tests.support.workers import eventually

Client = pytest.importorskip("distributed", reason="the extra dask is not installed").Client
pytestmark = pytest.mark.process


def endure(folder: Path, cluster: DaskCluster, number: int, seconds: float) -> Ordeal:
    """Run jobs while everything is killed once; every run is recorded once."""
    with Ordeal(folder, "dask", cluster.address) as ordeal:
        ordeal.create(number, seconds)
        ordeal.start()
        ordeal.wait_for(number // 5)
        cluster.workers[0].kill()
        ordeal.wait_for(2 * number // 5)
        ordeal.kill()
        cluster.workers[0] = cluster.start_worker()
        ordeal.start()
        ordeal.wait_for(3 * number // 5)
        cluster.restart_scheduler()
        ordeal.wait_for(number)
        ordeal.check(number)
    return ordeal


def test_runs_end_once_although_a_worker_and_their_tracker_are_gone(tmp_path: Path) -> None:
    path = f"{DaskExecutor.__module__}:{DaskExecutor.__name__}"
    with dask_cluster(tmp_path) as cluster, tracked(str(tmp_path / "due.db"), cluster.address, path) as heavy:
        gate, number = tmp_path / "gate", 12
        waits = [heavy.create("wait_for", str(gate), name=f"waits {each}") for each in range(number)]
        failing = heavy.create("stumble", max_attempts=1, name="fails")
        heavy.tick()
        eventually(lambda: heavy.tracker.step() and heavy.run_of(failing).finished, 60, "it failed")
        assert heavy.run_of(failing).error == "ValueError: no water in "
        cluster.workers[0].kill()
        heavy.tracker._close()
        heavy.tracker = heavy.another_tracker()
        gate.touch()
        assert [heavy.ended(each).attempt for each in waits] == [1] * number
        heavy.tracker._close()


@pytest.mark.later
def test_every_run_is_recorded_once_whatever_is_killed(tmp_path: Path) -> None:
    with dask_cluster(tmp_path) as cluster:
        ordeal = endure(tmp_path, cluster, 60, 0.05)
        with Ordeal(tmp_path, "dask", cluster.address, "second") as second:
            second.create(20, 0.01)  # with the numbers of runs that the other store has, too
            second.start()
            second.wait_for(20)
            second.check(20)
    begun = Counter(ordeal.executions())
    assert set(begun) == {f"first-{number}" for number in range(60)}


@pytest.mark.later
@pytest.mark.timeout(600)
@pytest.mark.skipif(not FULL, reason="takes long; the one before shows the same with fewer; DUETIME_FULL=1 runs it")
def test_a_thousand_runs_are_recorded_once_whatever_is_killed(tmp_path: Path) -> None:
    with dask_cluster(tmp_path) as cluster:
        endure(tmp_path, cluster, 1000, 0.3)


@pytest.mark.later
@pytest.mark.timeout(600)
def test_ten_thousand_runs_are_out_at_once_and_cost_little(tmp_path: Path) -> None:
    gate, number = tmp_path / "gate", 10_000 if FULL else 1_000
    with dask_cluster(tmp_path) as cluster, Ordeal(tmp_path, "dask", cluster.address) as ordeal:
        ordeal.create_waiting(number, gate)
        ordeal.start()
        keys = Client(cluster.address, set_as_default=False)
        eventually(lambda: len(keys.list_datasets()) == number, 300, "all are out")
        assert ordeal.out() == number
        keys.close()
        gate.touch()
        ordeal.wait_for(number)
        seconds, megabytes = ordeal.usage()
        print(f"{1000 * seconds / number:.2f} ms of processor time a run, {megabytes:.0f} MB")  # noqa: T201
        assert megabytes < 150
        assert seconds / number < 0.003 or not FULL, "among a thousand, the start of the process would count"
