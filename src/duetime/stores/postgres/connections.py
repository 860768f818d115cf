"""PostgreSQL connections: the driver, translation of its errors, and a small pool that threads share."""

from __future__ import annotations

import os
import random
import re
import select
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

from duetime.engine.clock import Clock
from duetime.engine.errors import DuetimeError, InvalidInput, StoreUnavailable, StoreUnusable

try:
    import psycopg

    from duetime.stores.postgres.watchdog import AT_REST, PROBE_SECONDS, Connection, Watchdog
except ImportError as error:  # either the driver or the libpq that it needs is missing
    raise StoreUnusable("PostgreSQL needs a driver that is not installed: install duetime[postgres]") from error

__all__ = ["Connection", "psycopg"]


# Translation of errors. No message contains the connection string, because many people read logs.

errors = psycopg.errors
_REFUSED = re.compile(r"FATAL:\s+(.+)")


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError as error:
        raise InvalidInput("text with lone surrogates cannot be stored") from error
    except psycopg.Error as error:
        raise translate(error) from error


def translate(error: psycopg.Error) -> DuetimeError | psycopg.Error:
    """Return the error to raise instead; an error in our own statements is returned unchanged."""
    match error:
        case errors.ProgramLimitExceeded():
            return InvalidInput("too large to be stored")
        case errors.DiskFull():
            return StoreUnavailable("PostgreSQL: the disk is full; free some space, and work continues")
        case errors.ReadOnlySqlTransaction():
            return StoreUnavailable(
                "PostgreSQL accepts no writes here (a standby?); work continues when it does. If there are several"
                " servers, name them all in the URL: postgresql://user@one,two/database"
            )
        case errors.InsufficientPrivilege():
            return StoreUnusable(f"PostgreSQL: {_primary(error)}; grant the user the necessary permissions")
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.InvalidSchemaName():
            return StoreUnusable(f"PostgreSQL: {_primary(error)}; Duetime's schema is missing, migrate first")
        case errors.NumericValueOutOfRange():
            return InvalidInput("a number is too large to be stored")
        case errors.DuplicatePreparedStatement() | errors.InvalidSqlStatementName():
            return StoreUnusable(
                "PostgreSQL: a pooler in transaction mode is in between, which loses what a session has set up; connect"
                f" directly or use its session mode, with {2 * CONNECTIONS + 1} connections for each process of Duetime"
            )
        case psycopg.DataError():
            return InvalidInput("text with NUL characters cannot be stored")
        case psycopg.OperationalError() | psycopg.InterfaceError() | errors.IdleInTransactionSessionTimeout():
            return StoreUnavailable(f"PostgreSQL: {_primary(error)}; work continues when it is back")
        case _:
            return error


def refusal_of(error: psycopg.Error) -> StoreUnavailable:
    """Return the error for a failed connection, with the server's reason if it gave one."""
    text = str(error)
    match = _REFUSED.search(text)
    reason = f"refuses the connection ({match[1].strip()})" if match else "cannot be reached"
    if "session is read-only" in text:
        reason = "has no server that accepts writes (only a standby answers)"
    return StoreUnavailable(f"PostgreSQL {reason}; work continues when it is back")


def _primary(error: psycopg.Error) -> str:
    return error.diag.message_primary or "the connection was lost"


Cursor = psycopg.Cursor[tuple[Any, ...]]

CONNECTIONS = 5
"""Maximum number of connections for writing, and for reading; opened when several threads need them at once."""

PATIENCE_SECONDS = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0

# Defaults that the URL can override. They detect a server that disappears without closing its connections.
_WATCHFUL = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "application_name": "duetime",
}
# With several servers in the URL, the one that accepts writes is used, and one that hangs is passed over soon.
_WATCHFUL_OF_SEVERAL = _WATCHFUL | {"connect_timeout": PROBE_SECONDS, "target_session_attrs": "read-write"}

