"""Measures how late runs start when many are due, one after the other, at a steady rate."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bench.scene import Scene, create
from duetime.engine.clock import SECOND, Instant
from duetime.engine.store import RunQuery


@dataclass(frozen=True, slots=True)
class Lateness:
    """Lateness of the runs, in milliseconds."""

    p50: float
    p99: float
    worst: float


def measure_lateness(scene: Scene, rate: int, seconds: int) -> Lateness:
    app = scene.open()
    try:
        count = rate * seconds
        begin = app.clock.now() + 2 * SECOND
        create(app, count, lambda number: Instant(begin + number * SECOND // rate))
        engine = app.engine()
        engine.start()
        while app.clock.now() < begin + seconds * SECOND + SECOND:
            time.sleep(0.1)
        engine.stop()
        late = sorted((run.started or 0) - run.due for run in app.store.runs(RunQuery(limit=count)).items)
        assert len(late) == count, f"{len(late)} of {count} ran"
        return Lateness(late[count // 2] / 1000, late[count * 99 // 100] / 1000, late[-1] / 1000)
    finally:
        app.close()
