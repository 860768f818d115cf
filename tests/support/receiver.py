"""A real HTTP/1.1 server on this machine that records what it is sent and answers, or misbehaves, as told.

    with Receiver() as receiver:                             # answers 200 to everything
        post(receiver.url + "/topic")
        [request] = receiver.wait_for(1)                     # what arrived, oldest first; fails after 10 s
        request.method, request.path, request.query, request.headers["title"], request.body, request.at

    with Receiver(lambda request: Behaviour(503) if request.nth == 1 else Behaviour()) as receiver: ...

`behave(request) -> Behaviour` is called on the server's thread, once for each request, and must not block. It may be
replaced at any time: `receiver.behave = …`.

    Behaviour(429, {"Retry-After": "3"}, b"slow down")       # status, headers, body
    Behaviour(delay=0.5)                                     # answers late
    Behaviour(body=b"x" * 100, drip=0.05)                    # the body comes byte by byte, 0.05 s apart
    Behaviour(drip=0.05, drip_head=True)                     # so do the status line and the headers
    Behaviour(fault=Fault.SILENCE)                           # takes the request and never answers
    Behaviour(fault=Fault.CLOSE)                             # takes it and closes without an answer: a lost receipt
    Behaviour(fault=Fault.RESET)                             # takes it and resets the connection
    Behaviour(raw=b"nonsense\\r\\n")                           # these bytes instead of an answer, then closes
    Behaviour(hang_up=True)                                  # closes after its answer without having announced it
    receiver.turn_away = True                                # resets new connections before it reads anything

`receiver.connections` counts what was accepted; `request.connection` and `request.nth` say on which of them, and as
which request on it, one came. `Receiver(tls=context)` speaks TLS, with `receiver.url` as https.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import parse_qsl

from duetime.engine.clock import Instant, SystemClock

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_CLOCK = SystemClock()


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    """As sent: path and query."""
    head: bytes = field(repr=False)
    body: bytes
    at: Instant
    """When its last byte had arrived."""
    connection: int
    """1 for the first connection that was accepted."""
    nth: int
    """1 for the first request on that connection."""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self.target.partition("?")[2], keep_blank_values=True))

    @cached_property
    def headers(self) -> dict[str, str]:
        """The headers, with names in lower case. They are parsed only when needed, because a benchmark never looks at
        most of them."""
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        pairs = (line.partition(":") for line in lines)
        return {name.lower(): value.strip() for name, _, value in pairs}


class Fault(Enum):
    SILENCE = "silence"
    CLOSE = "close"
    RESET = "reset"


@dataclass(frozen=True)
class Behaviour:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay: float = 0.0
    drip: float = 0.0
    drip_head: bool = False
    fault: Fault | None = None
    raw: bytes | None = None
    hang_up: bool = False

    @cached_property
    def head(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} -", f"Content-Length: {len(self.body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


OK = Behaviour()
Behave = Callable[[Request], Behaviour]


class Receiver:
    def __init__(self, behave: Behave = lambda request: OK, *, tls: ssl.SSLContext | None = None) -> None:
        self.behave = behave
        self.turn_away = False
        self.connections = 0
        self.requests: list[Request] = []
        self.port = 0
        self._tls = tls
        self._arrived = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._open: set[_Connection] = set()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="receiver", daemon=True)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self.host}"

    def wait_for(self, count: int, timeout: float = 30.0) -> list[Request]:
        """Return the requests so far, as soon as there are this many."""
        with self._arrived:
            enough = self._arrived.wait_for(lambda: len(self.requests) >= count, timeout)
            assert enough, f"{len(self.requests)} of {count} requests arrived within {timeout} s"
            return list(self.requests)

    def drop_connections(self) -> None:
        """Close every open connection, as a restarting server does; return when that is done."""
        asyncio.run_coroutine_threadsafe(self._drop(), self._loop).result(30)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listening.wait(30), "the receiver did not start"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)

    def _serve(self) -> None:
        loop = self._loop
        server = loop.run_until_complete(
            loop.create_server(lambda: _Connection(self), "127.0.0.1", 0, ssl=self._tls, backlog=1024)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        loop.run_forever()
        server.close()
        loop.run_until_complete(self._drop())
        loop.close()

    async def _drop(self) -> None:
        dropped = list(self._open)
        for connection in dropped:
            connection.transport.abort()
        for connection in dropped:
            await connection.gone.wait()

    def accepted(self, connection: _Connection) -> int:
        self._open.add(connection)
        self.connections += 1
        return self.connections

    def lost(self, connection: _Connection) -> None:
        self._open.discard(connection)

    def took(self, request: Request) -> Behaviour:
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        return self.behave(request)


class _Connection(asyncio.Protocol):
    """Reads one request at a time, with as little work as possible for benchmarks."""

    transport: asyncio.Transport

    def __init__(self, receiver: Receiver) -> None:
        self.gone = asyncio.Event()
        self._receiver = receiver
        self._number = 0
        self._taken = 0
        self._pending = bytearray()
        self._answering = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._number = self._receiver.accepted(self)
        if self._receiver.turn_away:
            self._reset()

    def connection_lost(self, error: Exception | None) -> None:
        self._receiver.lost(self)
        self.gone.set()

    def data_received(self, data: bytes) -> None:
        self._pending += data
        if not self._answering:
            self._read_next()

    def _read_next(self) -> None:
        end = self._pending.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._pending[:end])
        if _CHUNKED.search(head):
            self._answer_raw(b"HTTP/1.1 411 send a Content-Length\r\nContent-Length: 0\r\n\r\n")
            return
        length = _LENGTH.search(head)
        whole = end + 4 + (int(length[1]) if length else 0)
        if len(self._pending) < whole:
            return
        body = bytes(self._pending[end + 4 : whole])
        del self._pending[:whole]
        self._taken += 1
        method, target, _ = head[: head.find(b"\r\n")].decode("latin-1").split(" ", 2)
        request = Request(method, target, head, body, _CLOCK.now(), self._number, self._taken)
        self._answer(self._receiver.took(request))

    def _answer(self, behaviour: Behaviour) -> None:
        self._answering = True
        if behaviour.delay:
            asyncio.get_running_loop().call_later(behaviour.delay, self._begin, behaviour)
        else:
            self._begin(behaviour)

    def _begin(self, behaviour: Behaviour) -> None:
        if behaviour.fault is not None:
            self._misbehave(behaviour.fault)
        elif behaviour.raw is not None:
            self._answer_raw(behaviour.raw)
        elif behaviour.drip:
            self._begin_drip(behaviour)
        else:
            self.transport.write(behaviour.head + behaviour.body)
            self._finish(behaviour)

    def _misbehave(self, fault: Fault) -> None:
        match fault:
            case Fault.SILENCE:
                pass
            case Fault.CLOSE:
                self.transport.close()
            case Fault.RESET:
                self._reset()

    def _begin_drip(self, behaviour: Behaviour) -> None:
        answer = behaviour.head + behaviour.body
        at_once = 0 if behaviour.drip_head else len(behaviour.head)
        self.transport.write(answer[:at_once])
        self._drip(behaviour, answer, at_once)

    def _drip(self, behaviour: Behaviour, answer: bytes, position: int) -> None:
        if self.gone.is_set():
            return
        if position == len(answer):
            self._finish(behaviour)
            return
        self.transport.write(answer[position : position + 1])
        asyncio.get_running_loop().call_later(behaviour.drip, self._drip, behaviour, answer, position + 1)

    def _finish(self, behaviour: Behaviour) -> None:
        if behaviour.hang_up or behaviour.headers.get("Connection") == "close":
            self.transport.close()
            return
        self._answering = False
        if self._pending:
            self._read_next()

    def _answer_raw(self, answer: bytes) -> None:
        self.transport.write(answer)
        self.transport.close()

    def _reset(self) -> None:
        handle: Any = self.transport.get_extra_info("socket")
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.transport.abort()
