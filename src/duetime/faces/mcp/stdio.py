"""MCP over stdin and stdout: a thin front that never writes anything but protocol to stdout."""

from __future__ import annotations

import anyio
from mcp.server.stdio import stdio_server

from duetime.faces.mcp.server import McpFace
from duetime.faces.mcp.watching import Watcher
from duetime.faces.mcp.wire import Wire


def serve_stdio(face: McpFace, watcher: Watcher, wire: Wire) -> None:
    """Returns when the client closes its side."""
    anyio.run(_serve, face, watcher, wire)


async def _serve(face: McpFace, watcher: Watcher, wire: Wire) -> None:
    streams = stdio_server(anyio.wrap_file(wire.read), anyio.wrap_file(wire.write))
    async with streams as (read, write), watcher.running():
        await face.server.run(read, write, face.server.create_initialization_options())
