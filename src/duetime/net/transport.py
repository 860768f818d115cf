"""Connections to checked addresses only, with one deadline for everything that a call does.

Separate from the guard because it needs the HTTP library, which commands that make no calls should not have to load.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import httpcore2

from duetime.engine.clock import Clock

Find: TypeAlias = Callable[[str, int, float], list[str]]
"""Return the addresses that may be dialled for a host and a port, within a timeout in seconds."""

_MOST_TRIED = 4


class Journey(threading.local):
    """Deadline and progress of one call. The library does not pass these on, but a call stays in its thread."""

    ends = 0.0
    connected = False
    """True if the call opened a connection instead of reusing one."""
    heard = False
    """True if any byte was received."""

    def begin(self, ends: float) -> None:
        self.ends, self.connected, self.heard = ends, False, False


class GuardedBackend(httpcore2.NetworkBackend):
    """Dials the numeric addresses that `find` returns, so that no second lookup can lead elsewhere. TLS still requests
    and verifies the host name."""

    def __init__(
        self, clock: Clock, find: Find, journey: Journey, dialler: httpcore2.NetworkBackend | None = None
    ) -> None:
        self._clock = clock
        self._find = find
        self._journey = journey
        self._dialler = dialler or httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        self._journey.connected = True
        addresses = self._find(host, port, self._left())[:_MOST_TRIED]
        refused: Exception = httpcore2.ConnectError()
        for position, address in enumerate(addresses):
            share = self._left() / (len(addresses) - position)  # the first may never respond
            try:
                stream = self._dialler.connect_tcp(address, port, share, socket_options=socket_options or ())
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                refused = error
            else:
                return TimedStream(stream, self._clock, self._journey)
        raise refused

    def _left(self) -> float:
        left = self._journey.ends - self._clock.monotonic()
        if left <= 0:
            raise httpcore2.ConnectTimeout
        return left


class TimedStream(httpcore2.NetworkStream):
    """Limits every read and write to the time left of the call. The library's timeouts start anew with each byte, so
    that a receiver that sends slowly could hold a thread for as long as it likes."""

    def __init__(self, stream: httpcore2.NetworkStream, clock: Clock, journey: Journey) -> None:
        self._stream = stream
        self._clock = clock
        self._journey = journey

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = self._stream.read(max_bytes, self._left(httpcore2.ReadTimeout))
        self._journey.heard = self._journey.heard or bool(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        connection: socket.socket = self._stream.get_extra_info("socket")
        unsent = memoryview(buffer)
        while unsent:
            connection.settimeout(self._left(httpcore2.WriteTimeout))
            try:
                unsent = unsent[connection.send(unsent) :]
            except TimeoutError as error:
                raise httpcore2.WriteTimeout(error) from error
            except OSError as error:
                raise httpcore2.WriteError(error) from error

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        left = self._left(httpcore2.ConnectTimeout)
        return TimedStream(self._stream.start_tls(ssl_context, server_hostname, left), self._clock, self._journey)

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def _left(self, over: type[httpcore2.TimeoutException]) -> float:
        left = self._journey.ends - self._clock.monotonic()
        if left <= 0:
            raise over
        return left
