"""How a program is told where Duetime's tools are: in the form that most agents share. A token stands in files that
only their owner reads, or in an environment, never among arguments, which everybody on a machine can see."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from duetime.core.waking import Access

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
