"""Measures how fast a burst of due jobs is claimed, run in the pool and recorded, with fsync on."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from bench.scene import Scene, create, later
from duetime.app import App
from duetime.engine.clock import Instant
from duetime.engine.worker.threads import Engine


@dataclass(frozen=True, slots=True)
class Burst:
    others: int
    seconds_per_job: float
    created_per_second: float


def measure_burst(scene: Scene, jobs: int, others: int, rounds: int, owners: int = 1) -> Burst:
    app = scene.open()
    try:
        began = time.perf_counter()
        create(app, others, later(app), owners)
        creating = time.perf_counter() - began
        times = [_round(app, jobs, owners) for _ in range(rounds)]
        return Burst(others, statistics.median(times) / jobs, others / max(creating, 1e-9))
    finally:
        app.close()


def _round(app: App, jobs: int, owners: int) -> float:
    now = app.clock.now()
    create(app, jobs, lambda _: now, owners)
    engine = app.engine()
    began = time.perf_counter()
    engine.start()
    while not _idle(app, engine, now):
        assert engine.failure is None, engine.failure
        time.sleep(0.005)
    took = time.perf_counter() - began
    assert engine.stop() == 0
    return took


def _idle(app: App, engine: Engine, due: Instant) -> bool:
    """Return whether no job of this round is left, neither in the queue nor in the worker."""
    entry = app.store.earliest(engine.worker.lanes)
    return (entry is None or entry.at > due) and not engine.worker.claimed
