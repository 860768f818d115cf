"""The store on SQLite: one writer, WAL, every acknowledged commit on disk."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from duetime.engine.clock import SECOND, Clock, Instant, SystemClock
from duetime.engine.errors import StoreUnusable
from duetime.engine.model import LEASE, ScheduleId, WorkerId
from duetime.engine.policy.follow_ups import Messenger
from duetime.engine.policy.rows import NewRows, begin
from duetime.engine.store import Health
from duetime.stores.base import BaseStore
from duetime.stores.byte_limits import MAX_TOTAL_AGE, size_of
from duetime.stores.create import CreateRequest, NotAtOnce, counted_between
from duetime.stores.search import check_floor, load_migrations, load_queries
from duetime.stores.sqlite.error_translation import translated
from duetime.stores.sqlite.store_file import Inode, guard, inode, make_private
from duetime.stores.sqlite.transaction import SqliteTransaction, insert_statement
from duetime.stores.sqlite.watch import CommitWatch
from duetime.stores.transaction import Taken, Transaction

SQL = load_queries("sqlite")
MEMORY = ":memory:"
BUSY_SECONDS = 10.0
"""Longest wait for another process's transaction; a worker waits for at most half of its lease."""
CACHE_KILOBYTES = 65_536
SCAN_KILOBYTES = 1_024
OF_WORKERS = frozenset(
    SQL[name] for name in ("earliest", "earliest_but", "look_ahead", "other_owners", "workers", "starts_at")
)
"""Reads on which a worker's timing depends. They have a connection of their own, so that a long list does not delay
them."""
SCANS = frozenset(SQL[name] for name in ("health", "schedules_ahead", "count_stored_bytes"))
"""Reads of whole tables. They have a connection with a small page cache, because the process would keep the memory of a
large one. Its size never changes, since a server counts in two threads at once when it starts."""
OURS = {"schedules", "progress", "due", "runs"}


class NextIdUnknown(NotAtOnce):
    """Raised if another process has used the ids with which schedules were to be created, or has created the tables
    after this connection was opened. Nothing was written."""


REFUSALS: dict[str, type[Exception]] = {"known id": NextIdUnknown, "limit": NotAtOnce}
"""The messages of the trigger `on_new_schedule`; other violations are those of unique keys."""


