"""The write transaction that every dialect implements, and the reads that all dialects share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from duetime.engine.clock import Instant
from duetime.engine.model import Run, RunId, Schedule, ScheduleId, Used, WorkerId
from duetime.engine.policy.claim import Entry
from duetime.engine.policy.fair_share import Head
from duetime.engine.policy.finish import HeldRun, Reader
from duetime.engine.policy.rows import Writes
from duetime.engine.store import ClaimRequest
from duetime.stores.external_schedules import RemoteRows
from duetime.stores.revocations import RevocationRows
from duetime.stores.rows import LockedRun

OwnerKey = tuple[str, str]

FEW = 100
"""Number of due entries that are cheap to read in order to find their owners."""


def takes_turns(want: ClaimRequest) -> bool:
    """Return whether the claim needs to know which owners have due entries."""
    return want.turns is not None and not want.turns.by_time


class Taken(Exception):
    """A key that has to be unique belongs to another schedule already."""


class Transaction(Reader, RemoteRows, RevocationRows, Protocol):
    """One open write transaction. Progress rows are locked in the order of their schedules."""

    def new_run_id(self) -> RunId: ...

    def new_schedule_ids(self, count: int) -> list[ScheduleId]: ...

    def lock_owner(self, owner: str) -> None:
        """Serialize the transactions of one owner that take this lock, so that two at once cannot exceed a quota."""

    def count_living(self, owner: str, most: int) -> int: ...

    def add_stored_bytes(self, owner: str, number: int) -> tuple[int, Instant]:
        """Add to what an owner stores; return the approximate total and when it was last recounted."""

    def set_stored_bytes(self, owner: str, number: int, now: Instant) -> None: ...

    def by_keys(self, keys: Sequence[OwnerKey]) -> dict[OwnerKey, Schedule]: ...

    def lock_schedule(self, schedule: ScheduleId) -> Schedule | None: ...

    def lock_worker(self, worker: WorkerId) -> bool:
        """Lock the worker's row; False if it is gone. While it is locked, nobody can declare the worker dead."""

    def server_time(self) -> Instant | None:
        """Return the store's own time of `lock_worker`; None if it has no clock apart from this machine's."""

    def due_lanes(self, wants: Sequence[ClaimRequest]) -> Mapping[str, Sequence[Head]]:
        """Return the lanes with due entries, each with the owners of these where owners take turns. The cost grows with
        the number of owners, not of entries. A store on this machine may return all lanes."""

    def due_entries(self, want: ClaimRequest) -> list[Entry]:
        """Lock and return due entries by time alone; skip those that another worker is claiming."""

    def due_entries_of(self, want: ClaimRequest, dealt: Sequence[tuple[str, int, int]]) -> list[Entry]:
        """Do the same for each (owner, number, offset); the offset skips what this transaction already has."""

    def held(self, runs: Sequence[RunId]) -> dict[RunId, HeldRun]: ...

    def holdings(self, runs: Sequence[RunId]) -> list[LockedRun]:
        """Take the same locks as `held`, but read only what may have changed since the runs were claimed."""

    def held_by(self, worker: WorkerId) -> list[HeldRun]: ...

    def run(self, run: RunId) -> Run | None: ...

    def insert_runs(self, runs: Sequence[Run]) -> list[Run]:
        """Insert runs; return those whose occurrence already has a row. If there are any, nothing is inserted."""

    def insert_schedules(self, rows: Sequence[tuple[Any, Any, Any]]) -> None: ...

    def apply(self, writes: Writes, now: Instant) -> None:
        """Write everything in `writes` except new runs and follow-ups."""

    def usages(self, owners: Sequence[str], hour: Instant) -> dict[str, int]:
        """Return how many runs each of these owners has used in an hour."""

    def use(self, owner: str, hour: Instant, runs: int) -> None: ...

    def spent(self, owner: str, day: Instant) -> dict[str, Used]: ...

    def add_spent(self, owner: str, day: Instant, subjects: Sequence[str], used: Used) -> None: ...

    def beat(self, worker: WorkerId, now: Instant, reports: Mapping[RunId, str], not_begun: str | None) -> bool: ...

    def stop_requests(self, worker: WorkerId) -> list[RunId]: ...

    def floor(self) -> int: ...

    def delete_worker(self, worker: WorkerId, beat: int) -> str | None:
        """Return what its last heartbeat listed as not begun; None if it beat since, or another process was faster."""

    def spared(self, runs: Sequence[RunId]) -> dict[RunId, int]:
        """Return what was written for each run when a worker's death was not counted against it."""

    def announce(self) -> None:
        """Tell other processes, with the commit, that something may have become due earlier."""


# Reads for which both dialects use the same named queries.


class SharedReads(ABC):
    """Lookups within the running transaction."""

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
