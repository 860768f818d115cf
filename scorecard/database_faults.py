"""Faults of a PostgreSQL server: connections are cut, it crashes and restarts, it is suspended."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psycopg

from scorecard.experiment import now, wait
from scorecard.history import SECOND, Fault
from tests.support.postgres import PostgresServer

SERVER = 0
"""The process number of faults that concern everybody."""
AFTERMATH = SECOND // 4
"""Time after the end of a fault in which clients may still notice it."""


class DatabaseFaults:
    """Each method causes one fault and returns it."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        with psycopg.connect(server.url) as connection:
            row = connection.execute("SHOW data_directory").fetchone()
        assert row is not None
        self._data = Path(row[0])

    def cut_connections(self, number: int = 3) -> Fault:
        """End some connections, whoever's they are."""
        begin = now()
        chosen = (
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            " ORDER BY random() LIMIT %s"
        )
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            for (pid,) in connection.execute(chosen, (number,)).fetchall():
                connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
        return Fault("cut", SERVER, begin, now() + AFTERMATH)

    def restart(self) -> Fault:
        """Crash the server and start it again."""
        begin = now()
        self._server.stop("immediate")
        self._server.start()
        return Fault("restart", SERVER, begin, now() + AFTERMATH)

    def freeze(self, seconds: float) -> Fault:
        """Stop all processes of the server for a while."""
        begin = now()
        frozen = self._processes()
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            wait(seconds)
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)
        return Fault("freeze", SERVER, begin, now() + AFTERMATH)

    def _processes(self) -> list[int]:
        first = int((self._data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text(encoding="utf-8").split()
        return [first, *map(int, children)]