SETTINGS: Mapping[str, str] = {
    "client_encoding": "UTF8",
    "default_transaction_isolation": "read committed",
    "idle_in_transaction_session_timeout": "5s",  # a process that is stopped in mid-transaction must release its locks
    "tcp_user_timeout": "20s",  # also if it was stopped before it has read a large answer
    "lock_timeout": "8s",
    "jit": "off",
    # Lists and the due queue are read in index order and no further than asked for. Without statistics, the planner
    # expects few rows per owner, and would read all of them into a bitmap and sort them.
    "enable_bitmapscan": "off",
}

# Every statement of a transaction looks up rows by key; without statistics, the planner would read whole tables.
WRITER_SETTINGS: Mapping[str, str] = {
    **SETTINGS,
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_sort": "off",
    "plan_cache_mode": "force_generic_plan",
}


class Address:
    """The address of the server. Its string form never contains the password."""

    def __init__(self, url: str) -> None:
        self._last: dict[str, Any] | None = None
        """The one of several servers that was used last; the next connection begins with it."""
        try:
            self._parameters = psycopg.conninfo.conninfo_to_dict(url)
            for port in str(self._parameters.get("port", "")).split(","):
                int(port or 0)
        except (psycopg.Error, ValueError):
            message = "the PostgreSQL URL cannot be read; it looks like postgresql://user:password@host:5432/database"
            raise StoreUnusable(message) from None

    def __str__(self) -> str:
        known = self._parameters
        user = f"{known['user']}@" if "user" in known else ""
        host, database = str(known.get("host", "")), known.get("dbname", "")
        hosts, ports = host.split(","), str(known.get("port", "")).split(",")
        ports = ports * len(hosts) if len(ports) == 1 else ports  # one port serves all hosts
        servers = ",".join(f"{name}:{port}" if port else name for name, port in zip(hosts, ports, strict=False))
        place = f"/{database}?host={host}" if host.startswith("/") else f"{servers}/{database}"
        return f"postgresql://{user}{place}"

    def connect(
        self, settings: Mapping[str, str], opened: Callable[[Connection], None] = lambda connection: None
    ) -> Connection:
        """Return a new connection with these settings; `opened` is called before the first statement."""
        try:
            connection = self._connect()
        except psycopg.Error as error:
            raise refusal_of(error) from error
        opened(connection)
        try:
            calls = ", ".join(["set_config(%s, %s, false)"] * len(settings))
            connection.execute(f"SELECT {calls}", [part for setting in settings.items() for part in setting])
            connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false)"
                " WHERE current_setting('synchronous_commit') IN ('off', 'local')"
            )
        except BaseException:
            connection.close()
            raise
        return connection

    def answers(self, connection: Connection) -> bool:
        """Return whether the server of a connection answers another one, be it with a refusal."""
        try:
            self._connect(**_place_of(connection), connect_timeout=PROBE_SECONDS, target_session_attrs="any").close()
        except errors.ConnectionTimeout:
            self._last = None
            return False
        except psycopg.Error:
            return True
        return True

    def _connect(self, **more: Any) -> Connection:
        several = any("," in str(self._parameters.get(name, "")) for name in ("host", "hostaddr"))
        parameters = {**(_WATCHFUL_OF_SEVERAL if several else _WATCHFUL), **self._parameters, **more}
        if more or not several:
            return psycopg.connect(**parameters, autocommit=True)
        with suppress(psycopg.Error):  # the driver looks up all of them first, which takes long if the DNS hangs
            if (last := self._last) is not None:
                return psycopg.connect(**{**parameters, **last}, autocommit=True)
        self._last = None
        connection = psycopg.connect(**parameters, autocommit=True)
        self._last = _place_of(connection)
        return connection


def _place_of(connection: Connection) -> dict[str, Any]:
    info = connection.info
    return {"host": info.host, "hostaddr": info.hostaddr or None, "port": info.port}


