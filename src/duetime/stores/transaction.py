"""The write transaction that every dialect implements, and the conversion between query columns and the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from duetime.engine.clock import SECOND, Instant
from duetime.engine.model import Definition, DueEntry, Progress, Run, RunId, Schedule, ScheduleId, Used, WorkerId
from duetime.engine.policy.claim import DueItem
from duetime.engine.policy.fair_share import Head
from duetime.engine.policy.finish import HeldRun, Reader
from duetime.engine.policy.rows import Completion, RunEvent, StoredMemory, Tombstone, Writes
from duetime.engine.store import Beat, ClaimRequest
from duetime.engine.value_class import NamedTuple

T = TypeVar("T")

DEFINITION = len(Definition._fields)
RUN = len(Run._fields)
DUE = len(DueEntry._fields)


class LockedRun(NamedTuple):
    """The current state of a run that a worker claims to hold."""

    run: RunId
    status: str
    fence: int
    worker: WorkerId | None
    stop: int
    progress: Progress


# A named tuple's own `_make` costs twice as much as the tuple, and these are made tens of thousands of times a second.
_new = tuple.__new__


def first_of(rows: Sequence[tuple[Any, ...]], make: Callable[[tuple[Any, ...]], T]) -> T | None:
    return make(rows[0]) if rows else None


def value_of(rows: Sequence[tuple[Any, ...]]) -> Any | None:
    """Return the first column of the first row."""
    return rows[0][0] if rows else None


def schedule_of(row: tuple[Any, ...]) -> Schedule:
    return Schedule(_new(Definition, row[:DEFINITION]), _new(Progress, row[DEFINITION:]))


def entry_of(row: tuple[Any, ...]) -> DueItem:
    due, definition, progress = row[:DUE], row[DUE : DUE + DEFINITION], row[DUE + DEFINITION :]
    return _new(DueItem, (_new(DueEntry, due), _new(Definition, definition), _new(Progress, progress), None))


def with_run(entry: DueItem, row: tuple[Any, ...] | None) -> DueItem:
    """Return an entry with its run, from the row of the run and its own payload with the author."""
    if row is None:
        return entry
    payload, actor, definition = row[RUN], row[RUN + 1], entry.definition
    if payload is not None:
        definition = definition._replace(payload=payload, author=actor)
    return entry._replace(run=Run._make(row[:RUN]), definition=definition)


def held_of(row: tuple[Any, ...]) -> HeldRun:
    return HeldRun(_new(Run, row[:RUN]), *schedule_of(row[RUN:]))


def holding_of(row: tuple[Any, ...]) -> LockedRun:
    return _new(LockedRun, (*row[:5], _new(Progress, row[5:])))


def beat_of(stop: Sequence[tuple[Any, ...]], floor: Sequence[tuple[Any, ...]]) -> Beat:
    return Beat([row[0] for row in stop], int(floor[0][0]))


def run_update(run: Run) -> tuple[Any, ...]:
    """Return the columns of a run that may change after its creation, except its report, which heartbeats write."""
    return (
        run.status, run.attempt, run.deaths, run.fence, run.worker, run.holder, run.started, run.finished,
        run.until, run.expires, run.result, run.error, run.stop, run.id,
    )  # fmt: skip


def definition_update(row: Definition) -> tuple[Any, ...]:
    return (
        row.name, row.subject, row.trigger, row.payload, row.policy, row.key, row.depth, row.version, row.updated,
        row.author, row.resume_at, row.fingerprint, row.id,
    )  # fmt: skip


OwnerKey = tuple[str, str]

SOON = 2 * SECOND
"""Entries due later than this are not announced to workers, which check the queue within a second anyway."""


def is_soon(entries: Sequence[DueEntry], now: Instant) -> bool:
    return any(entry.at - now <= SOON for entry in entries)


MAX_HEAD_SCAN = 100
"""Number of due entries that are cheap to read in order to find their owners."""


def takes_turns(want: ClaimRequest) -> bool:
    """Return whether the claim needs to know which owners have due entries."""
    return want.turns is not None and not want.turns.by_time


class Taken(Exception):
    """A key that has to be unique already belongs to another schedule."""


class NeedsDecision(Exception):
    """A completion or a claim is not the simple case that it was assumed to be, and cannot be written without a
    decision."""


class Transaction(Reader, Protocol):
    """An open write transaction. Progress rows are locked in the order of their schedules."""

    events: tuple[RunEvent, ...] = ()
    """What observers are told after the commit."""
    decided: Sequence[ScheduleId] = ()
    """Schedules of runs whose outcomes are decided after completions were written: they are locked together."""
    has_events: bool = False
    """Whether events wait to become runs, as of `lock_worker`."""

    def rows(self, name: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a named query."""

    def send(self, name: str, *values: Any) -> object:
        """Run a named statement whose result is not needed yet; a store across a network may send it later."""

    def rows_of_all(self, name: str, values: Sequence[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
        """Return the rows of a named query for each of several tuples of values."""
        return [self.rows(name, *each) for each in values]

    def trigger_of(self, schedule: ScheduleId) -> str | None:
        return value_of(self.rows("trigger_of", schedule))

    def depth_of_event(self, event: int) -> int:
        return value_of(self.rows("event_depth", event)) or 0

    def new_run_id(self) -> RunId: ...

    def new_schedule_ids(self, count: int) -> list[ScheduleId]: ...

    def lock_alerts(self) -> None:
        """Serialize the transactions that decide what owners are told."""

    def lock_expansion(self) -> bool:
        """Return whether no other transaction turns events into runs, and keep others from it."""
        return bool(self.rows("lock_expansion")[0][0])

    def lock_listeners(self, schedules: Sequence[ScheduleId]) -> dict[ScheduleId, Schedule]:
        """Lock the progress of schedules, which are in order, and return them as they are stored."""

    def by_keys(self, keys: Sequence[OwnerKey]) -> dict[OwnerKey, Schedule]: ...

    def lock_worker(
        self,
        worker: WorkerId,
        completions: Sequence[Completion] = (),
        wants: Sequence[ClaimRequest] = (),
        last: bool = False,
    ) -> bool:
        """Lock the worker's row; return False if it is gone. While it is locked, nobody can declare the worker dead.

        Write completions together with it. Raise NeedsDecision if the worker does not hold one of these runs, if
        something is queued behind one, or if one is the last of a paused schedule; the transaction is then repeated
        without them. A store across a network saves round trips if it knows the arguments of the next `due_lanes`, and
        whether this is the last step.
        """

    def server_time(self) -> Instant | None:
        """Return the store's own time of `lock_worker`; None if it has no clock apart from this machine's."""

    def due_lanes(self, wants: Sequence[ClaimRequest]) -> Mapping[str, Sequence[Head]]:
        """Return the lanes with due entries, each with the owners of these entries where owners take turns. The cost
        grows with the number of owners, not of entries. A store on this machine may return all lanes."""

    def due_entries(self, want: ClaimRequest) -> list[DueItem]:
        """Lock and return due entries by time alone; skip entries that another worker is claiming."""

    def due_entries_of(self, want: ClaimRequest, dealt: Sequence[tuple[str, int, int]]) -> list[DueItem]:
        """Do the same for each (owner, number, offset); the offset skips entries that this transaction already has."""

    def held(self, runs: Sequence[RunId]) -> dict[RunId, HeldRun]: ...

    def holdings(self, runs: Sequence[RunId]) -> list[LockedRun]:
        """Take the same locks as `held`, but read only what may have changed since the runs were claimed."""

    def held_by(self, worker: WorkerId) -> list[HeldRun]: ...

    def insert_runs(self, runs: Sequence[Run], careful: bool = True) -> list[Run]:
        """Insert runs; return those whose occurrence already has a row. If there are any, nothing is inserted. If not
        `careful`, a store across a network may insert them later, and raises NeedsDecision if there are any."""

    def insert_schedules(self, rows: Sequence[tuple[Any, Any, Any]]) -> None: ...

    def apply(self, writes: Writes, now: Instant) -> None:
        """Write everything in `writes` except new runs and follow-ups."""

    def usages(self, owners: Sequence[str], hour: Instant) -> dict[str, int]:
        """Return how many runs each of these owners has used in an hour."""

    def beat(self, worker: WorkerId, now: Instant, reports: Mapping[RunId, str], not_begun: str | None) -> Beat | None:
        """Write a heartbeat and progress reports; return None if the worker is no longer registered."""

    def spared(self, runs: Sequence[RunId]) -> dict[RunId, int]:
        """Return the number that was written for each run when a worker's death did not count against it."""

    def announce(self, *, at_once: bool = False) -> None:
        """Notify other processes, with the commit, that something may have become due earlier; with `at_once`, that
        events wait to become runs."""

    # Reads and writes for which all dialects use the same named queries.

    def run(self, run: RunId) -> Run | None:
        return first_of(self.rows("run_by_id", run), Run._make)

    def oldest_queued(self, schedule: ScheduleId) -> Run | None:
        return first_of(self.rows("oldest_queued", schedule), Run._make)

    def live_runs(self, schedule: ScheduleId) -> list[Run]:
        return [Run._make(row) for row in self.rows("live_runs", schedule)]

    def taken_since(self, schedule: ScheduleId, first: Instant) -> frozenset[Instant]:
        return frozenset(row[0] for row in self.rows("taken_since", schedule, first))

    def free_due(self, schedule: ScheduleId, due: Instant) -> Instant:
        last = self.rows("last_manual_due", schedule, due, due + SECOND)[0][0]
        return due if last is None else Instant(last + 1)

    def last_attempt(self, run: RunId) -> int:
        return int(self.rows("last_attempt", run)[0][0])

    def last_retry(self, run: RunId) -> int:
        return int(self.rows("last_retry", run)[0][0])

    def last_finished(self, run: RunId) -> Instant | None:
        return value_of(self.rows("last_finished", run))

    def entry_at(self, schedule: ScheduleId, run: RunId) -> Instant | None:
        return value_of(self.rows("starts_at", schedule, run))

    def ranges_beyond(self, schedule: ScheduleId, now: Instant) -> list[Run]:
        return [Run._make(row) for row in self.rows("ranges_beyond", schedule, now)]

    def tombstone(self, schedule: ScheduleId) -> Tombstone | None:
        return first_of(self.rows("tombstone", schedule), Tombstone._make)

    def memory_of(self, schedule: ScheduleId) -> StoredMemory:
        return StoredMemory(*next(iter(self.rows("memory_of", schedule)), ()))

    def gate_gifts(self, schedule: ScheduleId) -> dict[RunId, str]:
        return dict(self.rows("gate_gifts", schedule))

    def run_before(self, run: Run) -> Run | None:
        return first_of(self.rows("whole_run_before", run.schedule, run.due, run.id), Run._make)

    def is_key_taken(self, owner: str, key: str) -> bool:
        return bool(self.by_keys([(owner, key)]))

    def count_living(self, owner: str, most: int) -> int:
        self.send("lock_living", owner)
        return int(self.rows("count_living", owner, most)[0][0])

    def add_spent(self, owner: str, day: Instant, subjects: Sequence[str], used: Used) -> None:
        for subject in sorted(subjects):
            self.send("add_spent", owner, day, subject, *used)
