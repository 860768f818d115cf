"""Leaves a PostgreSQL server that hangs without closing its connections, as a suspended machine does."""

from __future__ import annotations

import logging
import math
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg

from duetime.engine.clock import SECOND
from duetime.engine.model import LEASE

log = logging.getLogger("duetime.store")

Connection = psycopg.Connection[tuple[Any, ...]]

PROBE_SECONDS: Final = 2
"""Seconds that a server has to answer a further connection; libpq rounds 1 up to 2."""
TICK: Final = 1.0
AT_REST: Final = math.inf
"""In place of the tick at which a connection was lent: it is idle."""


class Watchdog:
    """Ends the connections to a server that has neither answered a statement for half a lease nor accepts another
    connection. A statement that takes long on a server that lives goes on.

    A thread counts ticks: a clock would also count the time for which this process was suspended."""

    def __init__(self, answers: Callable[[Connection], bool]) -> None:
        self._answers = answers
        self.patience = LEASE / SECOND / 2
        """Seconds after which a server that does not answer is left."""
        self.tick = 0
        self.lent: dict[Connection, float] = {}
        """The tick at which each open connection was lent."""
        self._answered = 0
        self._inherited: list[Connection] = []
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def watch(self, connection: Connection) -> None:
        self.lent[connection] = self.tick
        with self._lock:
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._run, name="duetime-watchdog", daemon=True)
                self._thread.start()

    def forget_inherited(self) -> None:
        """Start anew in a forked process, which has none of its parent's threads and must not end its connections."""
        self._inherited += self.lent
        self.lent.clear()
        self._closed, self._lock, self._thread = threading.Event(), threading.Lock(), None

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(TICK):
            self.tick += 1
            for connection in [each for each in self.lent.copy() if each.closed]:
                self.lent.pop(connection, None)
            suspect = self._longest_lent()
            if suspect is not None and not self._has_answer(suspect):
                self._leave(suspect)

    def _longest_lent(self) -> Connection | None:
        """Return the connection that has been lent longest, if the server should have answered by now."""
        since = self.tick - max(1.0, (self.patience - PROBE_SECONDS) / TICK)
        lent = [(max(tick, self._answered), each) for each, tick in self.lent.copy().items() if tick < AT_REST]
        tick, connection = min(lent, key=lambda loan: loan[0], default=(AT_REST, None))
        return connection if tick <= since else None

    def _has_answer(self, connection: Connection) -> bool:
        tick = self.lent.get(connection)
        try:
            is_alive = self._answers(connection)
        except (psycopg.Error, OSError):  # it was closed meanwhile
            is_alive = True
        if is_alive:
            self._answered = self.tick
        return is_alive or self.lent.get(connection) != tick

    def _leave(self, hung: Connection) -> None:
        """End every connection to the server: who waits for it gets an error, and nobody is lent an idle one."""
        with suppress(psycopg.Error, OSError), _socket_of(hung) as own:
            server = own.getpeername()
            log.warning("PostgreSQL at %s does not answer; its connections are ended", hung.info.host)
            for connection in self.lent.copy():
                with suppress(psycopg.Error, OSError), _socket_of(connection) as other:
                    if other.getpeername() == server:
                        other.shutdown(socket.SHUT_RDWR)


@contextmanager
def _socket_of(connection: Connection) -> Iterator[socket.socket]:
    """Yield the socket of a connection, which goes on owning it."""
    own = socket.socket(fileno=connection.fileno())
    try:
        yield own
    finally:
        own.detach()
