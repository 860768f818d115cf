"""A PostgreSQL write transaction, with one statement for each batch of rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Mapping, Sequence
from typing import Any

from duetime.engine.clock import Instant
from duetime.engine.model import NO_RUN, Definition, Progress, Run, RunId, RunStatus, Schedule, ScheduleId, WorkerId
from duetime.engine.policy.bulk import CREATED, columns_of
from duetime.engine.policy.claim import DueItem
from duetime.engine.policy.fair_share import Head
from duetime.engine.policy.finish import HeldRun
from duetime.engine.policy.rows import Completion, NewRows, RunColumn, Writes, first_entry
from duetime.engine.store import Beat, ClaimRequest, QueuePosition
from duetime.stores.byte_limits import MAX_TOTAL_AGE, size_of
from duetime.stores.create import CreateRequest, counted_between
from duetime.stores.postgres.arrays import arrays, columns, numbers, texts
from duetime.stores.postgres.connections import Connection, Cursor, psycopg
from duetime.stores.search import load_queries
from duetime.stores.transaction import (
    DEFINITION,
    DUE,
    MAX_HEAD_SCAN,
    RUN,
    SOON,
    LockedRun,
    OwnerKey,
    Transaction,
    beat_of,
    definition_update,
    entry_of,
    first_of,
    holding_of,
    run_update,
    schedule_of,
    takes_turns,
    with_run,
)

SQL = {name: text.replace("?", "%s") for name, text in load_queries("postgres").items()}
ID_BLOCK = 16

_DEFINITIONS = "n" + "t" * 8 + "in" + "tt" + "nntn"
_PROGRESS_UPDATES = "nt" + "nnnnnn" + "tntntn"
_RUNS = "nntnt" + "iinn" + "t" + "nnnn" + "ttt" + "inn" + "ttt"
_CLAIMED_RUNS = "nnnnnttt"
_RUN_UPDATES = "t" + "iinn" + "t" + "nnnn" + "tt" + "in"
_DEFINITION_UPDATES = "tttttt" + "inntntn"
_ATTEMPTS = "ninntttt" + "n"
_RUNNING = RunStatus.RUNNING
_BEGINNING = QueuePosition(Instant(-(2**63)), ScheduleId(0))


def parameters_of(request: CreateRequest, ids: Sequence[int | None]) -> list[Any]:
    """Return the parameters of `create_few`; an id is None where the server assigns it."""
    drafts, limits, most_bytes = request
    entries = map(first_entry, drafts, [ScheduleId(id or 0) for id in ids])
    rows = [  # a new schedule is not paused, so its last column is not written
        (id, *draft.definition[1:-1], draft.first, *due[:2])
        for id, draft, due in zip(ids, drafts, entries, strict=True)
    ]
    living: dict[str, int] = {}
    stored: dict[str, int] = {}
    for definition, _ in drafts:
        owner = definition.owner
        living[owner] = living.get(owner, 0) + 1
        if owner in most_bytes:
            stored[owner] = stored.get(owner, 0) + size_of(definition.payload, definition.policy)
    now = drafts[0].definition.created
    return [
        *_additions(living, limits),
        *counted_between(now),
        *_additions(stored, most_bytes),
        now - MAX_TOTAL_AGE,
        len(living),
        *columns(_DEFINITIONS[:-1] + "ntn", rows),
        len(drafts),
        len(living),
        len(stored),
        min([row[-1] for row in rows]) - now <= SOON,
    ]


def _additions(numbers: Mapping[str, int], limits: Mapping[str, int]) -> list[Any]:
    """Return what is added to the totals of the owners, in a fixed order so that no two creates can deadlock."""
    return columns("tnn", [(owner, number, limits.get(owner)) for owner, number in sorted(numbers.items())])


_RUN_COLUMNS = {
    "spared": "bigint", "traceback": "text", "payload": "text", "actor": "text", "stop_request": "text",
    "deadline": "bigint", "gate": "text", "trace": "text",
}  # fmt: skip
"""The columns that few runs use, with their types: see `policy.rows.RunColumn`."""
_SET_COLUMN = "UPDATE runs r SET {} = u.value FROM unnest(%s::{}[], %s::bigint[]) AS u (value, id) WHERE r.id = u.id"
SQL |= {f"set_{name}": _SET_COLUMN.format(name, type_) for name, type_ in _RUN_COLUMNS.items()}


class Burst(psycopg.Pipeline):
    """Sends all statements together when it is left, and a sync last.

    The driver would send each of them as soon as it is executed, and a flush after the sync. Both stop the clock by
    which the server ends an idle transaction: a process that was suspended there would keep its locks."""

    def _communicate_gen(self) -> Generator[Any, Any, None]:
        yield from ()

    def _fetch_gen(self, *, flush: bool) -> Generator[Any, Any, None]:
        while self.command_queue:
            self.command_queue.popleft()()
        yield from psycopg.generators.send(self.pgconn)
        yield from super()._fetch_gen(flush=False)


class PostgresTransaction(Transaction):
    """Buffers statements until a result is needed, and then sends them in one burst: a single round trip.

    Between two bursts, the server sees an idle transaction and ends it after a timeout, so that a process that was
    stopped there does not keep its locks.
    """

    def __init__(self, connection: Connection) -> None:
        self._db = connection
        self._waiting: list[tuple[Cursor, str, Sequence[Any]]] = [(connection.cursor(), "BEGIN", ())]
        self._ids: deque[int] = deque()
        self._soonest: int | None = None
        self._open = True
        self._lanes: Cursor | None = None
        self._server_time: Instant | None = None

    def send(self, name: str, *values: Any) -> Cursor:
        """Buffer a statement; the returned cursor has its result after the next burst."""
        cursor = self._db.cursor(binary=True)
        self._waiting.append((cursor, SQL[name], values))
        return cursor

    def _burst(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._db._pipeline = Burst(self._db)
        with self._db.pipeline():
            for cursor, statement, values in waiting:
                cursor.execute(statement, values or None, prepare=bool(values))

    def commit(self) -> None:
        """Commit, unless the last step has already done so."""
        if self._open:
            self._open = False
            self._waiting.append((self._db.cursor(), "COMMIT", ()))
            self._burst()

    def rows(self, name: str, *values: Any) -> list[tuple[Any, ...]]:
        cursor = self.send(name, *values)
        self._burst()
        return cursor.fetchall()

    def rows_of_all(self, name: str, values: Sequence[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
        cursors = [self.send(name, *each) for each in values]
        self._burst()
        return [cursor.fetchall() for cursor in cursors]

    def new_run_id(self) -> RunId:
        if not self._ids:
            self._ids.extend(row[0] for row in self.rows("new_run_ids", ID_BLOCK))
        return RunId(self._ids.popleft())

    def new_schedule_ids(self, count: int) -> list[ScheduleId]:
        return [ScheduleId(row[0]) for row in self.rows("new_schedule_ids", count)]

    def lock_owner(self, owner: str) -> None:
        self.send("lock_owner", owner)

    def lock_alerts(self) -> None:
        self.send("lock_alerts")

    def lock_listeners(self, schedules: Sequence[ScheduleId]) -> dict[ScheduleId, Schedule]:
        ids = numbers(schedules)
        self.send("lock_schedules", ids)
        return {row[0]: schedule_of(row) for row in self.rows("listeners_by_id", ids)}

    def by_keys(self, keys: Sequence[OwnerKey]) -> dict[OwnerKey, Schedule]:
        schedules = [schedule_of(row) for row in self.rows("schedules_by_keys", *columns("tt", keys))]
        return {(schedule.definition.owner, schedule.definition.key): schedule for schedule in schedules}

    def lock_schedule(self, schedule: ScheduleId) -> Schedule | None:
        self.send("lock_progress", schedule)
        return first_of(self.rows("schedule_by_id", schedule), schedule_of)

    def lock_worker(
        self,
        worker: WorkerId,
        completions: Sequence[Completion] = (),
        wants: Sequence[ClaimRequest] = (),
        last: bool = False,
    ) -> bool:
        locked = self.send("lock_worker", worker)
        if completions:
            self._complete(worker, completions)
        if wants:
            self._lanes = self._ask_for_lanes(wants)
        if last:
            self.commit()
        else:
            self._burst()
        rows = locked.fetchall()
        self._server_time = Instant(rows[0][0]) if rows else None
        self.has_events = bool(rows and rows[0][1])
        return bool(rows)

    def _complete(self, worker: WorkerId, completions: Sequence[Completion]) -> None:
        """Send the statements; each of them fails unless it writes a row for every completion."""
        runs, fences, schedules, started, finished, results = columns("nnnnnt", completions)
        number = len(completions)
        together = numbers({row[2] for row in completions} | set(self.decided)) if self.decided else schedules
        self.send("lock_schedules", together)
        self.send("complete_runs", runs, fences, started, finished, results, worker, number)
        self.send("complete_progress", schedules, started, number)

    def server_time(self) -> Instant | None:
        return self._server_time

    def due_lanes(self, wants: Sequence[ClaimRequest]) -> dict[str, list[Head]]:
        cursor, self._lanes = self._lanes, None
        if cursor is None:
            cursor = self._ask_for_lanes(wants)
            self._burst()
        lanes: dict[str, list[Head]] = {}
        for lane, *head in cursor.fetchall():
            heads = lanes.setdefault(lane, [])
            if head:
                heads.append(Head(*head))
        return lanes

    def _ask_for_lanes(self, wants: Sequence[ClaimRequest]) -> Cursor:
        lanes = {want.lane: want.until for want in wants}
        if not any(map(takes_turns, wants)):
            return self.send("due_lanes", texts(lanes), numbers(lanes.values()))
        nows = {want.lane: want.until - want.lead for want in wants}
        return self.send("due_owners", texts(lanes), numbers(lanes.values()), numbers(nows.values()), MAX_HEAD_SCAN)

    def due_entries(self, want: ClaimRequest) -> list[DueItem]:
        after = want.after or _BEGINNING
        return self._entries(
            self.rows("due_entries", want.lane, *after, want.until, want.until - want.lead, want.limit)
        )

    def due_entries_of(self, want: ClaimRequest, dealt: Sequence[tuple[str, int, int]]) -> list[DueItem]:
        now = want.until - want.lead
        return self._entries(self.rows("due_entries_of", *columns("tnn", dealt), want.lane, want.until, now))

    def _entries(self, rows: Sequence[tuple[Any, ...]]) -> list[DueItem]:
        self._ids.extend([row[DUE] for row in rows if row[DUE] is not None])
        entries = [entry_of(row[:DUE] + row[DUE + 1 :]) for row in rows]
        begun = [entry.due.run for entry in entries if entry.due.run != NO_RUN]
        if not begun:
            return entries
        runs = {row[0]: row for row in self.rows("runs_by_ids", numbers(begun))}
        return [with_run(entry, runs.get(entry.due.run)) for entry in entries]

    def held(self, runs: Sequence[RunId]) -> dict[RunId, HeldRun]:
        ids = numbers(runs)
        locked = self.send("lock_progress_of_runs", ids)
        rows = self.rows("held_rows", ids)
        return {held.run.id: held for held in _held_of(rows, locked.fetchall())}

    def holdings(self, runs: Sequence[RunId]) -> list[LockedRun]:
        ids = numbers(runs)
        locked = self.send("lock_progress_of_runs", ids)
        rows = self.rows("holdings", ids)
        progress = {row[0]: row for row in locked.fetchall()}
        return [holding_of((*row[1:], *progress[row[0]])) for row in rows if row[0] in progress]

    def held_by(self, worker: WorkerId) -> list[HeldRun]:
        locked = self.send("lock_progress_of_worker", worker)
        rows = self.rows("held_rows_of_worker", worker)
        return _held_of(rows, locked.fetchall())

    def insert_runs(self, runs: Sequence[Run], careful: bool = True) -> list[Run]:
        if not runs:
            return []
        # A new run that is already running was started by its claim: most of its columns are constants.
        claimed = [row[:2] + row[3:4] + row[8:11:2] + row[20:] for row in runs if row[4] == _RUNNING]
        others = [row for row in runs if row[4] != _RUNNING] if len(claimed) < len(runs) else []
        if not careful and not others:
            self.send("insert_plain_runs", *columns(_CLAIMED_RUNS, claimed))
            return []
        cursors = [self.send("insert_claimed_runs", *columns(_CLAIMED_RUNS, claimed))] if claimed else []
        cursors += [self.send("insert_runs", *columns(_RUNS, others))] if others else []
        self._burst()
        if sum(cursor.fetchall()[0][0] for cursor in cursors) == len(runs):
            return []
        ids = numbers([run.id for run in runs])
        present = {row[0] for row in self.rows("present_runs", ids)}
        self.send("delete_runs", ids)
        return [run for run in runs if run.id not in present]

    def insert_schedules(self, rows: Sequence[NewRows]) -> None:
        if not rows:
            return
        definitions, progress, entries = columns_of(rows)
        self.send("insert_schedules", *arrays(_DEFINITIONS, definitions))
        self.send("insert_progress", *arrays("nttn", progress))
        self._insert_due(entries, Instant(max(definitions[CREATED])))

    def apply(self, writes: Writes, now: Instant) -> None:
        if writes.due_gone_of:
            self.send("delete_due_of", numbers(writes.due_gone_of))
        if writes.due_gone:
            self.send("delete_due", *columns("nn", [entry[2:4] for entry in writes.due_gone]))
        if writes.due_new:
            self._insert_due(list(zip(*writes.due_new, strict=True)), now)
        if writes.runs:
            self.send("update_runs", *columns(_RUN_UPDATES, [run_update(run) for run in writes.runs.values()]))
        if writes.extensions:
            self.send("extend_runs", now, *columns("nnn", writes.extensions))
        if writes.progress:
            rows = [(row[0], *row[3:-1]) for row in writes.progress.values()]
            self.send("update_progress", *columns(_PROGRESS_UPDATES, rows))
        if writes.started:
            self.send("start_progress", *columns("nnn", [started for started, _ in writes.started.values()]))
        if writes.attempts:
            self.send("insert_attempts", *columns(_ATTEMPTS, writes.attempts))
        if writes.columns:
            self._set_columns(writes.columns)
        if writes.definitions:
            updates = [definition_update(row) for row in writes.definitions]
            self.send("update_schedules", *columns(_DEFINITION_UPDATES, updates))

    def _set_columns(self, values: Sequence[RunColumn]) -> None:
        for name, type_ in _RUN_COLUMNS.items():
            rows = [each[1:] for each in values if each.name == name]
            if rows:
                self.send(f"set_{name}", *columns("nn" if type_ == "bigint" else "tn", rows))

    def _insert_due(self, entries: Sequence[Collection[Any]], now: Instant) -> None:
        """Insert due entries, given as columns."""
        self.send("insert_due", *arrays("tnnnt", entries))
        ahead = min(entries[1]) - now
        self._soonest = ahead if self._soonest is None else min(ahead, self._soonest)

    def announce(self, *, at_once: bool = False) -> None:
        """Notify only of work that is due soon, because commits that notify are serialized across the whole server."""
        if at_once or (self._soonest is not None and self._soonest <= SOON):
            self.send("notify")

    def usages(self, owners: Sequence[str], hour: Instant) -> dict[str, int]:
        return dict.fromkeys(owners, 0) | dict(self.rows("usages", texts(owners), hour))

    def beat(self, worker: WorkerId, now: Instant, reports: Mapping[RunId, str], not_begun: str | None) -> Beat | None:
        """Commit in the same round trip, because on a busy machine every further round trip delays the next
        heartbeat."""
        if reports:
            ids = numbers(reports)
            self.send("report_runs", ids, texts(reports.values()), ids, worker)
        beaten = self.send("beat_worker", now, not_begun, worker)
        stop, floor = self.send("stop_requests", worker, now), self.send("floor")
        self.commit()
        return beat_of(stop.fetchall(), floor.fetchall()) if beaten.fetchall() else None

    def spared(self, runs: Sequence[RunId]) -> dict[RunId, int]:
        return {row[0]: row[1] for row in self.rows("spared_runs", numbers(runs))} if runs else {}


def _held_of(rows: Sequence[tuple[Any, ...]], locked: Sequence[tuple[Any, ...]]) -> list[HeldRun]:
    """Return the runs whose schedule was locked for them; leave out runs that appeared after the lock."""
    progress = {row[0]: Progress._make(row) for row in locked}
    return [
        HeldRun(Run._make(row[:RUN]), Definition._make(row[RUN : RUN + DEFINITION]), progress[row[1]])
        for row in rows
        if row[1] in progress
    ]
