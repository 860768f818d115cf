"""Clients without a token, from many addresses: idle, slow, huge and malformed. Users must not notice them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from scorecard.line import Result, Scale, Tell
from scorecard.serving import Client, Server, percentile, serving

SLOWEST_MS = 500
MORE_MEMORY = 100 * 1024 * 1024
ADDRESSES = [f"127.0.0.{number}" for number in range(2, 201)]
AT_ONCE = 1200
"""Connections that the strangers hold open at a time: more than the server accepts in all."""
HELD = 3.0
"""Seconds that an idle or slow stranger stays, unless the server ends the connection."""
MALFORMED = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(64)),
    b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
    b"\x00" * 2048,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
]

Stranger = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _idle(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await asyncio.wait_for(reader.read(1024), HELD)


async def _slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for piece in (b"GET / HT", b"TP/1.1\r\nHo", b"st: 127.0.0.1\r\nX-A", b": b"):
        writer.write(piece)
        await writer.drain()
        with contextlib.suppress(TimeoutError):
            if await asyncio.wait_for(reader.read(1024), HELD / 4) == b"":
                return


async def _huge(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    path = random.choice([b"/login", b"/healthz", b"/mcp", b"/api/v1/schedules", b"/v2/batch"])
    writer.write(b"POST " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 8388608\r\n\r\n")
    for _ in range(64):
        writer.write(b"x" * 65_536)
        await asyncio.wait_for(writer.drain(), HELD)
    await asyncio.wait_for(reader.read(1024), HELD)


async def _malformed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(random.choice(MALFORMED))
    await writer.drain()
    await asyncio.wait_for(reader.read(1024), HELD)


SORTS: tuple[Stranger, ...] = (_idle, _slow, _huge, _malformed)


def measure(scale: Scale, tell: Tell) -> Result:
    count = scale.of(5000, 150)
    with serving() as server:
        user = User(server)
        user.warm_up()
        before = server.memory
        user.start()
        told = asyncio.run(_all(server.port, count, tell))
        user.stop()
        grown, alive = server.memory - before, server.alive
    return _judged(count, user, told, grown, alive=alive)


class User:
    """Somebody with a token, from another address, who asks all the time."""

    def __init__(self, server: Server) -> None:
        self._client: Client = server.client("alice")
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.seconds: list[float] = []
        self.failures: list[str] = []

    def warm_up(self) -> None:
        for _ in range(5):
            self._client.got("/schedules?limit=10")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        self._thread.join(60)

    def _ask(self) -> None:
        for number in itertools.count():
            began = time.perf_counter()
            try:
                if number % 10 == 9:
                    self._client.close()  # new connections have to be accepted as well
                self._client.got("/schedules?limit=10")
                self.seconds.append(time.perf_counter() - began)
            except (OSError, RuntimeError) as error:
                self.failures.append(f"a user's request failed after {time.perf_counter() - began:.2f} s: {error!r}")
            if self._done.wait(0.05):
                return


async def _all(port: int, count: int, tell: Tell) -> Counter[str]:
    told: Counter[str] = Counter()
    places = asyncio.Semaphore(min(AT_ONCE, count))

    async def one(number: int) -> None:
        async with places:
            told[await _visit(port, number)] += 1
            tell(f"{told.total():,} of {count:,} connections")

    await asyncio.gather(*(one(number) for number in range(count)))
    return told


async def _visit(port: int, number: int) -> str:
    address = ADDRESSES[number % len(ADDRESSES)]
    try:
        opening = asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        reader, writer = await asyncio.wait_for(opening, 10)
    except (OSError, TimeoutError):
        return "refused"
    try:
        await SORTS[number % len(SORTS)](reader, writer)
        return "answered or closed"
    except TimeoutError:
        return "held"
    except OSError:
        return "closed"
    finally:
        writer.transport.abort()


def _judged(count: int, user: User, told: Counter[str], grown: int, *, alive: bool) -> Result:
    p99 = percentile(user.seconds, 0.99) * 1000
    failures = list(user.failures)
    if p99 > SLOWEST_MS:
        failures.append(f"users waited {p99:.0f} ms (p99)")
    if grown > MORE_MEMORY:
        failures.append(f"the process grew by {grown / 1e6:.0f} MB")
    if not alive:
        failures.append("the process ended")
    measured = f"users: p99 {p99:.0f} ms of {len(user.seconds)} requests; memory {grown / 1e6:+.0f} MB; {dict(told)}"
    return Result({"connections": count}, measured, tuple(failures))
