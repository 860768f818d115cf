"""The store on PostgreSQL, for many processes on many machines; every acknowledged commit is on disk."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from duetime.engine.clock import SECOND, Clock, Instant, SystemClock
from duetime.engine.errors import StoreUnavailable, StoreUnusable
from duetime.engine.model import LEASE, WorkerId
from duetime.engine.policy.bulk import begin_all, have_jitter
from duetime.engine.policy.follow_ups import Messenger
from duetime.engine.policy.rows import NewRows
from duetime.engine.store import Health
from duetime.stores.base import BaseStore
from duetime.stores.create import CreateRequest, NotAtOnce
from duetime.stores.postgres.arrays import texts
from duetime.stores.postgres.connections import (
    CONNECTIONS,
    SETTINGS,
    WRITER_SETTINGS,
    Address,
    Connection,
    Connections,
    psycopg,
    translated,
    wait_for_data,
)
from duetime.stores.postgres.transaction import SQL, PostgresTransaction, parameters_of
from duetime.stores.postgres.watchdog import AT_REST, Watchdog
from duetime.stores.search import check_floor, load_migrations
from duetime.stores.transaction import NeedsDecision, Taken, Transaction


class Listener:
    """Waits in one thread for commits of other processes; any other thread may call `close`. A lost notification costs
    at most a second, because all waiters also poll."""

    def __init__(self, connect: Callable[[], Connection], is_ours: Callable[[int], bool], clock: Clock) -> None:
        self._connect = connect
        self._is_ours = is_ours
        self._clock = clock
        self._connection: Connection | None = None
        self._was_lost = False
        self._bell, self._cord = socket.socketpair()
        self._waiting = threading.Lock()
        self._closing = threading.Lock()
        self._closed = False

    def wait(self, timeout: float) -> bool:
        with self._waiting:
            if self._closed:
                return False
            try:
                return self._listen(timeout)
            except (StoreUnavailable, psycopg.Error):
                self._drop()
                self._ready(None, timeout)
                return False

    def interrupt(self) -> None:
        """End the wait that is in progress or, if there is none, the next one."""
        with self._closing:
            if not self._closed:
                self._cord.send(b".")

    def close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
        self._cord.send(b".")
        with self._waiting:
            self._drop()
            self._bell.close()
            self._cord.close()

    def _listen(self, timeout: float) -> bool:
        if self._connection is None:
            self._connection = self._connect()
            if self._was_lost:  # notifications in the meantime were missed
                self._was_lost = False
                return True
        deadline = self._clock.monotonic() + timeout
        while self._ready(self._connection, max(0.0, deadline - self._clock.monotonic())):
            notices = list(self._connection.notifies(timeout=0))
            if any(not self._is_ours(notify.pid) for notify in notices):
                return True  # the listeners in this process already know about its own commits
        return False

    def _ready(self, connection: Connection | None, timeout: float) -> bool:
        """Return whether the server sends something before the timeout and before the store is closed."""
        bell = self._bell.fileno()
        ready = wait_for_data(timeout, bell, *([] if connection is None else [connection.fileno()]))
        if bell in ready:
            self._bell.recv(1024)
            return False
        return bool(ready)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._was_lost = True


# Schema migrations, run by one process at a time.

MIGRATIONS = load_migrations("postgres")
KNOWN_SCHEMA = MIGRATIONS[-1][0]
_OURS = ("schedules", "progress", "due", "runs", "attempts", "workers", "meta")


def bring_up(connection: Connection) -> None:
    """Migrate the schema in one transaction, so that a failed migration leaves it unchanged."""
    with connection.transaction():
        connection.execute("SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0")
        connection.execute("SELECT pg_advisory_xact_lock(71001)")
        _have_schema(connection)
        version = _version(connection)
        if version > KNOWN_SCHEMA:
            [(floor,)] = connection.execute(SQL["floor"]).fetchall()
            check_floor("this database", version, int(floor), KNOWN_SCHEMA)
        for number, script in MIGRATIONS:
            if number > version:
                connection.execute(script.encode())
                connection.execute(SQL["set_schema_version"], (number,))


def _have_schema(connection: Connection) -> None:
    """Create the first schema named in the search_path if none of them exists."""
    row = connection.execute("SELECT current_schema(), current_setting('search_path')").fetchone()
    assert row is not None
    current, path = row
    if current is None:
        name = path.split(",")[0].strip().strip('"')
        connection.execute(psycopg.sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(psycopg.sql.Identifier(name)))


def _version(connection: Connection) -> int:
    """Return the schema version, 0 if our tables do not exist; refuse another program's tables with the same names."""
    tables = connection.execute(
        "SELECT table_name FROM information_schema.tables"
        " WHERE table_schema = current_schema() AND table_name = ANY (%s)",
        (list(_OURS),),
    ).fetchall()
    if not tables:
        return 0
    if len(tables) == len(_OURS):
        versions = connection.execute(SQL["schema_version"]).fetchall()
        if versions:
            return int(versions[0][0])
    raise StoreUnusable(
        "this database contains tables of another program; choose another database, or a separate schema for Duetime:"
        " add ?options=-csearch_path%3Dduetime to the URL"
    )


