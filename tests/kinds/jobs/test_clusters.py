"""Runs on real clusters, of which a worker and the head (a scheduler or a broker) are killed, and so is Duetime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from duetime.kinds.jobs.executors import types_of_executors
from tests.support.clusters import CeleryCluster, Cluster, DaskCluster
from tests.support.ordeal import Ordeal, crowd, endure
from tests.support.ray_cluster import RayCluster
from tests.support.size import FULL
from tests.support.tracking import tracked
from tests.support.workers import eventually

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]
each_cluster = pytest.mark.parametrize("cluster", [CeleryCluster, DaskCluster, RayCluster], indirect=True)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    type_: type[Cluster] = request.param
    missing = type_.missing()
    if missing is not None:
        pytest.skip(missing)
    with type_(tmp_path) as each:
        yield each


@pytest.mark.parametrize("cluster", [DaskCluster, RayCluster], indirect=True)
def test_runs_end_once_although_a_worker_and_their_tracker_are_gone(cluster: Cluster, tmp_path: Path) -> None:
    path = types_of_executors()[cluster.name]
    with tracked(str(tmp_path / "due.db"), cluster.address, path) as heavy:
        gate, number = tmp_path / "gate", 12
        failing = heavy.create("stumble", max_attempts=1, name="fails")
        waits = [heavy.create("wait_for", str(gate), name=f"waits {each}") for each in range(number)]
        heavy.tick()
        eventually(lambda: heavy.tracker.step() and heavy.run_of(failing).finished, 60, "it failed")
        assert heavy.run_of(failing).error == "ValueError: no water in "
        cluster.kill(cluster.workers[0])
        heavy.tracker._close()
        heavy.tracker = heavy.another_tracker()
        gate.touch()
        assert [heavy.ended(each).attempt for each in waits] == [1] * number
        heavy.tracker._close()


@pytest.mark.later
@each_cluster
def test_every_run_is_recorded_once_whatever_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    endure(tmp_path, cluster, 60, 0.05)
    with Ordeal(tmp_path, cluster, "second", cluster.timeout) as second:
        second.create(20, 0.01)  # with the numbers of runs that the other store has, too
        second.start()
        second.wait_for(20)
        second.check(20)


@pytest.mark.later
@pytest.mark.skipif(not FULL, reason="takes long; the one before shows the same with fewer; DUETIME_FULL=1 runs it")
@each_cluster
def test_a_thousand_runs_are_recorded_once_whatever_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    endure(tmp_path, cluster, 1000, 0.3)


@pytest.mark.later
@pytest.mark.parametrize("cluster", [DaskCluster], indirect=True)
def test_ten_thousand_runs_are_out_at_once_and_cost_little(cluster: Cluster, tmp_path: Path) -> None:
    seconds, megabytes = crowd(tmp_path, cluster, 10_000 if FULL else 1_000)
    assert megabytes < 150
    assert seconds < 0.003 or not FULL, "among a thousand, the start of the process would count"
