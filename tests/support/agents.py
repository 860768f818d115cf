"""Real MCP clients from the SDK, over HTTP and stdio, in both protocol versions."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any, NamedTuple

import anyio
import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.support.cli import Output, environment, start

ERAS = ("legacy", "2026-07-28")
"""With the handshake of 2025-11-25, and without."""

Talk = Callable[[Client], Awaitable[None]]


class Served(NamedTuple):
    process: Popen[str]
    output: Output
    url: str
    folder: Path

    @property
    def token(self) -> str:
        return (self.folder / "data" / "duetime" / "auth" / "local.token").read_text().strip()


@contextmanager
def serving(folder: Path, *more: str, env: Mapping[str, str] | None = None) -> Iterator[Served]:
    """Start `duetime serve` on a free port, and yield once it is serving."""
    with start("serve", "--port", "0", "--db", "my.db", *more, folder=folder, env=env) as process:
        try:
            output = Output(process)
            line = output.until(lambda line: line.startswith("Serving MCP at "))
            yield Served(process, output, line.split()[3].rstrip(","), folder)
        finally:
            if process.poll() is None:
                process.kill()


@asynccontextmanager
async def over_http(url: str, token: str | None, era: str) -> AsyncIterator[Client]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=era, read_timeout_seconds=30) as client,
    ):
        yield client


@asynccontextmanager
async def over_stdio(folder: Path, era: str, *more: str, **variables: str) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "duetime", "mcp", "--db", "my.db", *more],
        env=environment() | {"XDG_DATA_HOME": str(folder / "data")} | variables,
        cwd=folder,
    )
    async with Client(parameters, mode=era, read_timeout_seconds=30) as client:
        yield client


def talk(connection: Any, say: Talk) -> None:
    """Run one conversation from a synchronous test."""

    async def whole() -> None:
        with anyio.fail_after(60):
            async with connection as client:
                await say(client)

    anyio.run(whole)


def cut_off(connection: Any, say: Talk) -> None:
    """Run a conversation that ends the server; how its client reacts does not matter."""
    said = []

    async def whole(client: Client) -> None:
        await say(client)
        said.append(True)

    try:
        talk(connection, whole)
    except (Exception, BaseExceptionGroup):
        assert said, "it was cut off too early"


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    structured: dict[str, Any] = json.loads(json.dumps(result.structured_content))
    return structured


async def until(ask: Callable[[], Awaitable[bool]], seconds: float, what: str) -> None:
    """Ask again until another process has done it."""
    with anyio.move_on_after(seconds):
        while not await ask():
            await anyio.sleep(0.05)
        return
    raise AssertionError(f"not within {seconds:g} s: {what}")
