"""An SQLite write transaction that reads and writes rows in batches."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, count
from typing import Any, TypeVar

import apsw

from duetime.engine.clock import Instant
from duetime.engine.model import NO_RUN, Run, RunId, Schedule, ScheduleId, WorkerId
from duetime.engine.policy.bulk import Column, NewSchedules, in_columns, is_common
from duetime.engine.policy.claim import DueItem
from duetime.engine.policy.fair_share import Head
from duetime.engine.policy.finish import HeldRun
from duetime.engine.policy.rows import Completion, NewRows, Writes
from duetime.engine.store import Beat, ClaimRequest
from duetime.stores.search import load_queries
from duetime.stores.transaction import (
    MAX_HEAD_SCAN,
    LockedRun,
    NeedsDecision,
    OwnerKey,
    Taken,
    Transaction,
    beat_of,
    definition_update,
    entry_of,
    held_of,
    holding_of,
    run_update,
    schedule_of,
    takes_turns,
    with_run,
)

SQL = load_queries("sqlite")
Row = TypeVar("Row", HeldRun, Schedule)


GROUPS = (1000, 250, 50)
"""Numbers of rows that one statement inserts: as large as possible, but few sizes, because each is a statement of its
own for the driver to cache."""
MAX_PARAMETER_CHARACTERS = 15_000
"""Maximum number of characters in the parameters of a statement: the driver only caches statements up to 16 KB."""


_ROW = re.compile(r"(?<=VALUES )(\([^()]+\))")


@cache
def insert_statement(name: str, size: int) -> str:
    """Return a statement that inserts several rows, given one that inserts a single row."""
    before, values, after = _ROW.split(SQL[name])
    return before + ",".join([values.replace(" ", "")] * size) + after


@lru_cache(maxsize=128)
def _sharing(name: str, shared: tuple[bool, ...], size: int) -> str:
    """Return the same statement for rows that share the values of some columns. The shared values are bound once, as
    the first parameters, because binding a value often costs more than storing it. After a failure, the whole
    transaction is rolled back, so SQLite need not keep the replaced rows in order to undo the statement alone."""
    before, values, after = _ROW.split(SQL[name].replace("INSERT INTO", "INSERT OR FAIL INTO"))
    once, each = count(1), count(1)
    row = "".join(
        part if part != "?" else f"?{next(once)}" if next(common) else f"column{next(each)}"
        for common in [iter(shared)]
        for part in re.split(r"(\?)", values[1:-1])
    )
    own = ",".join([f"({','.join('?' * shared.count(False))})"] * size)
    return f"{before.removesuffix('VALUES ')}SELECT {row} FROM (VALUES {own}) WHERE true {after}"  # noqa: S608


class SqliteTransaction(Transaction):
    """SQLite has one writer, so BEGIN IMMEDIATE takes every lock at once."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._db = connection
        self._next_run = 0
        self._states: dict[ScheduleId, str] = {}  # as loaded

    def rows(self, name: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._db.execute(SQL[name], values).fetchall()

    send = rows

    def new_run_id(self) -> RunId:
        if not self._next_run:
            self._next_run = self.rows("next_run_id")[0][0]
        self._next_run += 1
        return RunId(self._next_run - 1)

    def new_schedule_ids(self, count: int) -> list[ScheduleId]:
        first = self.rows("next_schedule_id")[0][0]
        return [ScheduleId(number) for number in range(first, first + count)]

    def lock_owner(self, owner: str) -> None:
        """Do nothing, because the transaction excludes every other writer."""

    def lock_alerts(self) -> None:
        """Do nothing, for the same reason."""

    def lock_listeners(self, schedules: Sequence[ScheduleId]) -> dict[ScheduleId, Schedule]:
        rows = map(schedule_of, self.rows("listeners_by_id", json.dumps(schedules)))
        return {row.definition.id: self._remember(row) for row in rows}

    def by_keys(self, keys: Sequence[OwnerKey]) -> dict[OwnerKey, Schedule]:
        schedules = [schedule_of(row) for row in self.rows("schedules_by_keys", json.dumps(keys))]
        return {(schedule.definition.owner, schedule.definition.key): schedule for schedule in schedules}

    def lock_schedule(self, schedule: ScheduleId) -> Schedule | None:
        rows = self.rows("schedule_by_id", schedule)
        return self._remember(schedule_of(rows[0])) if rows else None

    def _remember(self, row: Row) -> Row:
        self._states[row.progress.schedule] = row.progress.state
        return row

    def lock_worker(
        self,
        worker: WorkerId,
        completions: Sequence[Completion] = (),
        wants: Sequence[ClaimRequest] = (),
        last: bool = False,
    ) -> bool:
        rows = self.rows("worker_lives", worker)
        if not rows:
            return False
        if rows[0][0]:
            self.has_events = True
        if completions:
            self._complete(worker, completions)
        return True

    def _complete(self, worker: WorkerId, completions: Sequence[Completion]) -> None:
        before = self._db.total_changes()
        self._db.executemany(
            SQL["complete_run"],
            ((started, at, result, run, fence, worker) for run, fence, _, started, at, result in completions),
        )
        self._db.executemany(SQL["complete_progress"], ((row[3], row[2]) for row in completions))
        if self._db.total_changes() - before != 2 * len(completions):
            raise NeedsDecision
        self._db.execute(SQL["end_schedules"], (json.dumps([row[2] for row in completions]),))

    def server_time(self) -> Instant | None:
        return None

    def due_lanes(self, wants: Sequence[ClaimRequest]) -> dict[str, list[Head]]:
        return {want.lane: self._heads(want) if takes_turns(want) else [] for want in wants}

    def _heads(self, want: ClaimRequest) -> list[Head]:
        """Return the owners with due entries, from the entries themselves if there are few of them."""
        now = want.until - want.lead
        first = self.rows("due_heads", want.lane, want.until, now, MAX_HEAD_SCAN)
        if len(first) < MAX_HEAD_SCAN:
            return [Head(*pair) for pair in dict(reversed(first)).items()]
        return [Head(*row) for row in self.rows("due_owners", want.lane, want.until, now)]

    def due_entries(self, want: ClaimRequest) -> list[DueItem]:
        return self._entries(self.rows("due_entries", want.lane, want.until, want.until - want.lead, want.limit))

    def due_entries_of(self, want: ClaimRequest, dealt: Sequence[tuple[str, int, int]]) -> list[DueItem]:
        """Read only the keys first, because one statement per owner is cheap only while its rows are narrow."""
        ask, bounds = self.rows, (want.lane, want.until, want.until - want.lead)
        parts = (ask("due_keys_of", *bounds, owner, number, past) for owner, number, past in dealt)
        return self._entries(ask("due_entries_by_key", json.dumps([key for part in parts for key in part])))

    def _entries(self, rows: Sequence[tuple[Any, ...]]) -> list[DueItem]:
        entries = [entry_of(row) for row in rows]
        self._states.update([(progress[0], progress[3]) for _, _, progress, _ in entries])
        return [entry if entry[0][3] == NO_RUN else self._with_run(entry) for entry in entries]

    def _with_run(self, entry: DueItem) -> DueItem:
        return with_run(entry, next(iter(self.rows("run_as_claimed", entry.due.run)), None))

    def held(self, runs: Sequence[RunId]) -> dict[RunId, HeldRun]:
        rows = self.rows("held_rows", json.dumps(runs))
        return {held.run.id: self._remember(held) for held in map(held_of, rows)}

    def holdings(self, runs: Sequence[RunId]) -> list[LockedRun]:
        holdings = [holding_of(row) for row in self.rows("holdings", json.dumps(runs))]
        self._states.update([(holding.progress.schedule, holding.progress.state) for holding in holdings])
        return holdings

    def held_by(self, worker: WorkerId) -> list[HeldRun]:
        return [self._remember(held_of(row)) for row in self.rows("held_by", worker)]

    def insert_runs(self, runs: Sequence[Run], careful: bool = True) -> list[Run]:
        if not runs:
            return []
        before = self._db.total_changes()
        self._insert("insert_run", runs)
        if self._db.total_changes() - before >= len(runs):
            return []
        conflicts = [run for run in runs if self.run(run.id) is None]
        self._db.executemany(SQL["delete_run"], ((run.id,) for run in runs))
        return conflicts

    def _insert(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert many rows with each statement, because every statement releases the interpreter lock."""
        if len(rows) == 1:
            self._db.execute(SQL[name], rows[0])
        elif len(rows) < GROUPS[-1]:
            self._db.execute(insert_statement(name, len(rows)), list(chain.from_iterable(rows)))
        else:
            self._insert_columns(name, in_columns(rows))

    def _insert_columns(self, name: str, columns: Sequence[Column]) -> None:
        left, begin = len(columns[0]), 0
        shared = tuple(map(is_common, columns))
        once = [column[0] for column, common in zip(columns, shared, strict=True) if common]
        own = [column for column, common in zip(columns, shared, strict=True) if not common]
        most = MAX_PARAMETER_CHARACTERS // (2 * len(own) + 2)
        while left:
            size = next((size for size in GROUPS if size <= left and size <= most), left)
            rows = zip(*[column[begin : begin + size] for column in own], strict=True)
            self._db.execute(_sharing(name, shared, size), [*once, *chain.from_iterable(rows)])
            begin, left = begin + size, left - size

    def insert_schedules(self, rows: Sequence[NewRows]) -> None:
        if not rows:
            return
        try:
            if isinstance(rows, NewSchedules):
                self._insert_columns("insert_schedule", rows.definitions)
                self._insert_columns("insert_progress", rows.progress)
                self._insert_columns("insert_due", rows.entries)
                return
            definitions, progress, entries = zip(*rows, strict=True)
            self._insert("insert_schedule", definitions)
        except apsw.ConstraintError as error:
            raise Taken from error
        self._insert("insert_progress", [(row[0], row[1], row[2], row[4]) for row in progress])
        self._insert("insert_due", sorted(entries) if len(entries) > 1 else entries)  # adjacent in the queue

    def apply(self, writes: Writes, now: Instant) -> None:
        many = self._db.executemany
        if writes.due_gone_of:
            many(SQL["delete_due_of"], ((schedule,) for schedule in writes.due_gone_of))
        if writes.due_gone:
            many(SQL["delete_due"], ((entry.schedule, entry.run) for entry in writes.due_gone))
        if writes.due_new:
            self._insert("insert_due", writes.due_new)
        if writes.runs:
            many(SQL["update_run"], (run_update(run) for run in writes.runs.values()))
        if writes.extensions:
            many(SQL["extend_run"], ((e.last, e.added, e.added, now, e.run) for e in writes.extensions))
        if writes.progress:
            rows = writes.progress.values()
            many(SQL["update_progress"], ((*row[4:-1], row[0]) for row in rows))
            changed = [(row.state, row.schedule) for row in rows if self._states.get(row.schedule) != row.state]
            many(SQL["update_progress_state"], changed)
        if writes.started:
            many(SQL["start_progress"], [started for started, _ in writes.started.values()])
        if writes.attempts:
            many(SQL["insert_attempt"], writes.attempts)
        for name, value, run in writes.columns:
            self._db.execute(f"UPDATE runs SET {name} = ? WHERE id = ?", (value, run))  # noqa: S608 - of `RunColumn`
        if writes.definitions:
            many(SQL["update_schedule"], (definition_update(row) for row in writes.definitions))

    def usages(self, owners: Sequence[str], hour: Instant) -> dict[str, int]:
        return dict.fromkeys(owners, 0) | dict(self.rows("usages", json.dumps(owners), hour))

    def beat(self, worker: WorkerId, now: Instant, reports: Mapping[RunId, str], not_begun: str | None) -> Beat | None:
        if not self.rows("beat_worker", now, not_begun, worker):
            return None
        self._db.executemany(SQL["report_run"], ((text, run, worker) for run, text in reports.items()))
        return beat_of(self.rows("stop_requests", worker, now), self.rows("floor"))

    def announce(self, *, at_once: bool = False) -> None:
        """Do nothing, because a commit changes `data_version`, which other processes watch."""

    def spared(self, runs: Sequence[RunId]) -> dict[RunId, int]:
        return dict(self.rows("spared_runs", json.dumps(runs))) if runs else {}
