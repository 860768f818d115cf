"""What the flow asks of a dialect: one open write transaction, and what is said where a key is taken."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from duetime.engine.clock import Instant
from duetime.engine.fair_share import Head
from duetime.engine.model import Run, RunId, Schedule, ScheduleId, WorkerId
from duetime.engine.policy.claim import Entry
from duetime.engine.policy.finish import HeldRun, Reader
from duetime.engine.policy.writes import Writes
from duetime.engine.store import ClaimRequest
from duetime.engine.usage import Used
from duetime.stores.external_schedules import RemoteRows
from duetime.stores.revocations import RevocationRows
from duetime.stores.rows import LockedRun

OwnerKey = tuple[str, str]

FEW = 100
"""Due entries that are quickly read to see whose they are."""


def takes_turns(want: ClaimRequest) -> bool:
    """Whether it has to be known who has something due."""
    return want.turns is not None and not want.turns.by_time


class Taken(Exception):
    """A key that has to be unique belongs to another schedule already."""


class Transaction(Reader, RemoteRows, RevocationRows, Protocol):
    """One open write transaction. Locks of progress rows are taken in the order of their schedules."""

    def new_run_id(self) -> RunId: ...

    def new_schedule_ids(self, count: int) -> list[ScheduleId]: ...

    def lock_owner(self, owner: str) -> None:
        """Serialises creates of one owner, so that a quota is not overrun by two at once."""

    def count_living(self, owner: str, most: int) -> int: ...

    def add_stored_bytes(self, owner: str, number: int) -> tuple[int, Instant]:
        """What an owner stores now, about, and when that was last counted."""

    def set_stored_bytes(self, owner: str, number: int, now: Instant) -> None: ...

    def by_keys(self, keys: Sequence[OwnerKey]) -> dict[OwnerKey, Schedule]: ...

    def lock_schedule(self, schedule: ScheduleId) -> Schedule | None: ...

    def lock_worker(self, worker: WorkerId) -> bool:
        """False when its row is gone. While it is locked, nobody can declare the worker dead."""

    def server_time(self) -> Instant | None:
        """The store's own clock when the worker was locked; None where it has none apart from this machine's."""

    def due_lanes(self, wants: Sequence[ClaimRequest]) -> Mapping[str, Sequence[Head]]:
        """Those that hold something, each with those who have something due in it where owners take turns. What it
        costs grows with the number of owners and not of entries. A store that is near may name all lanes."""

    def due_entries(self, want: ClaimRequest) -> list[Entry]:
        """By their instants alone. Locked; entries that another worker is just claiming are passed over."""

    def due_entries_of(self, want: ClaimRequest, dealt: Sequence[tuple[str, int, int]]) -> list[Entry]:
        """The same for (owner, number, offset): so many of each, after those that this transaction has already."""

    def held(self, runs: Sequence[RunId]) -> dict[RunId, HeldRun]: ...

    def holdings(self, runs: Sequence[RunId]) -> list[LockedRun]:
        """The same locks as `held`, and of the runs only what may have changed since they were claimed."""

    def held_by(self, worker: WorkerId) -> list[HeldRun]: ...

    def run(self, run: RunId) -> Run | None: ...

    def insert_runs(self, runs: Sequence[Run]) -> list[Run]:
        """The runs whose occurrence has a row already; when there are any, nothing was inserted."""

    def insert_schedules(self, rows: Sequence[tuple[Any, Any, Any]]) -> None: ...

    def apply(self, writes: Writes, now: Instant) -> None:
        """Everything of `writes` but its new runs."""

    def usages(self, owners: Sequence[str], hour: Instant) -> dict[str, int]:
        """Of all of these owners."""

    def use(self, owner: str, hour: Instant, runs: int) -> None: ...

    def spent(self, owner: str, day: Instant) -> dict[str, Used]: ...

    def add_spent(self, owner: str, day: Instant, subjects: Sequence[str], used: Used) -> None: ...

    def beat(self, worker: WorkerId, now: Instant, reports: Mapping[RunId, str], not_begun: str | None) -> bool: ...

    def stop_requests(self, worker: WorkerId) -> list[RunId]: ...

    def floor(self) -> int: ...

    def delete_worker(self, worker: WorkerId, beat: int) -> str | None:
        """What its last beat listed as not begun; None when its beat moved on, or somebody else was faster."""

    def spared(self, runs: Sequence[RunId]) -> dict[RunId, int]:
        """What was written of each when a death was not held against it."""

    def announce(self) -> None:
        """Other processes learn with the commit that something may have become due earlier."""


# Reads that both dialects answer by the same named queries.


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
