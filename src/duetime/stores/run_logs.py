"""The part of every store that keeps what runs wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from duetime.engine.model import RunId
from duetime.engine.store_interfaces import LogChange, LogPart, Logs
from duetime.stores.records import RecordsMixin

KEPT_ATTEMPTS: Final = 10
"""How many attempts of a run keep their logs: the latest ones."""


class RunLogsMixin(RecordsMixin, Logs):
    def write_logs(self, changes: Sequence[LogChange]) -> None:
        with self._write() as tx:
            for parts, dropped_from, dropped_to in sorted(changes, key=lambda change: change.parts[0].run):
                run, fence, _, attempt = parts[0][:4]
                if dropped_to > dropped_from:
                    tx.send("drop_middle_of_log", run, fence, dropped_from, dropped_to)
                if attempt > KEPT_ATTEMPTS:
                    tx.send("drop_logs_of_attempts", run, attempt - KEPT_ATTEMPTS)
                for part in parts:
                    tx.send("write_log", *part[2:], run, fence)

    def logs(self, run: RunId, after: tuple[int, int], limit: int) -> list[LogPart]:
        return [LogPart._make(row) for row in self._named("logs_of", run, *after, limit)]
