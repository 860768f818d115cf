"""How an agent of ours reaches Duetime's tools: over MCP, as any other agent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duetime.core.waking import Access

if TYPE_CHECKING:
    from pydantic_ai.mcp import MCPToolset

CONNECT = 30.0
"""Seconds: over stdio a whole interpreter has to start, maybe beside many others."""


def toolbox(access: Access) -> MCPToolset[Any]:
    """A tool that refuses is an answer for the model to read, never the end of the run."""
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai.mcp import MCPToolset

    if access.url is not None:
        headers = {"Authorization": f"Bearer {access.token}"} if access.token else {}
        return MCPToolset(access.url, id="duetime", headers=headers, tool_error_behavior="failed", init_timeout=CONNECT)
    program, *arguments = access.command
    # The server is Duetime itself: it needs to find the same settings, secret and store as this process.
    env = {**os.environ, **access.env}
    transport = StdioTransport(program, arguments, env=env, keep_alive=False, log_file=Path(os.devnull))
    return MCPToolset(transport, id="duetime", tool_error_behavior="failed", init_timeout=CONNECT)
