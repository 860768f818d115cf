"""Which workers are alive, and which work they take and know."""

from __future__ import annotations

from collections.abc import Sequence

from duetime.engine.clock import SECOND, Instant
from duetime.engine.model import WorkerRow, kind_and_label

_SILENCE = 30 * SECOND
"""How long after its last heartbeat a worker counts as alive, whatever its lease; longer than any heartbeat
interval."""


def is_alive(worker: WorkerRow, now: Instant) -> bool:
    return now - worker.seen < _SILENCE


def living(workers: Sequence[WorkerRow], now: Instant, kind: str | None = None) -> list[WorkerRow]:
    """Return the live workers that claim runs of this kind, or of any kind; for work that needs a label, of
    `engine.model.with_label`."""
    alive = [worker for worker in workers if is_alive(worker, now)]
    return alive if kind is None else [worker for worker in alive if kind in worker.lanes.split(",")]


def work_entry(kind: str, subject: str) -> str:
    """Return the entry beside a worker's lanes that says that it can run this subject of a kind, such as a task."""
    return f"{kind}:knows:{subject}"


def kinds_taken(worker: WorkerRow) -> list[str]:
    """Return the kinds whose runs a worker claims, without the separate lanes that each kind has; `job@gpu` stands for
    those that need a label."""
    return list(dict.fromkeys(lane.partition(":")[0] for lane in worker.lanes.split(",")))


def labels_of(worker: WorkerRow) -> list[str]:
    return sorted({label for lane in worker.lanes.split(",") if (label := kind_and_label(lane)[1])})
