"""How an agent of ours reaches Duetime's tools: over MCP, as any other agent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duetime.kinds.prompts.agent import Access

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


# How a program is told where Duetime's tools are: in the form that most agents share. A token stands in files that
# only their owner reads, or in an environment, never among arguments, which everybody on a machine can see.

SERVER = "duetime"
MCP_CONFIG = "mcp.json"
TOKEN_VARIABLE = "DUETIME_TOKEN"  # noqa: S105 - the name of a variable
"""For programs that take the name of a variable instead of the token."""


def headers(access: Access) -> dict[str, str]:
    return {"Authorization": f"Bearer {access.token}"}


def common(access: Access) -> dict[str, Any]:
    """`{"mcpServers": …}`, as Claude Code, Cursor, VS Code and many more read it."""
    if access.url is not None:
        server: dict[str, Any] = {"type": "http", "url": access.url, "headers": headers(access)}
    else:
        program, *arguments = access.command
        server = {"type": "stdio", "command": program, "args": arguments, "env": dict(access.env)}
    return {"mcpServers": {SERVER: server}}


def write_private(path: Path, document: Any) -> str:
    """JSON, or a text as it is, in a new file that nobody else can read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = document if isinstance(document, str) else json.dumps(document)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    return str(path)