class Connections:
    """A pool that lends each connection to one thread at a time; a connection that failed is never lent again.

    `psycopg_pool` lends as fast, but connects in threads of its own, four per pool: a caller would learn only after a
    timeout that the server refuses connections, and never why, and a forked process could not use the pool."""

    def __init__(
        self, address: Address, settings: Mapping[str, str], limit: int, clock: Clock, watchdog: Watchdog
    ) -> None:
        self._address = address
        self._watchdog = watchdog
        self._settings = settings
        self._clock = clock
        self._slots = threading.BoundedSemaphore(limit)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._sessions: dict[Connection, int] = {}
        self._closed = False
        self._pause = 0.0
        self._not_before = 0.0
        self._limit = limit
        self._inherited: list[Connection] = []
        _pools.add(self)

    def forget_inherited(self) -> None:
        """Start without connections in a forked process, because its parent goes on using them. The inherited
        connections are kept unused: closing one would end the parent's session. No thread of the parent holds the locks
        here."""
        self._slots, self._lock = threading.BoundedSemaphore(self._limit), threading.Lock()
        self._inherited += self._sessions
        self._idle, self._sessions = [], {}
        self._watchdog.forget_inherited()

    @contextmanager
    def lend(self) -> Iterator[Connection]:
        if not self._slots.acquire(timeout=PATIENCE_SECONDS):
            raise StoreUnavailable("every connection to PostgreSQL is in use; it will be retried")
        try:
            connection = self._take()
            try:
                yield connection
            finally:
                self._take_back(connection)
        finally:
            self._slots.release()

    def is_ours(self, session: int) -> bool:
        with self._lock:
            return session in self._sessions.values()

    def close(self) -> None:
        """Close the pool; connections in use are closed when they are returned."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> Connection:
        while True:
            with self._lock:
                if self._closed:
                    raise StoreUnavailable("the store was closed")
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._open()
            self._watchdog.lent[connection] = self._watchdog.tick
            if _is_fresh(connection):
                return connection
            self._discard(connection)

    def _open(self) -> Connection:
        """Open a connection. After a failure, refuse further attempts for a while, to protect a server that is
        recovering."""
        with self._lock:
            if self._clock.monotonic() < self._not_before:
                raise StoreUnavailable
        try:
            connection = self._address.connect(self._settings, self._watchdog.watch)
        except StoreUnavailable:
            with self._lock:
                self._pause = min(LONGEST_PAUSE, self._pause * 2 or FIRST_PAUSE)
                self._not_before = self._clock.monotonic() + self._pause * random.uniform(0.5, 1)
            raise
        with self._lock:
            self._pause = self._not_before = 0.0
            self._sessions[connection] = connection.info.backend_pid
        return connection

    def _take_back(self, connection: Connection) -> None:
        idle = psycopg.pq.TransactionStatus.IDLE
        with self._lock:
            usable = not self._closed and not connection.closed and connection.info.transaction_status == idle
            if usable:
                self._watchdog.lent[connection] = AT_REST
                self._idle.append(connection)
        if not usable:
            self._discard(connection)

    def _discard(self, connection: Connection) -> None:
        with self._lock:
            self._sessions.pop(connection, None)
        connection.close()


def _forget_inherited() -> None:
    for pool in tuple(_pools):
        pool.forget_inherited()


_pools: WeakSet[Connections] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_inherited)


def _is_fresh(connection: Connection) -> bool:
    """Return whether a connection is usable: data on an idle connection means that the server closed it."""
    return not connection.closed and not wait_for_data(0, connection.fileno())


def wait_for_data(timeout: float, *descriptors: int) -> Collection[int]:
    """Wait for at most some seconds, and return the descriptors of sockets that can be read."""
    if not hasattr(select, "poll"):  # on Windows
        return select.select(descriptors, (), (), timeout)[0]
    poll = select.poll()  # a selector costs several times as much, and this precedes every transaction
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(timeout * 1000)]
