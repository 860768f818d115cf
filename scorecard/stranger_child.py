"""Strangers in a process of their own, so that they take nothing from the user who measures beside them:
`python -m scorecard.stranger_child PORT COUNT SECONDS` says how many were there, and at last what became of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable

ADDRESSES = [f"127.0.0.{number}" for number in range(2, 201)]
AT_ONCE = 1200
"""Connections that the strangers hold open at a time: more than the server accepts in all."""
SAID_EVERY = 100
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

Stranger = Callable[[asyncio.StreamReader, asyncio.StreamWriter, float], Awaitable[None]]
"""What one does with its connection; an idle or slow one stays so many seconds, unless the server ends it."""


async def _idle(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter, held: float) -> None:
    await asyncio.wait_for(reader.read(1024), held)


async def _slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: float) -> None:
    for piece in (b"GET / HT", b"TP/1.1\r\nHo", b"st: 127.0.0.1\r\nX-A", b": b"):
        writer.write(piece)
        await writer.drain()
        with contextlib.suppress(TimeoutError):
            if await asyncio.wait_for(reader.read(1024), held / 4) == b"":
                return


async def _huge(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: float) -> None:
    path = random.choice([b"/login", b"/healthz", b"/mcp", b"/api/v1/schedules", b"/v2/batch"])
    writer.write(b"POST " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 8388608\r\n\r\n")
    for _ in range(64):
        writer.write(b"x" * 65_536)
        await asyncio.wait_for(writer.drain(), held)
    await asyncio.wait_for(reader.read(1024), held)


async def _malformed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: float) -> None:
    writer.write(random.choice(MALFORMED))
    await writer.drain()
    await asyncio.wait_for(reader.read(1024), held)


SORTS: tuple[Stranger, ...] = (_idle, _slow, _huge, _malformed)


async def visit_all(port: int, count: int, held: float) -> Counter[str]:
    told: Counter[str] = Counter()
    places = asyncio.Semaphore(min(AT_ONCE, count))

    async def one(number: int) -> None:
        async with places:
            told[await _visit(port, number, held)] += 1
            if told.total() % SAID_EVERY == 0:
                print(told.total(), flush=True)

    await asyncio.gather(*(one(number) for number in range(count)))
    return told


async def _visit(port: int, number: int, held: float) -> str:
    address = ADDRESSES[number % len(ADDRESSES)]
    try:
        opening = asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        reader, writer = await asyncio.wait_for(opening, 10)
    except (OSError, TimeoutError):
        return "refused"
    try:
        await SORTS[number % len(SORTS)](reader, writer, held)
        return "answered or closed"
    except TimeoutError:
        return "held"
    except OSError:
        return "closed"
    finally:
        writer.transport.abort()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(visit_all(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))), flush=True)
