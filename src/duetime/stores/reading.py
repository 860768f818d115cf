"""Reads that both dialects answer by the same named queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from duetime.core.clock import Instant
from duetime.core.ledger import Used
from duetime.core.model import Run, RunId, ScheduleId, WorkerId


class SharedReading(ABC):
    """What is looked up in the running transaction."""

    @abstractmethod
    def _rows(self, name: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a named query."""

    def run(self, run: RunId) -> Run | None:
        rows = self._rows("run_by_id", run)
        return Run._make(rows[0]) if rows else None

    def oldest_queued(self, schedule: ScheduleId) -> Run | None:
        rows = self._rows("oldest_queued", schedule)
        return Run._make(rows[0]) if rows else None

    def live_runs(self, schedule: ScheduleId) -> list[Run]:
        return [Run._make(row) for row in self._rows("live_runs", schedule)]

    def taken_since(self, schedule: ScheduleId, first: Instant) -> frozenset[Instant]:
        return frozenset(row[0] for row in self._rows("taken_since", schedule, first))

    def free_due(self, schedule: ScheduleId, wanted: Instant) -> Instant:
        last = self._rows("last_manual_due", schedule, wanted)[0][0]
        return wanted if last is None else Instant(last + 1)

    def last_attempt(self, run: RunId) -> int:
        return int(self._rows("last_attempt", run)[0][0])

    def count_living(self, owner: str, most: int) -> int:
        return int(self._rows("count_living", owner, most)[0][0])

    def add_stored_bytes(self, owner: str, number: int) -> tuple[int, Instant]:
        [(total, counted)] = self._rows("add_stored_bytes", owner, number)
        return int(total), Instant(counted)

    def set_stored_bytes(self, owner: str, number: int, now: Instant) -> None:
        self._rows("set_stored_bytes", owner, number, now)

    def spent(self, owner: str, day: Instant) -> dict[str, Used]:
        return {row[0]: Used._make(row[1:]) for row in self._rows("spent", owner, day)}

    def stop_requests(self, worker: WorkerId) -> list[RunId]:
        return [row[0] for row in self._rows("stop_requests", worker)]

    def floor(self) -> int:
        return int(self._rows("floor")[0][0])
