"""Sends checked calls over pooled connections and translates errors into readable reasons."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from email.utils import format_datetime

import httpcore2

from duetime.engine.clock import Clock, datetime_of
from duetime.net.dns import Unresolved
from duetime.net.messages import Answer, CallFailed, CheckedCall
from duetime.net.ssrf_guard import Forbidden
from duetime.net.transport import Find, GuardedBackend, Journey

_IDLE = 30.0
"""Seconds that an idle connection is kept for the next call."""
_LOST = (httpcore2.NetworkError, httpcore2.RemoteProtocolError)
_TROUBLE = (*_LOST, httpcore2.TimeoutException, httpcore2.LocalProtocolError, Forbidden, Unresolved)


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
        self._journey = Journey()
        self._backend = GuardedBackend(clock, find, self._journey, dialler)
        self._trust = trust or httpcore2.default_ssl_context()  # once: it loads all certificate authorities
        self._pool = httpcore2.ConnectionPool(
            ssl_context=self._trust,
            max_connections=connections,
            keepalive_expiry=_IDLE,
            network_backend=self._backend,
        )

    def send(self, call: CheckedCall, patience: float) -> Answer:
        self._journey.begin(self._clock.monotonic() + patience)
        request = _request(call, patience)
        try:
            return self._send(request)
        except _TROUBLE as error:
            # Without its cause, because the library quotes its input, headers included.
            raise self._failure(error, call.target.authority, patience) from None

    def close(self) -> None:
        self._pool.close()

    def _send(self, request: httpcore2.Request) -> Answer:
        try:
            return self._answered(self._pool.handle_request, request)
        except _LOST:
            if self._journey.connected or self._journey.heard or not self._resends:
                raise
        # The receiver had closed this kept connection, most likely before the request arrived. If it did arrive, the
        # receiver recognizes the repeat by its id. Use a new connection, because another kept one may be dead too.
        connection = httpcore2.HTTPConnection(
            request.url.origin, ssl_context=self._trust, network_backend=self._backend
        )
        try:
            return self._answered(connection.handle_request, request)
        finally:
            connection.close()

    def _answered(
        self, handle: Callable[[httpcore2.Request], httpcore2.Response], request: httpcore2.Request
    ) -> Answer:
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
        return Answer(response.status, headers, body, cut)

    def _body(self, response: httpcore2.Response) -> tuple[bytes, bool]:
        """Read the body as far as it arrives. A missing rest is no failure: the status already shows the result."""
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
            case Forbidden():
                return CallFailed(str(error), permanent=True)
            case Unresolved():
                return CallFailed(str(error))
            case httpcore2.LocalProtocolError():
                return CallFailed("the call is not valid HTTP; check its method and headers", permanent=True)
            case httpcore2.PoolTimeout():
                return CallFailed(f"no connection to {host} was free within {patience:g} s")
            case httpcore2.TimeoutException():
                return CallFailed(f"{host} did not answer within {patience:g} s")
            case httpcore2.ConnectError():
                return CallFailed(f"{host} could not be reached: {_why_unreachable(*error.args[:1])}")
            case _ if self._journey.heard:
                return CallFailed(f"{host} broke off, or its answer is not valid HTTP")
            case _:
                return CallFailed(f"{host} closed the connection without an answer")


def _request(call: CheckedCall, patience: float) -> httpcore2.Request:
    scheme, host, port, path = call.target
    return httpcore2.Request(
        call.method,
        httpcore2.URL(scheme=scheme, host=host, port=port, target=path),
        headers=call.headers,
        content=call.body,
        extensions={"timeout": {"pool": patience}},
    )


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
