"""Executors: jobs on real clusters, of which a worker and the head are killed, and so is Duetime; many runs at once."""

from __future__ import annotations

import tempfile
from pathlib import Path

from scorecard.line import Result, Scale, Tell
from tests.support.clusters import CeleryCluster, Cluster, DaskCluster
from tests.support.ordeal import crowd, endure
from tests.support.ray_cluster import RayCluster

CLUSTERS: tuple[type[Cluster], ...] = (DaskCluster, CeleryCluster, RayCluster)
MOST_MEGABYTES = 150
MOST_SECONDS = 0.003
"""Processor time that a run may cost Duetime. Among few runs, the start of the process would count, too."""


def measure(scale: Scale, tell: Tell) -> Result:
    """Try each cluster that is installed; with a few of each sort, only Dask, whose scheduler stays, and no crowd."""
    number, seconds, small = scale.of(1000, 20), 0.3 if scale is Scale.FULL else 0.02, scale is Scale.SMALL
    measured: list[str] = []
    failures: list[str] = []
    jobs = 0
    for type_ in CLUSTERS[:1] if small else CLUSTERS:
        missing = type_.missing()
        if missing is not None:
            measured.append(f"{type_.name} is left out: {missing}")
            failures += [measured[-1]] if scale is Scale.FULL else []
            continue
        tell(f"{number:,} jobs on {type_.name}")
        jobs += number
        try:
            with tempfile.TemporaryDirectory() as folder, type_(Path(folder)) as cluster:
                again = endure(Path(folder), cluster, number, seconds, kills_head=not small) - number
        except AssertionError as error:
            failures.append(f"{type_.name}: {error}")
        else:
            measured.append(f"{type_.name}: each recorded once, {again} executed again")
    if small:
        return Result({"jobs": jobs}, "; ".join(measured), tuple(failures))
    out = scale.of(10_000, 0)
    tell(f"{out:,} runs out at once")
    try:
        with tempfile.TemporaryDirectory() as folder, DaskCluster(Path(folder)) as cluster:
            cost, megabytes = crowd(Path(folder), cluster, out)
    except AssertionError as error:
        failures.append(f"{out:,} runs: {error}")
    else:
        measured.append(f"{out:,} out at once: {megabytes:.0f} MB, {1000 * cost:.1f} ms of processor time each")
        if megabytes >= MOST_MEGABYTES or (cost >= MOST_SECONDS and scale is Scale.FULL):
            failures.append(measured[-1])
    return Result({"jobs": jobs, "out at once": out}, "; ".join(measured), tuple(failures))
