"""Listener for commits of other processes. A lost notification costs at most a second: everybody also polls."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable

from duetime.engine.clock import Clock
from duetime.engine.errors import StoreUnavailable
from duetime.stores.postgres.connections import Connection, psycopg


class Listener:
    """Waits for notifications in one thread; `close` may be called by any other."""

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
            self._connection.execute("LISTEN duetime")
            if self._was_lost:  # notifications in the meantime were missed
                self._was_lost = False
                return True
        deadline = self._clock.monotonic() + timeout
        while self._ready(self._connection, max(0.0, deadline - self._clock.monotonic())):
            if self._heard(self._connection):
                return True
        return False

    def _ready(self, connection: Connection | None, timeout: float) -> bool:
        """Return whether the server sends something before the timeout and before the store is closed."""
        with selectors.DefaultSelector() as selector:
            bell = selector.register(self._bell, selectors.EVENT_READ)
            if connection is not None:
                selector.register(connection.fileno(), selectors.EVENT_READ)
            ready = [key for key, _ in selector.select(timeout)]
        return bool(ready) and bell not in ready

    def _heard(self, connection: Connection) -> bool:
        """Return whether another process notified: own commits are already known to the listeners in this process."""
        heard = list(connection.notifies(timeout=0))
        return any(not self._is_ours(notify.pid) for notify in heard)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._was_lost = True
