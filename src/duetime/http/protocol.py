"""uvicorn's HTTP protocol with deadlines for the head of a request and for a client that does not read its response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import h11
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from duetime.http.connection_limits import CONNECTION, GRACE, SPARE_AFTER, ConnectionLimits, ConnectionTable

_TOO_SLOW: Final = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
    b"cache-control: no-store\r\n\r\nThe head of the request did not arrive in time; send it in one piece.\n"
)


LINGER: Final = 1.0
"""Seconds until a connection is closed whose client keeps sending a refused body."""
_BY_STRANGERS: Final = 16 * 1024
_BY_USERS: Final = 256 * 1024
"""Maximum bytes of one read, for unauthenticated and for authenticated connections."""
_LITTLE: Final = 64 * 1024
"""Maximum size of a body that is read and discarded after the response, so that the connection can be reused."""


_HEAD, _READING = "head", "reading"
"""Names of the deadlines: for the head of a request, and for a client that has to read its response."""


class JoinedWrites:
    """Sends the head of a response together with the first part of its body, in one system call, if the length is
    known."""

    def __init__(self, cycle: Any, send: Send) -> None:
        self._cycle, self._send = cycle, send
        self._head: Message | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _has_length(message):
            self._head = message
            return
        if self._head is None:
            await self._send(message)
            return
        head, self._head = self._head, None
        transport = self._cycle.transport
        self._cycle.transport = _WithNext(transport)
        try:
            await self._send(head)
            await self._send(message)
        finally:
            self._cycle.transport = transport


def _has_length(message: Message) -> bool:
    return any(name == b"content-length" for name, _ in message.get("headers", ()))


class _WithNext:
    """Keeps the first data until the next write."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._first: bytes | None = None
        self.write = self._keep

    def _keep(self, data: bytes) -> None:
        self._first = data
        self.write = self._join

    def _join(self, data: bytes) -> None:
        assert self._first is not None
        self._transport.write(self._first + data)
        self.write = self._transport.write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class LimitedProtocol(H11Protocol):
    def __init__(self, table: ConnectionTable, **options: Any) -> None:
        super().__init__(**options)
        self._table = table
        self._inner, self.app = self.app, self._with_connection
        self.address, self.owner = "", None  # type: str, str | None
        self._deadlines: dict[str, asyncio.TimerHandle] = {}
        self._heard, self._answered = False, False
        """Whether data arrived since the last response, and whether there was any response."""
        self._idle_since = self.loop.time()

    @property
    def limits(self) -> ConnectionLimits:
        return self._table.limits

    async def _with_connection(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the connection to the application, which reports when a request is authenticated."""
        scope[CONNECTION] = self
        await self._inner(scope, receive, JoinedWrites(self.cycle, send).send)

    # -- interface for the table ----------------------------------------------------------------------------------

    @property
    def is_answering(self) -> bool:
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    @property
    def _has_request(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    @property
    def is_spare(self) -> bool:
        return not self._has_request and self.loop.time() - self._idle_since > SPARE_AFTER

    @property
    def descriptor(self) -> int:
        bound = self.transport.get_extra_info("socket")
        return -1 if bound is None else int(bound.fileno())

    def drop(self) -> None:
        self.transport.abort()

    def authenticated(self, owner: str) -> None:
        self._table.authenticated(self, owner)
        self._read_at_once(_BY_USERS)

    # -- callbacks of uvicorn -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = "" if self.client is None else self.client[0].removeprefix("::ffff:")
        if not self._table.admit(self):
            transport.abort()
            return
        self._set_deadline(_HEAD, self.limits.head_seconds, self._head_is_late)
        self._read_at_once(_BY_STRANGERS)
        if self._table.is_crowded(self.address):
            self.loop.call_later(GRACE, self._table.trim, self.address)

    def _read_at_once(self, most: int) -> None:
        """Limit the size of a read, so that many unauthenticated senders do not keep the event loop busy."""
        transport: Any = self.transport
        if hasattr(transport, "max_size"):  # only transports of asyncio's own event loop
            transport.max_size = most

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.discard(self)
        self._lift_deadline(_HEAD)
        self._lift_deadline(_READING)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        super().data_received(data)
        if not self._has_request and _HEAD not in self._deadlines:
            self._set_deadline(_HEAD, self.limits.head_seconds, self._head_is_late)

    def handle_events(self) -> None:
        super().handle_events()
        if self._has_request:
            self._lift_deadline(_HEAD)

    def on_response_complete(self) -> None:
        self._heard, self._answered = False, True
        self._idle_since = self.loop.time()
        if self.owner is None or self.conn.their_state is not h11.DONE or self.conn.trailing_data[0]:
            self._set_deadline(_HEAD, self.limits.head_seconds, self._head_is_late)
        super().on_response_complete()
        if self.owner is None and self._has_much_to_come():
            # so that a long unauthenticated body costs nothing, and the response has time to arrive
            self.flow.pause_reading()
            self.cycle.body = bytearray()
            self.loop.call_later(LINGER, self.drop)

    def _has_much_to_come(self) -> bool:
        """Return whether the request was answered while much of its body may still arrive."""
        if self.conn.their_state is not h11.SEND_BODY:
            return False
        length = dict(self.headers).get(b"content-length", b"")
        return not length.isdigit() or len(length) > 15 or int(length) > _LITTLE

    def pause_writing(self) -> None:
        super().pause_writing()
        self._set_deadline(_READING, self.limits.body_seconds, self.drop)

    def resume_writing(self) -> None:
        self._lift_deadline(_READING)
        super().resume_writing()

    # -- deadlines ------------------------------------------------------------------------------------------------

    def _set_deadline(self, name: str, seconds: float, late: Callable[[], None]) -> None:
        self._lift_deadline(name)
        self._deadlines[name] = self.loop.call_later(seconds, late)

    def _lift_deadline(self, name: str) -> None:
        timer = self._deadlines.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _head_is_late(self) -> None:
        """Close the connection. Only a first request gets a 408, because later data may be the rest of an unread
        body."""
        if self._heard and not self._answered and not self.transport.is_closing():
            self.transport.write(_TOO_SLOW)
            if not self.transport.get_write_buffer_size():
                self.transport.close()
                return
        self.drop()
