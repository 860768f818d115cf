"""Configuration of each MCP client: its file, and its entry for this server. HTTP uses the local token; stdio needs
none."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple, TypeAlias

from duetime.engine.errors import InvalidInput, unknown

NAME = "duetime"
MCP_REMOTE = "mcp-remote@0.15.1"
"""Pinned to a reviewed version, because this package receives the token and an unpinned one could change with each
start."""
ALL = "all"
"""The name that selects all clients."""

Entry: TypeAlias = dict[str, Any]


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


class Machine(NamedTuple):
    """The conditions that determine where a client keeps its files."""

    home: PurePath
    platform: str
    """As in `sys.platform`."""
    environment: Mapping[str, str]

    def folder(self, variable: str, *default: str) -> PurePath:
        """Return the folder that the variable names, or the default one below the home folder."""
        named = self.environment.get(variable)
        return type(self.home)(named) if named else self.home.joinpath(*default)

    @property
    def xdg_config(self) -> PurePath:
        return self.folder("XDG_CONFIG_HOME", ".config")

    @property
    def application_data(self) -> PurePath:
        """The folder of the settings of desktop applications."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        return self.folder("APPDATA", "AppData", "Roaming") if self.platform == "win32" else self.xdg_config


class Client(NamedTuple):
    title: str
    where: str
    """The location of the configuration, as shown to people."""
    files: Callable[[Machine], Sequence[PurePath]]
    """The files that the client reads for every project; the first is created if none of them exists."""
    table: str
    """The key of the servers in that file."""
    http_entry: Callable[[Reach], Entry]
    stdio_entry: Callable[[Reach], Entry]
    after: str
    """What the user has to do so that the client notices a change."""
    http_command: Callable[[Entry], Sequence[str]] | None = None
    """The command that adds the entry for HTTP, for clients where pasting a command is easier than editing the file."""
    stdio_command: Sequence[str] = ()
    """The beginning of the command that adds a program, if the client has one."""
    toml: bool = False

    def http(self, reach: Reach) -> str:
        """Return what to paste for a connection over HTTP."""
        entry = self.http_entry(reach)
        if self.http_command is not None:
            return shlex.join(self.http_command(entry))
        return self.text(entry)

    def stdio(self, reach: Reach) -> str:
        """Return what to paste, on one line, for a server that the client starts."""
        if self.stdio_command:
            return shlex.join([*self.stdio_command, NAME, "--", *reach.command])
        return json.dumps({self.table: {NAME: self.stdio_entry(reach)}})

    def text(self, entry: Entry) -> str:
        """Return a file of the client that contains nothing but this entry."""
        if self.toml:
            return "\n".join([f"[{self.table}.{NAME}]", *(f"{key} = {_toml(entry[key])}" for key in entry)])
        return json.dumps({self.table: {NAME: entry}}, indent=2, ensure_ascii=False)


