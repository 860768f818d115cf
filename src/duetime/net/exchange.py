"""Sends checked calls over pooled connections, to checked addresses only, with one deadline for everything in a call.

Separate from the client because it needs the HTTP library, which commands that make no calls should not have to load.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from email.utils import format_datetime
from functools import cache
from typing import Any, TypeAlias

import httpcore2

from duetime.engine.clock import Clock, datetime_of
from duetime.engine.model import LOCAL
from duetime.net.calls import CallFailed, CheckedCall, HttpAnswer

Find: TypeAlias = Callable[[str, int, float, str], list[str]]
"""Returns the addresses that may be dialled for a host and a port, within a timeout in seconds, for an owner. Raises
CallFailed if there are none."""

_MOST_TRIED = 4


class CallProgress(threading.local):
    """Deadline and progress of one call. The library does not pass these on, but a call stays in its thread."""

    connected = False
    """True if the call opened a connection instead of reusing one."""
    received = False
    """True if any byte was received."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends = 0.0
        self.owner = LOCAL

    def begin(self, patience: float, owner: str) -> None:
        self._ends, self.connected, self.received = self._clock.monotonic() + patience, False, False
        self.owner = owner

    def left(self, over: type[httpcore2.TimeoutException]) -> float:
        """Return the seconds left of the call. Raise `over` if there are none."""
        left = self._ends - self._clock.monotonic()
        if left <= 0:
            raise over
        return left


class GuardedBackend(httpcore2.NetworkBackend):
    """Dials the numeric addresses that `find` returns, so that no second lookup can return a different address. TLS
    still requests and verifies the host name."""

    def __init__(self, find: Find, progress: CallProgress, dialler: httpcore2.NetworkBackend | None = None) -> None:
        self._find = find
        self._progress = progress
        self._dialler = dialler or httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        self._progress.connected = True
        left = self._progress.left(httpcore2.ConnectTimeout)
        addresses = self._find(host, port, left, self._progress.owner)[:_MOST_TRIED]
        refused: Exception = httpcore2.ConnectError()
        for position, address in enumerate(addresses):
            left = self._progress.left(httpcore2.ConnectTimeout)
            share = left / (len(addresses) - position)  # the first address may never respond
            try:
                stream = self._dialler.connect_tcp(address, port, share, socket_options=socket_options or ())
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                refused = error
            else:
                return TimedStream(stream, self._progress)
        raise refused


