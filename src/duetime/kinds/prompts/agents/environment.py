"""An agent's environment: the variables that a program may see, and the connection to Duetime's tools."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duetime.kinds.prompts.agent import Access

if TYPE_CHECKING:
    from pydantic_ai.mcp import MCPToolset


ALWAYS = ("PATH", "HOME", "LANG", "USER")
_ALWAYS_BY_PREFIX = ("LC_", "SSL_CERT_")


def visible(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the allowed variables; the operator has to name those that are not known to be harmless."""
    allowed = {*ALWAYS, *names}
    env = {name: value for name, value in environment.items() if name in allowed or name.startswith(_ALWAYS_BY_PREFIX)}
    return {**env, "TERM": "dumb", "NO_COLOR": "1"}


CONNECT = 30.0
"""Seconds to connect: over stdio a whole interpreter has to start, maybe beside many others."""


def mcp_toolset(access: Access, name: str = "duetime") -> MCPToolset[Any]:
    """Return the tools. A tool's refusal is an answer for the model to read, never the end of the run."""
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai.mcp import MCPToolset

    if access.url is not None:
        headers = {"Authorization": f"Bearer {access.token}"} if access.token else {}
        return MCPToolset(access.url, id=name, headers=headers, tool_error_behavior="failed", init_timeout=CONNECT)
    program, *arguments = access.command
    # The server is Duetime itself: it needs to find the same settings, secret and store as this process.
    env = {**os.environ, **access.env}
    transport = StdioTransport(program, arguments, env=env, keep_alive=False, log_file=Path(os.devnull))
    return MCPToolset(transport, id=name, tool_error_behavior="failed", init_timeout=CONNECT)


# MCP configuration for programs, in the form that most agents share. A token is put into private files or into the
# environment, never into arguments, which everybody on a machine can see.

SERVER = "duetime"
TOOLS = "tools"
"""Name of the gateway, the server for everything that an agent may use besides Duetime's tools."""
MCP_CONFIG = "mcp.json"
TOKEN_VARIABLE = "DUETIME_TOKEN"  # noqa: S105 - the name of a variable
"""For programs that take the name of a variable instead of the token."""


def headers(access: Access) -> dict[str, str]:
    return {"Authorization": f"Bearer {access.token}"}


def standard_config(servers: Mapping[str, Access]) -> dict[str, Any]:
    """Return `{"mcpServers": …}`, as Claude Code, Cursor, VS Code and many more read it."""
    configured = {
        name: {"type": "stdio" if access.url is None else "http", **server_config(access)}
        for name, access in servers.items()
    }
    return {"mcpServers": configured}


def server_config(access: Access, **names: str) -> dict[str, Any]:
    """Return the server. `names` are the keys of a program that has its own for `url`, `command`, `args` or `env`."""
    if access.url is not None:
        server: dict[str, Any] = {"url": access.url, "headers": headers(access)}
    else:
        program, *arguments = access.command
        server = {"command": program, "args": arguments, "env": dict(access.env)}
    return {names.get(name, name): value for name, value in server.items()}


def write_private(path: Path, document: Any) -> str:
    """Write JSON, or a text as it is, to a new file that nobody else can read; return its path."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = document if isinstance(document, str) else json.dumps(document)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    return str(path)
