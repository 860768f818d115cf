"""An owner who sends one body again and again on several connections, in a process of its own, so that it takes
nothing from what is measured beside it: `python -m scorecard.body_child PORT CONNECTIONS SECONDS < REQUEST` sends the
request, which is whole, and prints how many were answered, by status."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter


async def send_all(port: int, connections: int, seconds: float, request: bytes) -> Counter[str]:
    answered: Counter[str] = Counter()
    until = time.monotonic() + seconds
    await asyncio.gather(*(_send(port, until, request, answered) for _ in range(connections)))
    return answered


async def _send(port: int, until: float, request: bytes, answered: Counter[str]) -> None:
    while time.monotonic() < until:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            answered["refused"] += 1
            continue
        try:
            while time.monotonic() < until:
                writer.write(request)
                answered[await asyncio.wait_for(_status(reader, writer), 30)] += 1
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            answered["closed"] += 1
        finally:
            writer.transport.abort()


async def _status(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    """Read one answer, and return its status; meanwhile, the rest of the request is sent."""
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(": ", 1) for line in head.decode("latin-1").split("\r\n")[1:] if ": " in line)
    if "content-length" in fields:
        await reader.readexactly(int(fields["content-length"]))
    else:
        while (size := int(await reader.readline(), 16)) > 0:
            await reader.readexactly(size + 2)
        await reader.readline()
    await writer.drain()
    return head.split(b" ", 2)[1].decode()


if __name__ == "__main__":
    whole = sys.stdin.buffer.read()
    print(json.dumps(asyncio.run(send_all(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), whole))))
