"""MCP over stdin and stdout; nothing but protocol messages is written to stdout."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import anyio
import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from duetime.mcp.server import McpServer

# -- stdin and stdout reserved for the protocol from the start of the process ----------------------------------------


class Wire(NamedTuple):
    read: io.TextIOWrapper
    write: io.TextIOWrapper


def claim() -> Wire:
    """Take over stdin and stdout: from now on, print() writes to stderr and other readers of stdin find it empty."""
    read = io.TextIOWrapper(os.fdopen(os.dup(0), "rb"), encoding="utf-8", errors="replace")
    write = io.TextIOWrapper(os.fdopen(os.dup(1), "wb"), encoding="utf-8", newline="\n")
    _point(0, os.O_RDONLY)
    try:
        os.dup2(2, 1)
        sys.stdout = sys.stderr
    except OSError:  # stderr is closed, so discard the output
        _point(1, os.O_WRONLY)
    return Wire(read, write)


def _point(descriptor: int, mode: int) -> None:
    nowhere = os.open(os.devnull, mode)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


UNREADABLE = (
    "This message cannot be read: it is no JSON-RPC, nests too deep, or holds lone surrogates. Nothing was done."
)
# Clients write the id at the beginning or the end of a message; the part in between may be unreadable.
_FIRST = re.compile(r'\A\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18}|"[\w-]{1,100}")\s*,')
_LAST = re.compile(r',\s*"id"\s*:\s*(\d{1,18}|"[\w-]{1,100}")\s*\}\s*\Z')


def serve_stdio(server: McpServer, wire: Wire) -> None:
    """Serve until the client closes its side."""
    anyio.run(_serve, server, wire)


async def _serve(server: McpServer, wire: Wire) -> None:
    lines = _Lines(anyio.wrap_file(wire.read))
    streams = stdio_server(lines, anyio.wrap_file(wire.write))  # type: ignore[arg-type]  # it only iterates over it
    async with streams as (read, write), server.watcher.running():
        answering: Any = _Answering(read, write, lines)
        await server.sdk.run(answering, write, server.sdk.create_initialization_options())


class _Lines:
    """Iterates over the input lines and remembers the latest."""

    def __init__(self, file: anyio.AsyncFile[str]) -> None:
        self._file = file
        self.latest = ""

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self._file:
            if not line.isspace():
                self.latest = line
                yield line


class _Answering:
    """Input that answers unreadable lines with an error; the SDK skips them, and the client would wait forever."""

    def __init__(self, read: Any, write: Any, lines: _Lines) -> None:
        self._read, self._write, self._lines = read, write, lines

    def __getattr__(self, name: str) -> Any:
        return getattr(self._read, name)

    def __aiter__(self) -> _Answering:
        return self

    async def __anext__(self) -> Any:
        while isinstance(item := await anext(self._read), Exception):
            await self._write.send(SessionMessage(_unreadable(self._lines.latest)))
        return item

    async def receive(self) -> Any:
        try:
            return await anext(self)
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def __aenter__(self) -> _Answering:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._read.aclose()


def _unreadable(line: str) -> types.JSONRPCError:
    error = types.ErrorData(code=types.PARSE_ERROR, message=UNREADABLE)
    found = _FIRST.search(line[:300]) or _LAST.search(line[-300:])
    return types.JSONRPCError(jsonrpc="2.0", id=None if found is None else json.loads(found[1]), error=error)