class SqliteStore(BaseStore):
    _sql = SQL

    def __init__(
        self, path: str | os.PathLike[str], clock: Clock | None = None, messenger: Messenger | None = None
    ) -> None:
        super().__init__(messenger)
        self._clock = clock or SystemClock()
        self.path = os.fspath(path)
        self.url = f"sqlite:///{self.path}"
        self._migrations = load_migrations("sqlite")
        self.known_schema = self._migrations[-1][0]
        self._lock = threading.RLock()
        self._read_lock, self._worker_lock, self._scan_lock = threading.RLock(), threading.RLock(), threading.RLock()
        self._watching = threading.RLock()
        self._watch: apsw.Connection | None = None
        self._commits: CommitWatch | None = None
        self._woken = threading.Event()
        self._replaced = False
        self._translated = translated(self.path)
        self._next_schedule = 1
        self._closed = threading.Event()
        self._busy = BUSY_SECONDS
        with self._translated:
            self._refuse_foreign_file()
            self._writer = self._connect(compiles_once=True)
            self._writer.execute(f"{SQL['new_schedules']}; {SQL['on_new_schedule']}")
            self._reader = self._writer if self.in_memory else self._connect()
            self._worker_reader = self._writer if self.in_memory else self._connect(compiles_once=True)
            self._scanner = self._writer if self.in_memory else self._connect(SCAN_KILOBYTES)
        if self.in_memory:
            self._read_lock = self._worker_lock = self._scan_lock = self._lock
        else:
            guard(self.path)
        self._file = self._identity()

    @property
    def in_memory(self) -> bool:
        return self.path == MEMORY

    def _refuse_foreign_file(self) -> None:
        """Refuse another program's database before setting anything, because even the journal mode would change the
        file."""
        if self.in_memory:
            return
        if not Path(self.path).exists():
            make_private(self.path)
            return
        connection = apsw.Connection(self.path)
        try:
            connection.setbusyhandler(self._patience())
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        finally:
            connection.close()
        if tables and not tables >= OURS:
            raise StoreUnusable(f"{self.path} is a database of another program; choose another file")

    def _connect(self, cache_kilobytes: int = CACHE_KILOBYTES, *, compiles_once: bool = False) -> apsw.Connection:
        connection = apsw.Connection(self.path)
        connection.setbusyhandler(self._patience())
        # Otherwise, a statement is compiled anew whenever a value is bound that it compares with an indexed column. The
        # connections that read lists leave it so, because their plans depend on the values.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, int(compiles_once))
        if not self.in_memory:
            connection.execute("PRAGMA journal_mode = WAL")
        # What is deleted is overwritten, because payloads may contain secrets.
        connection.execute("PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY; PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA cache_size = -{cache_kilobytes}")
        return connection

    def _patience(self) -> Callable[[int], bool]:
        """Return a busy handler that waits in short steps, because SQLite's own steps grow to a tenth of a second."""
        begun = 0.0

        def wait(prior_calls: int) -> bool:
            nonlocal begun
            if prior_calls == 0:
                begun = self._clock.monotonic()
            elif self._clock.monotonic() - begun > self._busy:
                return False
            self._closed.wait(min(0.001 * (1 + prior_calls), 0.01))
            return True

        return wait

    def _identity(self) -> tuple[Inode | None, Inode | None]:
        """Return the inodes of the file and of its WAL, which exists from the first transaction on."""
        return (None, None) if self.in_memory else (inode(self.path), inode(f"{self.path}-wal"))

    def _check_file(self) -> None:
        """Check that neither the file nor its WAL was replaced, because nobody would ever see writes to the old one."""
        (file, log), (file_now, log_now) = self._file, self._identity()
        self._replaced = file_now != file or (log is not None and log_now != log)
        if self._replaced and not self._closed.is_set():  # closing the last connection removes the WAL
            raise StoreUnusable(
                f"{self.path} was replaced or removed while it was open; restart to use the file that is there now"
            )
        if log is None and log_now is not None:
            self._file = file, log_now

    def migrate(self) -> None:
        known = self.known_schema
        with self._write():
            version = self._writer.pragma("user_version")
            if version > known:
                [(floor,)] = self._writer.execute(SQL["floor"])
                check_floor(self.path, version, int(floor), known)
            if version == 0 and self._writer.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
                raise StoreUnusable(f"{self.path} is a database of another program; choose another file")
            for number, script in self._migrations:
                if number > version:
                    self._writer.execute(script)
                    self._writer.execute(f"PRAGMA user_version = {number}")

    @contextmanager
    def _write(self) -> Iterator[Transaction]:
        with self._translated, self._lock:
            self._check_file()
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield SqliteTransaction(self._writer)
                self._writer.execute("COMMIT")
            except BaseException:
                self._rollback()
                raise
            self._translated.wrote = True

    def _rollback(self) -> None:
        if not self._writer.getautocommit():
            self._writer.execute("ROLLBACK")

    def _insert_few(self, request: CreateRequest) -> Sequence[NewRows]:
        with self._translated, self._lock:
            if self._replaced:
                self._check_file()
            try:
                return self._insert_from_next(request)
            except NextIdUnknown:
                [(self._next_schedule,)] = self._writer.execute(SQL["next_schedule_id"])
                return self._insert_from_next(request)

    def _insert_from_next(self, request: CreateRequest) -> Sequence[NewRows]:
        """Insert with the ids that follow the last one of this process. Raise NextIdUnknown if another process has
        created schedules meanwhile."""
        drafts, limits, most_bytes = request
        first = self._next_schedule
        rows = [begin(draft, ScheduleId(id)) for id, draft in enumerate(drafts, first)]
        now = drafts[0].definition.created
        counted = *counted_between(now), now - MAX_TOTAL_AGE
        values: list[Any] = []
        for definition, progress, entry in rows:
            owner = definition.owner
            limit = most_bytes.get(owner)
            size = None if limit is None else size_of(definition.payload, definition.policy)
            values += *definition, progress.next, entry.lane, entry.at, limits.get(owner), size, limit, *counted
        try:
            self._writer.execute(insert_statement("create_schedule", len(rows)), values)
        except apsw.ConstraintError as error:
            raise REFUSALS.get(str(error), Taken) from error
        except apsw.SQLError as error:  # a trigger does not find new tables until a statement has read them
            raise NextIdUnknown from error
        except BaseException:
            self._rollback()
            raise
        self._next_schedule = first + len(drafts)
        self._translated.wrote = True
        return rows

    def _texts(self, values: Sequence[str]) -> str:
        return json.dumps(values)

    def _rows(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        lock, connection = self._reader_for(statement)
        with self._translated, lock:
            return connection.execute(statement, tuple(values)).fetchall()

    def _reader_for(self, statement: str) -> tuple[threading.RLock, apsw.Connection]:
        if statement in OF_WORKERS:
            return self._worker_lock, self._worker_reader
        if statement in SCANS:
            return self._scan_lock, self._scanner
        return self._read_lock, self._reader

    def register(self, name: str, lanes: Sequence[str], session: bool, now: Instant, lease: int = LEASE) -> WorkerId:
        self._busy = min(self._busy, lease / SECOND / 2)
        return super().register(name, lanes, session, now, lease)

    def prune(self, before: Instant, limit: int) -> int:
        with self._write() as tx:
            runs = tx.rows("prunable_runs", before, limit)
            self._writer.executemany(SQL["delete_attempts"], runs)
            self._writer.executemany(SQL["delete_run"], runs)
            gone = tx.rows("prune_schedules", before, limit)
            self._writer.executemany(SQL["delete_progress"], gone)
            self._writer.executemany(SQL["delete_memory"], gone)
            tx.rows("forget_usage", before)
            tx.rows("forget_spent", before)
            tx.rows("forget_incidents", before, before, before)
            number = len(runs) + len(gone) + len(tx.rows("prune_remotes", before, limit))
        return number + self.prune_events(before, limit)

    def _delete_oldest(self, tx: Transaction, owner: str, before: Instant, limit: int, size: int) -> tuple[int, int]:
        runs = tx.rows("trimmable_runs", owner, before, limit, size)
        ids = [(run,) for run, _ in runs]
        self._writer.executemany(SQL["delete_attempts"], ids)
        self._writer.executemany(SQL["delete_run"], ids)
        return len(runs), sum(freed for _, freed in runs)

    def now(self) -> Instant | None:
        return None

    def wait(self, timeout: float) -> bool:
        if self.in_memory:
            self._woken.wait(timeout)
            self._woken.clear()
            return False
        with self._translated:
            commits = self._commit_watch()
            return commits is not None and commits.wait(timeout) and not self._closed.is_set()

    def stop_waiting(self) -> None:
        self._woken.set()
        with self._watching:
            if self._commits is not None:
                self._commits.interrupt()

    def _commit_watch(self) -> CommitWatch | None:
        """Return the watch for commits of other processes, or None if the store is closed."""
        with self._watching:
            if self._commits is None and not self._closed.is_set():
                self._watch = self._connect()
                version = partial(self._data_version, self._watch, self._watching)
                foreign_version = partial(self._data_version, self._writer, self._lock)
                log = f"{self.path}-wal"
                self._commits = CommitWatch(version, foreign_version, log, self._clock, self._is_written)
            return None if self._closed.is_set() else self._commits

    def _data_version(self, connection: apsw.Connection, lock: threading.RLock) -> int:
        with lock:
            return 0 if self._closed.is_set() else int(connection.pragma("data_version"))

    def _is_written(self) -> bool:
        """Return whether a write transaction is open, by beginning an empty one, which takes microseconds. This begins
        none while this process writes, so that it never delays a commit of its own."""
        with self._watching:
            if self._closed.is_set() or self._watch is None or not self._lock.acquire(blocking=False):
                return True
            self._watch.setbusyhandler(None)
            try:
                self._watch.execute("BEGIN IMMEDIATE; ROLLBACK")
            except apsw.BusyError:
                return True
            finally:
                self._watch.setbusyhandler(self._patience())
                self._lock.release()
            return False

    def health(self, now: Instant) -> Health:
        self._check_file()
        schedules, due, overdue, running, oldest = self._rows(SQL["health"], (now,))[0]
        details = {"engine": f"SQLite {apsw.sqlite_lib_version()}", "file": self.path}
        return Health(self.schema(), schedules, due, overdue, running, oldest, details)

    def schema(self) -> int:
        return int(self._rows("PRAGMA user_version", ())[0][0])

    def backup(self, target: str, report: Callable[[float], None] = lambda done: None) -> None:
        """Write a consistent copy with SQLite's backup API; the copy gets its name only when it is complete."""
        draft = f"{target}.{os.urandom(16).hex()}.partial"
        make_private(draft)  # before SQLite opens it, because the umask would leave it readable by others
        try:
            with translated(target), self._fixed_snapshot() as source:
                copy = apsw.Connection(draft)
                try:
                    with copy.backup("main", source, "main") as job:
                        while not job.done:
                            job.step(1000)
                            report(1 - job.remaining / max(1, job.page_count))
                finally:
                    copy.close()
            Path(draft).replace(target)
        finally:
            Path(draft).unlink(missing_ok=True)

    @contextmanager
    def _fixed_snapshot(self) -> Iterator[apsw.Connection]:
        """Yield a connection with a fixed snapshot: otherwise, a backup restarts with every commit, and a busy store is
        never copied. Writers to a file do not wait for it."""
        if self.in_memory:
            with self._lock:
                yield self._writer
            return
        source = self._connect()
        try:
            source.execute("BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
            yield source
        finally:
            source.close()

    def close(self) -> None:
        self._closed.set()
        self._woken.set()
        with self._watching:
            if self._commits is not None:
                self._commits.close()
        with self._watching, self._lock, self._read_lock, self._worker_lock, self._scan_lock:
            for connection in (self._watch, self._reader, self._worker_reader, self._scanner, self._writer):
                if connection is not None:
                    connection.close()
