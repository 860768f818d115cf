"""Configuration to paste into each MCP client. HTTP uses the local token; stdio needs none."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from duetime.engine.errors import InvalidInput

NAME = "duetime"
MCP_REMOTE = "mcp-remote@0.15.1"
"""Pinned to a version that was reviewed: it receives the token, and unpinned each start could fetch another one."""
ALL = "all"
"""Selects every client."""


class Reach(NamedTuple):
    """How a client connects to this server."""

    url: str
    token: str | None
    command: Sequence[str]
    """Command that a client starts for stdio. It is absolute, because a desktop application has its own PATH."""
    header: Sequence[str] = ()
    """Command that prints the header with the token, for a client that gets it from a program."""

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}


class Client(NamedTuple):
    title: str
    where: str
    http: Callable[[Reach], str]
    stdio: Callable[[Reach], str]


def _servers(key: str, entry: dict[str, Any], *, wide: bool) -> str:
    return json.dumps({key: {NAME: entry}}, indent=2 if wide else None)


def _started(reach: Reach) -> dict[str, Any]:
    return {"command": reach.command[0], "args": list(reach.command[1:])}


def _in_json(
    title: str,
    where: str,
    key: str,
    http: Callable[[str], dict[str, Any]],
    stdio: Callable[[Reach], dict[str, Any]] = _started,
) -> Client:
    """Describe a client whose servers stand in a JSON file below `key`, with their headers."""

    def over_http(reach: Reach) -> str:
        headers = {"headers": reach.headers} if reach.headers else {}
        return _servers(key, http(reach.url) | headers, wide=True)

    return Client(title, where, over_http, lambda reach: _servers(key, stdio(reach), wide=False))


def _claude_code(reach: Reach) -> str:
    """Return a command without the token, because shells keep a history: Claude Code runs a helper that prints the
    header whenever it connects."""
    entry = {"type": "http", "url": reach.url}
    if reach.token is not None:
        entry["headersHelper"] = shlex.join(reach.header)
    return shlex.join(["claude", "mcp", "add-json", NAME, json.dumps(entry)])


def _claude_desktop(reach: Reach) -> str:
    """Use `mcp-remote` for HTTP, because Claude Desktop only starts programs. The arguments contain no space, which
    would split them on Windows."""
    args = ["-y", MCP_REMOTE, reach.url]
    if reach.token is None:
        return _servers("mcpServers", {"command": "npx", "args": args}, wide=True)
    args += ["--header", "Authorization:${DUETIME_AUTHORIZATION}"]
    env = {"DUETIME_AUTHORIZATION": f"Bearer {reach.token}"}
    return _servers("mcpServers", {"command": "npx", "args": args, "env": env}, wide=True)


def _codex(reach: Reach) -> str:
    lines = [f"[mcp_servers.{NAME}]", f"url = {json.dumps(reach.url)}"]
    if reach.headers:
        pairs = ", ".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in reach.headers.items())
        lines.append(f"http_headers = {{ {pairs} }}")
    return "\n".join(lines)


CLIENTS = {
    "claude-code": Client(
        "Claude Code",
        "run",
        _claude_code,
        lambda reach: shlex.join(["claude", "mcp", "add", NAME, "--", *reach.command]),
    ),
    "claude-desktop": Client(
        "Claude Desktop",
        "claude_desktop_config.json (Settings, Developer, Edit Config)",
        _claude_desktop,
        lambda reach: _servers("mcpServers", _started(reach), wide=False),
    ),
    "cursor": _in_json("Cursor", "~/.cursor/mcp.json", "mcpServers", lambda url: {"url": url}),
    "vscode": _in_json(
        "VS Code",
        ".vscode/mcp.json",
        "servers",
        lambda url: {"type": "http", "url": url},
        lambda reach: {"type": "stdio", **_started(reach)},
    ),
    "codex": Client(
        "Codex",
        "~/.codex/config.toml",
        _codex,
        lambda reach: shlex.join(["codex", "mcp", "add", NAME, "--", *reach.command]),
    ),
    "gemini": _in_json("Gemini CLI", "~/.gemini/settings.json", "mcpServers", lambda url: {"httpUrl": url}),
    "opencode": _in_json(
        "opencode",
        "opencode.json",
        "mcp",
        lambda url: {"type": "remote", "url": url, "enabled": True},
        lambda reach: {"type": "local", "command": list(reach.command), "enabled": True},
    ),
}


def known_client(name: str) -> Client:
    if name not in CLIENTS:
        raise InvalidInput(f"--print-config: there is no client {name!r}; there are {', '.join([*CLIENTS, ALL])}")
    return CLIENTS[name]


def instructions(reach: Reach) -> str:
    """Return for every client a heading, what to paste, and one line for stdio, which needs no server."""
    parts = [
        f"{client.title}: {client.where}\n{_short(client.http(reach))}\n  or, over stdio: {client.stdio(reach)}\n"
        for client in CLIENTS.values()
    ]
    return "\n".join(parts)


def _short(text: str) -> str:
    """Indent the text, with JSON on one line: seven clients have to fit on a screen."""
    lines = [json.dumps(json.loads(text))] if text.startswith("{") else text.splitlines()
    return "\n".join(f"  {line}" for line in lines)