class TimedStream(httpcore2.NetworkStream):
    """Limits every read and write to the time left for the call. The library's timeouts restart with each byte, so a
    receiver that sends slowly could otherwise hold a thread for as long as it likes."""

    def __init__(self, stream: httpcore2.NetworkStream, progress: CallProgress) -> None:
        self._stream = stream
        self._progress = progress

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = self._stream.read(max_bytes, self._progress.left(httpcore2.ReadTimeout))
        self._progress.received = self._progress.received or bool(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        connection: socket.socket = self._stream.get_extra_info("socket")
        unsent = memoryview(buffer)
        while unsent:
            connection.settimeout(self._progress.left(httpcore2.WriteTimeout))
            try:
                unsent = unsent[connection.send(unsent) :]
            except TimeoutError as error:
                raise httpcore2.WriteTimeout(error) from error
            except OSError as error:
                raise httpcore2.WriteError(error) from error

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        left = self._progress.left(httpcore2.ConnectTimeout)
        return TimedStream(self._stream.start_tls(ssl_context, server_hostname, left), self._progress)

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


_IDLE = 30.0
"""Seconds that an idle connection is kept for the next call."""
_LOST = (httpcore2.NetworkError, httpcore2.RemoteProtocolError)
_TROUBLE = (*_LOST, httpcore2.TimeoutException, httpcore2.LocalProtocolError)


@cache
def _known_authorities() -> ssl.SSLContext:
    """Load the certificate authorities of this machine once for all clients, because it takes as long as many calls."""
    return httpcore2.default_ssl_context()


class Exchange:
    def __init__(
        self,
        clock: Clock,
        find: Find,
        *,
        connections: int,
        largest: int,
        resends: bool = True,
        dialler: httpcore2.NetworkBackend | None = None,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._clock = clock
        self._largest = largest
        self._resends = resends
        self._progress = CallProgress(clock)
        self._backend = GuardedBackend(find, self._progress, dialler)
        self._trust = trust or _known_authorities()
        self._pool = httpcore2.ConnectionPool(
            ssl_context=self._trust,
            max_connections=connections,
            keepalive_expiry=_IDLE,
            network_backend=self._backend,
        )

    def send(self, call: CheckedCall, patience: float) -> HttpAnswer:
        self._progress.begin(patience, call.owner)
        scheme, host, port, path = call.target
        url = httpcore2.URL(scheme=scheme, host=host, port=port, target=path)
        limits = {"timeout": {"pool": patience}}
        request = httpcore2.Request(call.method, url, headers=call.headers, content=call.body, extensions=limits)
        try:
            return self._send_once(request) if call.once else self._send(request)
        except _TROUBLE as error:
            # Raised without its cause, because the library quotes its input, including headers.
            raise self._failure(error, call.target.authority, patience) from None

    def close(self) -> None:
        self._pool.close()

    def _send(self, request: httpcore2.Request) -> HttpAnswer:
        try:
            return self._read_answer(self._pool.handle_request, request)
        except _LOST:
            if self._progress.connected or self._progress.received or not self._resends:
                raise
        # The receiver had closed this reused connection, most likely before the request arrived. If it did arrive, the
        # receiver recognizes the repetition by its id. Use a new connection, because another idle one may be dead too.
        return self._send_once(request)

    def _send_once(self, request: httpcore2.Request) -> HttpAnswer:
        """Send a request over a connection of its own, so that a dead idle connection is no reason to repeat it."""
        connection = httpcore2.HTTPConnection(
            request.url.origin, ssl_context=self._trust, network_backend=self._backend
        )
        try:
            return self._read_answer(connection.handle_request, request)
        finally:
            connection.close()

    def _read_answer(
        self, handle: Callable[[httpcore2.Request], httpcore2.Response], request: httpcore2.Request
    ) -> HttpAnswer:
        response = handle(request)
        try:
            body, cut = self._body(response)
        finally:
            response.close()
        headers: dict[str, str] = {}
        for raw_name, raw_value in response.headers:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        headers.setdefault("date", format_datetime(datetime_of(self._clock.now()), usegmt=True))
        return HttpAnswer(response.status, headers, body, cut)

    def _body(self, response: httpcore2.Response) -> tuple[bytes, bool]:
        """Read as much of the body as arrives. A missing rest is not a failure, because the status already shows the
        result."""
        body = bytearray()
        try:
            for chunk in response.iter_stream():
                body += chunk
                if len(body) > self._largest:
                    return bytes(body[: self._largest]), True
        except (*_LOST, httpcore2.TimeoutException):
            return bytes(body), True
        return bytes(body), False

    def _failure(self, error: Exception, host: str, patience: float) -> CallFailed:
        match error:
            case httpcore2.LocalProtocolError():
                return CallFailed("the call is not valid HTTP; check its method and headers", permanent=True)
            case httpcore2.PoolTimeout():
                return CallFailed(f"no connection to {host} was free within {patience:g} s", timed_out=True)
            case httpcore2.TimeoutException():
                return CallFailed(f"{host} did not answer within {patience:g} s", timed_out=True)
            case httpcore2.ConnectError():
                return CallFailed(f"{host} could not be reached: {_why_unreachable(*error.args[:1])}")
            case _ if self._progress.received:
                return CallFailed(f"{host} broke off, or its answer is not valid HTTP")
            case _:
                return CallFailed(f"{host} closed the connection without an answer")


def _why_unreachable(cause: object = None) -> str:
    """Return the reason from the socket's error, which the library passes as an argument and not as the cause."""
    match cause:
        case ssl.SSLCertVerificationError():
            return f"its certificate was not accepted ({cause.verify_message})"
        case ssl.SSLError():
            return "no TLS connection could be made"
        case OSError(strerror=str() as text):
            return text.lower()
        case _:
            return "the connection failed"