class PostgresStore(BaseStore):
    _sql = SQL
    writes_overlap = True
    tidy_batch = 2_000

    def __init__(self, url: str, clock: Clock | None = None, messenger: Messenger | None = None) -> None:
        super().__init__(messenger)
        self._clock = clock or SystemClock()
        self._address = Address(url)
        self.url = str(self._address)
        self.known_schema = KNOWN_SCHEMA
        self._watchdog = Watchdog(self._address.answers)
        self._writers = Connections(self._address, WRITER_SETTINGS, CONNECTIONS, self._clock, self._watchdog)
        self._readers = Connections(self._address, SETTINGS, CONNECTIONS, self._clock, self._watchdog)
        self._listener = Listener(self._open_listening, self._writers.is_ours, self._clock)

    def migrate(self) -> None:
        with translated(), self._address.connect(SETTINGS) as connection:
            bring_up(connection)

    def _open_listening(self) -> Connection:
        connection = self._address.connect(SETTINGS, self._watchdog.watch)
        try:
            connection.execute("LISTEN duetime")
        except BaseException:
            connection.close()
            raise
        self._watchdog.lent[connection] = AT_REST
        return connection

    @contextmanager
    def _write(self) -> Iterator[PostgresTransaction]:
        """Open a write transaction. It is not retried: the caller's fence or key shows whether a lost commit was
        written."""
        with translated(), self._writers.lend() as connection:
            try:
                transaction = PostgresTransaction(connection)
                yield transaction
                transaction.commit()
            except BaseException as error:
                try:
                    connection.rollback()
                except Exception:
                    connection.close()  # this has the same effect
                if isinstance(error, psycopg.errors.DivisionByZero):
                    raise NeedsDecision from error
                if isinstance(error, psycopg.errors.UniqueViolation):
                    raise (NeedsDecision if error.diag.constraint_name == "runs_once" else Taken) from error
                raise

    def _insert_few(self, request: CreateRequest) -> Sequence[NewRows]:
        """Send one statement, which is a transaction of its own. The server assigns the ids, unless jitter needs them
        in advance."""
        drafts = request.drafts
        ids: Sequence[int | None] = [None] * len(drafts)
        if have_jitter(draft.definition.trigger for draft in drafts):
            ids = [row[0] for row in self._named("new_schedule_ids", len(drafts))]
        values = parameters_of(request, ids)
        with translated(), self._writers.lend() as connection:
            try:
                rows = connection.cursor(binary=True).execute(SQL["create_few"], values, prepare=True).fetchall()
            except psycopg.errors.UniqueViolation as error:
                raise Taken from error
        if not rows:
            raise NotAtOnce
        return begin_all(drafts, [row[0] for row in rows])

    def _texts(self, values: Sequence[str]) -> str:
        return texts(values)

    def _rows(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Run a read, and retry it once if the connection was lost, because repeating a read is harmless."""
        statement = statement.replace("?", "%s")
        try:
            return self._read(statement, values)
        except StoreUnavailable:
            return self._read(statement, values)

    def _read(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with translated(), self._readers.lend() as connection:
            return connection.cursor(binary=True).execute(statement, values).fetchall()

    def register(self, name: str, lanes: Sequence[str], session: bool, now: Instant, lease: int = LEASE) -> WorkerId:
        self._watchdog.patience = min(self._watchdog.patience, lease / SECOND / 2)
        return super().register(name, lanes, session, now, lease)

    def prune(self, before: Instant, limit: int) -> int:
        with self._write() as tx:
            runs = tx.rows("prune_runs", before, limit)[0][0]
            tombstones = tx.rows("prune_schedules", before, limit)[0][0]
            tx.send("forget_usage", before)
            tx.send("forget_spent", before)
            tx.send("forget_incidents", before, before, before)
            number = int(runs + tombstones) + len(tx.rows("prune_remotes", before, limit))
        return number + self.prune_events(before, limit)

    def _delete_oldest(self, tx: Transaction, owner: str, before: Instant, limit: int, size: int) -> tuple[int, int]:
        number, freed = tx.rows("trim_runs", owner, before, limit, size)[0]
        return int(number), int(freed)

    def wait(self, timeout: float) -> bool:
        return self._listener.wait(timeout)

    def stop_waiting(self) -> None:
        self._listener.interrupt()

    def now(self) -> Instant | None:
        """Return the server's time, which workers use to correct their own clocks."""
        return Instant(self._rows(SQL["now"], ())[0][0])

    def health(self, now: Instant) -> Health:
        schedules, due, overdue, running, oldest = self._rows(SQL["health"], (now,))[0]
        engine = self._rows("SELECT current_setting('server_version')", ())[0][0]
        details = {"engine": f"PostgreSQL {engine}", "address": self.url}
        return Health(self.schema(), schedules, due, overdue, running, oldest, details)

    def schema(self) -> int:
        return int(self._rows(SQL["schema_version"], ())[0][0])

    def backup(self, target: str, report: Callable[[float], None] = lambda done: None) -> None:
        raise StoreUnusable("PostgreSQL is backed up with its own tools: pg_dump for a copy, or its archive of the WAL")

    def close(self) -> None:
        self._listener.close()
        self._readers.close()
        self._writers.close()
        self._watchdog.close()
