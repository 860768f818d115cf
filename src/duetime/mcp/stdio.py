"""MCP over stdin and stdout; nothing but protocol messages is written to stdout."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import select
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
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
    lines = _Lines(wire.read)
    streams: Any = stdio_server(lines, _Output(wire.write))  # type: ignore[arg-type]  # it iterates, writes and flushes
    async with streams as (read, write), server.watcher.running():
        answering: Any = _Answering(read, write, lines)
        await server.sdk.run(answering, write, server.sdk.create_initialization_options())


WAITING = 100
"""Number of lines that are read before the first of them is handled."""


class _Lines:
    """Iterates over the input lines and keeps the latest. One thread reads them all: handing every line to another
    thread and back, as AnyIO's files do, would be a significant part of the cost of a short call."""

    def __init__(self, file: io.TextIOWrapper) -> None:
        self._file = file
        self._room = threading.Semaphore(WAITING)
        self._read: asyncio.Queue[str] = asyncio.Queue()
        self.latest = ""

    async def __aiter__(self) -> AsyncIterator[str]:
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read_all, args=(loop,), name="duetime-stdin", daemon=True).start()
        while line := await self._read.get():
            self._room.release()
            if not line.isspace():
                self.latest = line
                yield line

    def _read_all(self, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(RuntimeError):  # the event loop was closed while this waited for input
            with suppress(OSError, ValueError):
                while line := self._file.readline():
                    self._room.acquire()
                    loop.call_soon_threadsafe(self._read.put_nowait, line)
            loop.call_soon_threadsafe(self._read.put_nowait, "")  # the end


class _Output:
    """Writes messages. A short message is written at once if the client's end of the pipe accepts it without
    waiting."""

    def __init__(self, file: io.TextIOWrapper) -> None:
        self._file = file
        self._pending = ""
        # unlike `select`, this has no limit on descriptor numbers
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(file.fileno(), select.POLLOUT)
            self._ready = [(file.fileno(), select.POLLOUT)]

    async def write(self, text: str) -> None:
        self._pending += text

    async def flush(self) -> None:
        text, self._pending = self._pending, ""
        data = text.encode()
        if self._poll is not None and len(data) <= select.PIPE_BUF and self._poll.poll(0) == self._ready:
            # written completely: a pipe that is ready accepts at least this many bytes
            os.write(self._file.fileno(), data)
        else:
            await anyio.to_thread.run_sync(self._write, text)

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()


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
    id = _FIRST.search(line[:300]) or _LAST.search(line[-300:])
    return types.JSONRPCError(jsonrpc="2.0", id=None if id is None else json.loads(id[1]), error=error)
