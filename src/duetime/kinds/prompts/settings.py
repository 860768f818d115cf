"""Checks of the settings of agents, of their MCP servers and of the heartbeat."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from duetime.engine.kind import LOCAL
from duetime.settings import AgentSettings, McpServerSettings, Settings
from duetime.settings.kind_settings import KindSettings
from duetime.settings.sections import HEARTBEAT, INBOX, NO_OWNER

_MAX_TIMEOUT = 365 * 86_400
"""Maximum timeout of an agent's run, in seconds."""
_SEES_THE_DISK = "codex"
"""Preset whose shell can read every file of its user if it has a folder, including the store and the signing secret."""
_NOT_FOR_OTHERS = (
    ".owners: codex in a folder can read every file of this user, also the secret that signs tokens, so that it is for"
    f" {LOCAL} alone; leave out `folder`, or choose another preset"
)
_PER_DAY = ("runs_per_day", "tokens_per_day", "dollars_per_day")
_OF_WOKEN = ("servers", "tools", "commands", "web", "skills")
_SERVER_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_OF_PROGRAMS = ("preset", "command", "url", "model")


def _problems(settings: Settings) -> Iterator[tuple[str, str]]:
    for name, server in settings.mcp_servers.items():
        if problem := _server_problem(name, server):
            yield "mcp_servers", f"mcp_servers.{name}{problem}"
    for name, agent in settings.agents.items():
        if problem := _problem(name, agent) or _tools_problem(agent, settings.mcp_servers):
            yield "agents", f"agents.{name}{problem}"
    if settings.heartbeat.runs_per_day < 0:
        yield "heartbeat", f"heartbeat{_negative('runs_per_day')}"


SETTINGS = KindSettings(_problems)


def _problem(name: str, agent: AgentSettings) -> str:
    if name == HEARTBEAT:
        return " is the name of the heartbeat itself; call it otherwise, and name it with `agent` under [heartbeat]"
    if name == INBOX and agent.type != INBOX:
        return ": what is meant for the inbox waits there until it is taken; give an agent that is woken another name"
    if not agent.owners:
        return NO_OWNER
    if agent.preset == _SEES_THE_DISK and agent.folder and set(agent.owners) != {LOCAL}:
        return _NOT_FOR_OTHERS
    for part in _OF_PROGRAMS:
        if agent.type == INBOX and getattr(agent, part):
            return f".{part}: an inbox wakes no agent; leave it out, or choose another type"
    for part in _PER_DAY:
        if not 0 <= getattr(agent, part) < float("inf"):
            return _negative(part)
    if not 0 < agent.timeout <= _MAX_TIMEOUT:
        return f".timeout must be more than 0 seconds and at most {_MAX_TIMEOUT}, a year; without it, it is 900"
    return ""


def _server_problem(name: str, server: McpServerSettings) -> str:
    if not _SERVER_NAME.fullmatch(name):
        return ": call it by lower case letters, digits and single hyphens, such as github"
    if bool(server.url) == bool(server.command):
        return ": name either its url or its command"
    if server.url and (server.env or server.folder):
        return ".env and .folder are for a command; a url has headers"
    if server.command and server.headers:
        return ".headers are for a url; a command has env"
    return ""


def _tools_problem(agent: AgentSettings, servers: Mapping[str, McpServerSettings]) -> str:
    """Return the reason why the agent cannot be given the tools that its settings name."""
    for part in _OF_WOKEN:
        if agent.type in (INBOX, "webhook") and getattr(agent, part):
            return f".{part}: only a command, a preset or a built-in agent can be given tools; leave it out"
    for name in agent.servers:
        if name not in servers:
            known = ", ".join(sorted(servers)) or "none"
            return f".servers: there is no {name!r} under [mcp_servers]; choose from {known}"
    for tool in agent.tools:
        if tool.partition(".")[0] not in agent.servers:
            return f".tools: {tool!r} is of no server in `servers`; write it as server.tool, such as github.get_*"
    return ""


def _negative(part: str) -> str:
    return f".{part} must be 0 or more; 0 means no limit"
