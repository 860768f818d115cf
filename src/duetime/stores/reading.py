"""Reads that both dialects answer by the same named queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from duetime.core.clock import Instant
from duetime.core.model import Attempt, Run, RunId, ScheduleId


class RunReading(ABC):
    """What a decision may look up in the running transaction."""

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

    def attempts_kept(self, run: RunId) -> int:
        rows = self._rows("attempts_of", run)
        return Attempt._make(rows[-1]).number if rows else 0