def _toml(value: Any) -> str:
    """Return a text, a list or a table of texts in TOML, whose basic strings are those of JSON."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{json.dumps(key)} = {_toml(each)}' for key, each in value.items())} }}"
    return json.dumps(value)


def _program(reach: Reach) -> Entry:
    return {"command": reach.command[0], "args": list(reach.command[1:])}


def _stdio_program(reach: Reach) -> Entry:
    return {"type": "stdio", **_program(reach)}


def _remote(url: str, headers: str = "headers", **others: Any) -> Callable[[Reach], Entry]:
    """Return a function that builds an entry with the address and the headers under these keys."""
    return lambda reach: {**others, url: reach.url} | ({headers: reach.headers} if reach.headers else {})


def _claude_code_http(reach: Reach) -> Entry:
    """Return an entry without the token: Claude Code runs a helper that prints the header whenever it connects."""
    helper = {} if reach.token is None else {"headersHelper": shlex.join(reach.header)}
    return {"type": "http", "url": reach.url, **helper}


def _claude_desktop_http(reach: Reach) -> Entry:
    """Use `mcp-remote`, because Claude Desktop only starts programs. The arguments contain no spaces, at which Windows
    would split them."""
    args = ["-y", MCP_REMOTE, reach.url]
    if reach.token is None:
        return {"command": "npx", "args": args}
    args += ["--header", "Authorization:${DUETIME_AUTHORIZATION}"]
    return {"command": "npx", "args": args, "env": {"DUETIME_AUTHORIZATION": f"Bearer {reach.token}"}}


def _opencode_files(machine: Machine) -> Sequence[PurePath]:
    if named := machine.environment.get("OPENCODE_CONFIG"):
        return (type(machine.home)(named),)
    folder = machine.xdg_config / "opencode"
    return tuple(folder / name for name in ("opencode.json", "opencode.jsonc", "config.json"))


def _zed_files(machine: Machine) -> Sequence[PurePath]:
    if machine.platform == "win32":
        return (machine.application_data / "Zed" / "settings.json",)
    folder = machine.xdg_config if machine.platform != "darwin" else machine.home / ".config"
    return (folder / "zed" / "settings.json",)


def _in_home(*parts: str) -> Callable[[Machine], Sequence[PurePath]]:
    return lambda machine: (machine.home.joinpath(*parts),)


CLIENTS = {
    "claude-code": Client(
        "Claude Code", "~/.claude.json", lambda machine: (machine.folder("CLAUDE_CONFIG_DIR") / ".claude.json",),
        "mcpServers", _claude_code_http, _stdio_program,
        "Start Claude Code again; `claude mcp list` shows it.",
        http_command=lambda entry: ("claude", "mcp", "add-json", NAME, json.dumps(entry)),
        stdio_command=("claude", "mcp", "add"),
    ),
    "claude-desktop": Client(
        "Claude Desktop", "claude_desktop_config.json (Settings, Developer, Edit Config)",
        lambda machine: (machine.application_data / "Claude" / "claude_desktop_config.json",),
        "mcpServers", _claude_desktop_http, _program,
        "Quit Claude Desktop completely and start it again.",
    ),
    "cursor": Client(
        "Cursor", "~/.cursor/mcp.json", _in_home(".cursor", "mcp.json"), "mcpServers", _remote("url"), _program,
        "Start Cursor again, or switch the server on in its settings under MCP.",
    ),
    "vscode": Client(
        "VS Code", "mcp.json of the user (command: MCP: Open User Configuration)",
        lambda machine: (machine.application_data / "Code" / "User" / "mcp.json",), "servers",
        _remote("url", type="http"), _stdio_program,
        "Run the command `MCP: List Servers` in VS Code and start it there.",
    ),
    "codex": Client(
        "Codex", "~/.codex/config.toml", lambda machine: (machine.folder("CODEX_HOME", ".codex") / "config.toml",),
        "mcp_servers", _remote("url", "http_headers"), _program,
        "Start Codex again; `codex mcp list` shows it.",
        stdio_command=("codex", "mcp", "add"), toml=True,
    ),
    "gemini": Client(
        "Gemini CLI", "~/.gemini/settings.json", _in_home(".gemini", "settings.json"), "mcpServers",
        _remote("httpUrl"), _program,
        "Start Gemini CLI again; `gemini mcp list` shows it.",
    ),
    "opencode": Client(
        "opencode", "~/.config/opencode/opencode.json", _opencode_files, "mcp",
        lambda reach: {**_remote("url", type="remote")(reach), "enabled": True},
        lambda reach: {"type": "local", "command": list(reach.command), "enabled": True},
        "Start opencode again; `opencode mcp list` shows it.",
    ),
    "windsurf": Client(
        "Windsurf", "~/.codeium/windsurf/mcp_config.json", _in_home(".codeium", "windsurf", "mcp_config.json"),
        "mcpServers", _remote("serverUrl"), _program,
        "Press Refresh in the MCP panel of Windsurf.",
    ),
    "zed": Client(
        "Zed", "~/.config/zed/settings.json", _zed_files, "context_servers", _remote("url"), _program,
        "Zed picks it up automatically; see its agent settings.",
    ),
}  # fmt: skip


def known_client(name: str, *, every: bool = False) -> Client:
    """Return a client by its name. With `every`, an error also names the word that selects all clients."""
    if name not in CLIENTS:
        raise InvalidInput(unknown("client", name, [*CLIENTS, ALL] if every else CLIENTS))
    return CLIENTS[name]


def instructions(reach: Reach) -> str:
    """Return for every client a heading, what to paste, and one line for stdio, which needs no server."""
    parts = [
        f"{client.title}: {'run' if client.http_command else client.where}\n{_short(client.http(reach))}\n"
        f"  or, over stdio: {client.stdio(reach)}\n"
        for client in CLIENTS.values()
    ]
    return "\n".join(parts)


def _short(text: str) -> str:
    """Indent the text, with JSON on one line, because nine clients have to fit on a screen."""
    lines = [json.dumps(json.loads(text))] if text.startswith("{") else text.splitlines()
    return "\n".join(f"  {line}" for line in lines)
