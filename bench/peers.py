"""Measures the same no-op with other schedulers that are installed, each in its own durable setting."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    result: str


def measure_peers(jobs: int) -> Iterator[Peer]:
    measures: dict[str, Callable[[int, Path], float]] = {"huey": _huey}
    for name, measure in measures.items():
        if find_spec(name) is None:
            yield Peer(name, "not installed (pip install huey)")
            continue
        with tempfile.TemporaryDirectory(prefix="duetime-bench-") as folder:
            yield Peer(name, f"{measure(jobs, Path(folder)):>9,.0f} jobs/s")


def _huey(jobs: int, folder: Path) -> float:
    """Measure huey: dequeue and execute in one loop, without the polling of its consumer, which is its best case."""
    from huey import SqliteHuey  # type: ignore[import-not-found, import-untyped, unused-ignore]

    huey = SqliteHuey(filename=str(folder / "huey.db"), fsync=True)
    noop = huey.task()(lambda: None)
    for _ in range(jobs):
        noop()
    began = time.perf_counter()
    for _ in range(jobs):
        huey.execute(huey.dequeue())
    return jobs / (time.perf_counter() - began)
