"""Converts the texts and tables of a source to typed settings; an invalid value is refused with its name."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, get_args, get_type_hints

from duetime.engine.errors import InvalidInput, unknown
from duetime.engine.kind import LOCAL
from duetime.engine.policy.options import is_topic
from duetime.settings.model import Settings
from duetime.settings.sections import HEARTBEAT, INBOX, QSTASH, AgentSettings, McpServerSettings

T = TypeVar("T")
Source: TypeAlias = str
_WANTED = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", tuple: "a list"}


def names_of(of: type) -> list[str]:
    return [item.name for item in fields(of) if item.name not in ("sources", "origin")]


def read_file(path: Path, content: bytes | None = None) -> dict[str, Any] | None:
    """Return the values of a file, or None if there is no file. `content` is the content, if it was already read."""
    try:
        return tomllib.loads((path.read_bytes() if content is None else content).decode())
    except FileNotFoundError:
        return None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}") from error
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read ({error.strerror})") from error


def fitted(settings: T, values: Mapping[str, Any], source: Source, within: str = "") -> T:
    """Return a copy of a settings table with the values of the source."""
    of = type(settings)
    hints, names = get_type_hints(of), names_of(of)
    surplus = sorted(set(values) - set(names))
    if surplus:
        raise InvalidInput(f"{source}: {unknown('setting', within + surplus[0], sorted(names))}")
    fit = {name: _fit(within + name, getattr(settings, name), hints[name], values[name], source) for name in values}
    return replace(settings, **fit)  # type: ignore[type-var]


def _fit(name: str, now: Any, hint: Any, value: Any, source: Source) -> Any:
    if is_dataclass(now):
        return fitted(now, _table(name, value, source), source, f"{name}.")
    if isinstance(now, Mapping):
        return _named(name, hint, _table(name, value, source), source)
    wanted = type(now)
    try:
        if wanted is tuple:
            parts = value.split(",") if isinstance(value, str) else value
            return tuple(str(part) if value is parts else part.strip() for part in parts if str(part).strip())
        if wanted is bool and isinstance(value, bool):
            return value
        if wanted is bool or isinstance(value, bool) or (wanted is str and not isinstance(value, str)):
            raise ValueError(value)
        return wanted(value)
    except (TypeError, ValueError) as error:
        shown = type(value).__name__ if "." in name else repr(value)  # tables contain tokens and URLs
        raise InvalidInput(f"{source}: {name} must be {_WANTED[wanted]}, not {shown}", field=name) from error


def _named(name: str, hint: Any, value: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """Convert a table of tables, such as `[channels.phone]`, or of texts, such as headers."""
    of = get_args(hint)[1]
    if of is str:
        return {key: _fit(f"{name}.{key}", "", str, each, source) for key, each in value.items()}
    return {
        key: fitted(of(), _table(f"{name}.{key}", each, source), source, f"{name}.{key}.")
        for key, each in value.items()
    }


def _table(name: str, value: Any, source: Source) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{source}: {name} is a table: write [{name}]", field=name)
    return value


# Checks for values of the right type that would still be useless or harmful.

_LONGEST = 365 * 86_400
"""Longest timeout of an agent's run, in seconds."""
_SEES_THE_DISK = "codex"
"""Preset whose shell can read every file of its user if it has a folder, including the store and the signing secret."""
_NOT_FOR_OTHERS = (
    ".owners: codex in a folder can read every file of this user, also the secret that signs tokens, so that it is for"
    f" {LOCAL} alone; leave out `folder`, or choose another preset"
)
_NOBODY = '.owners: name at least one owner, such as ["local"], or ["*"] for all'
_PER_DAY = ("runs_per_day", "tokens_per_day", "dollars_per_day")
_OF_WOKEN = ("servers", "tools", "commands", "web", "skills")
_SERVER_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_OF_PROGRAMS = ("preset", "command", "url", "model")


def problems_of(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the settings that cannot be used, each as the name of its field and the problem."""
    if settings.notifications.backend not in (LOCAL, QSTASH):
        yield "notifications", f"notifications.backend must be {LOCAL} or {QSTASH}"
    if not is_topic(settings.notifications.alerts):
        message = "must be the name of a channel, a topic such as home-alerts, or inbox"
        yield "notifications", f"notifications.alerts {message}"
    if settings.notifications.topic and not is_topic(settings.notifications.topic):
        message = "must be a topic such as reminders, the name of a channel, or inbox"
        yield "notifications", f"notifications.topic {message}"
    for proxy in settings.trusted_proxies:
        if not _is_network(proxy):
            advice = "is not an address or network; write one such as 10.0.0.5 or 10.0.0.0/24"
            yield "trusted_proxies", f"trusted_proxies: {proxy!r} {advice}"
    yield from _agent_problems(settings)
    if settings.heartbeat.runs_per_day < 0:
        yield "heartbeat", f"heartbeat{_negative('runs_per_day')}"
    for name, channel in settings.channels.items():
        if not channel.owners:
            yield "channels", f"channels.{name}{_NOBODY}"


def _agent_problems(settings: Settings) -> Iterator[tuple[str, str]]:
    for name, server in settings.mcp_servers.items():
        if problem := _server_problem(name, server):
            yield "mcp_servers", f"mcp_servers.{name}{problem}"
    for name, agent in settings.agents.items():
        if problem := _problem(name, agent) or _tools_problem(agent, settings.mcp_servers):
            yield "agents", f"agents.{name}{problem}"


def _is_network(text: str) -> bool:
    import ipaddress

    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def _problem(name: str, agent: AgentSettings) -> str:
    if name == HEARTBEAT:
        return " is the name of the heartbeat itself; call it otherwise, and name it with `agent` under [heartbeat]"
    if name == INBOX and agent.type != INBOX:
        return ": what is meant for the inbox waits there until it is taken; give an agent that is woken another name"
    if not agent.owners:
        return _NOBODY
    if agent.preset == _SEES_THE_DISK and agent.folder and set(agent.owners) != {LOCAL}:
        return _NOT_FOR_OTHERS
    for part in _OF_PROGRAMS:
        if agent.type == INBOX and getattr(agent, part):
            return f".{part}: an inbox wakes no agent; leave it out, or choose another type"
    for part in _PER_DAY:
        if not 0 <= getattr(agent, part) < float("inf"):
            return _negative(part)
    if not 0 < agent.timeout <= _LONGEST:
        return f".timeout must be more than 0 seconds and at most {_LONGEST}, a year; without it, it is 900"
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
