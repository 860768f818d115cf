"""A PostgreSQL primary with a synchronous standby, on loopback, whose primary can be killed, stopped and replaced."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg

from tests.support.ports import free_port
from tests.support.postgres import PostgresServer
from tests.support.workers import eventually

HOST = "127.0.0.1"


class NetworkServer(PostgresServer):
    """A server that listens on a port of its own."""

    def __init__(self, **settings: str) -> None:
        self.port = free_port()
        quick = {"wal_retrieve_retry_interval": "200ms", "wal_sender_timeout": "5s", "shared_buffers": "64MB"}
        super().__init__(durable=False, listen_addresses=HOST, port=str(self.port), **quick, **settings)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@{HOST}:{self.port}/postgres"

    def ask(self, query: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    def remove(self) -> None:
        """Kill the server, which may be stopped and would not obey, and delete its folder."""
        if self.running:
            self.signal(signal.SIGKILL)
            eventually(lambda: not self.running, 10, "it is dead")
        super().remove()


class StandbyServer(NetworkServer):
    """A copy of a running primary that follows it."""

    def __init__(self, primary: NetworkServer) -> None:
        self._primary = primary
        super().__init__()

    def _fill(self) -> None:
        self._run("pg_basebackup", "-d", self._primary.url, "-R", "-X", "stream", "-c", "fast", "--no-sync")

    def promote(self) -> None:
        """Make it the primary; return when it accepts writes."""
        self._run("pg_ctl", "promote", "-w", "-t", "60")


class Pair:
    """A primary, and a standby without which the primary acknowledges no commit."""

    def __init__(self, primary: NetworkServer, standby: StandbyServer) -> None:
        self.primary, self.standby = primary, standby
        places = ",".join(f"{HOST}:{server.port}" for server in (primary, standby))
        self.url = f"postgresql://postgres@{places}/postgres"


@contextmanager
def running_pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        primary = NetworkServer()
        stack.callback(primary.remove)
        primary.start()
        standby = StandbyServer(primary)
        stack.callback(standby.remove)
        standby.start()
        primary.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.ask("SELECT pg_reload_conf()")
        in_sync = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        eventually(lambda: primary.ask(in_sync), 30, "the standby follows synchronously")
        yield Pair(primary, standby)
