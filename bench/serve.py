"""`duetime serve` with many clients that create, list and cancel over HTTP, beside another checkout if one is given."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.lines import Goal, Line
from bench.processes import ROOT
from bench.sides import Bench, Side
from scorecard.serving import serving

CLIENTS = 50
GOAL = Goal(2, 4)
NEW = {
    "kind": "job",
    "name": "bench",
    "trigger": {"type": "once", "run_at": "2100-01-01T00:00:00Z"},
    "payload": {"task": "noop", "args": [], "kwargs": {}},
}


# -- in the process that measures ------------------------------------------------------------------------------------


def measure_serve(url: str, seconds: int, sources: str) -> dict[str, Any]:
    """Return the requests a second that a server answers to clients in another process, one owner each."""
    with serving("", "--db", url, env={"PYTHONPATH": sources}) as server:
        tokens = [server.token(f"client {number}") for number in range(CLIENTS)]
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            answered, took = pool.apply(_ask_for, (server.port, tokens, seconds))
        assert server.alive, server.log
    return {"rate": answered / took}


def _ask_for(port: int, tokens: list[str], seconds: int) -> tuple[int, float]:
    return asyncio.run(_clients(port, tokens, seconds))


async def _clients(port: int, tokens: list[str], seconds: int) -> tuple[int, float]:
    clients = [await Client.connect(port, token) for token in tokens]
    await asyncio.gather(*(client.cycle() for client in clients))  # every owner and connection is known
    began = time.monotonic()
    counts = await asyncio.gather(*(client.work(began + seconds) for client in clients))
    took = time.monotonic() - began
    for client in clients:
        client.close()
    return sum(counts), took


class Client:
    """A connection that is kept open; written by hand, so that it costs little beside the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        self._reader, self._writer, self._head = reader, writer, head

    @classmethod
    async def connect(cls, port: int, token: str) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        return cls(reader, writer, f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n")

    async def ask(self, method: str, path: str, body: object = None) -> bytes:
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} /api/v1{path} HTTP/1.1\r\n{self._head}Content-Length: {len(data)}\r\n"
        if data:
            head += "Content-Type: application/json\r\n"
        self._writer.write(f"{head}\r\n".encode() + data)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(answer.partition("content-length:")[2].partition("\r\n")[0] or 0)
        content = await self._reader.readexactly(length)
        if not answer.startswith("http/1.1 2"):
            raise RuntimeError(f"{method} {path}: {answer[:30]!r} {content[:200]!r}")
        return content

    async def cycle(self) -> int:
        """Create a schedule, list the first page, and cancel the schedule. Return the number of requests."""
        made = json.loads(await self.ask("POST", "/schedules", NEW))
        await self.ask("GET", "/schedules?limit=20")
        await self.ask("POST", f"/schedules/{made['id']}/cancel")
        return 3

    async def work(self, deadline: float) -> int:
        answered = 0
        while time.monotonic() < deadline:
            answered += await self.cycle()
        return answered

    def close(self) -> None:
        self._writer.close()


# -- the workload ----------------------------------------------------------------------------------------------------


def serve(bench: Bench, store: str) -> Iterator[Line]:
    """Requests a second that one server answers to fifty clients."""
    sides = [_side(bench, store, "Duetime", ROOT)]
    if bench.other is not None:
        sides.append(_side(bench, store, f"Duetime of {bench.other.name}", bench.other))
    bench.measure(f"serve on {store}", sides)
    beside = sides[1].figure() if len(sides) == 2 else None
    yield Line("serve, 50 clients", store, "requests/s", sides[0].figure(), beside, GOAL if beside else None)


def _side(bench: Bench, store: str, name: str, checkout: Path) -> Side:
    sources = str(checkout.resolve() / "src")
    return bench.duetime("serve", store, name=name, seconds=bench.sizes.serve_seconds, sources=sources)
