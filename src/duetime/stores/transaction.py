"""What the flow asks of a dialect: one open write transaction, and what is said where a key is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from duetime.core.clock import Instant
from duetime.core.fair_share import Head
from duetime.core.ledger import Used
from duetime.core.model import Run, RunId, Schedule, ScheduleId, WorkerId
from duetime.core.policy.claiming import Entry
from duetime.core.policy.ending import Held, Reader
from duetime.core.policy.writes import Writes
from duetime.core.store import Want
from duetime.stores.remotes import RemoteRows
from duetime.stores.revocations import RevocationRows
from duetime.stores.rows import Holding

OwnerKey = tuple[str, str]

FEW = 100
"""Due entries that are quickly read to see whose they are."""


def takes_turns(want: Want) -> bool:
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

    def due_lanes(self, wants: Sequence[Want]) -> Mapping[str, Sequence[Head]]:
        """Those that hold something, each with those who have something due in it where owners take turns. What it
        costs grows with the number of owners and not of entries. A store that is near may name all lanes."""

    def due_entries(self, want: Want) -> list[Entry]:
        """By their instants alone. Locked; entries that another worker is just claiming are passed over."""

    def due_entries_of(self, want: Want, dealt: Sequence[tuple[str, int, int]]) -> list[Entry]:
        """The same for (owner, number, offset): so many of each, after those that this transaction has already."""

    def held(self, runs: Sequence[RunId]) -> dict[RunId, Held]: ...

    def holdings(self, runs: Sequence[RunId]) -> list[Holding]:
        """The same locks as `held`, and of the runs only what may have changed since they were claimed."""

    def held_by(self, worker: WorkerId) -> list[Held]: ...

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
