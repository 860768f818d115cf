"""The settings and their sources: defaults < one settings file < environment < flags."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from duetime.engine.errors import InvalidInput
from duetime.engine.times.zones import known_zone
from duetime.settings.loading import Source, fitted, names_of, problems_of, read_file
from duetime.settings.locations import (
    CONFIG,
    FILE,
    Found,
    Origin,
    absolute_paths,
    config_folder,
    data_folder,
    find_file,
    user_file,
    with_absolute_paths,
)
from duetime.settings.sections import (
    INBOX,
    AgentSettings,
    ChannelSettings,
    HeartbeatSettings,
    McpServerSettings,
    NotificationSettings,
)

__all__ = [
    "CONFIG",
    "FILE",
    "AgentSettings",
    "ChannelSettings",
    "HeartbeatSettings",
    "McpServerSettings",
    "NotificationSettings",
    "Origin",
    "Settings",
    "data_folder",
    "environment_names",
    "environment_values",
    "find_file",
    "is_postgres",
    "load_settings",
    "local_zone",
    "user_file",
]

PREFIX = "DUETIME_"
RUNS_PER_HOUR = 10_000
"""Enough for a job and a reminder every second, and some more."""
ENVIRONMENT = "the environment"
COMMAND_LINE = "the command line"
_TABLES = {"notifications": NotificationSettings, "heartbeat": HeartbeatSettings}
_TABLES_OF_TABLES = ("channels", "agents", "mcp_servers")
"""Tables whose entries have names that the operator chooses, so environment variables cannot set them."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Durations are in seconds unless the name says otherwise."""

    db: str = field(default="", repr=False)  # a URL may contain a password
    """The store: a path, `sqlite:///path`, `:memory:` or `postgresql://…`; empty means a file in the data folder."""
    timezone: str = ""
    """Default time zone, an IANA name such as `Europe/Berlin`; empty means the machine's."""
    tasks: tuple[str, ...] = ()
    """Modules, or paths of `.py` files, that register tasks."""
    threads: int = 16
    """Maximum concurrent runs per worker. With four or more, a quarter is reserved for notifications, and each
    owner leaves a part to the others."""
    lease: float = 10.0
    """How long a worker may stay silent before others take over its runs."""
    drain: float = 10.0
    """How long a worker that shuts down waits for active runs."""
    retention_days: float = 30.0
    """How long finished runs are kept; 0 keeps them forever."""
    backup_folder: str = ""
    """Where `backup_database` writes; empty means `backups` in the data folder."""
    max_schedules: int = 10_000
    """Maximum active schedules per owner."""
    smallest_interval: float = 1.0
    """Minimum time between two runs of one schedule."""
    max_runs_per_hour: int = RUNS_PER_HOUR
    """Maximum runs per owner and hour; 0 means no limit. Further runs wait for the next hour. The owner `local` has
    no limit unless this differs from the default."""
    max_payload_bytes: int = 256 * 1024
    """Maximum size of a schedule's payload: arguments, a prompt, a message. A whole request over HTTP has at most
    256 kB."""
    max_stored_bytes: int = 256 * 1024 * 1024
    """Maximum size of one owner's schedules and results, including finished ones; 0 means no limit. Beyond it,
    nothing more can be created, and once an hour the owner's oldest finished runs are deleted until a tenth of it is
    free. The owner `local` has none."""
    max_depth: int = 3
    """How deeply the runs of agents may schedule further jobs, prompts and requests. Notifications are exempt."""
    host: str = "127.0.0.1"
    """Address that `duetime serve` listens on."""
    port: int = 8765
    """Port that `duetime serve` listens on."""
    hosts: tuple[str, ...] = ()
    """Further host names under which the HTTP server may be called, besides those of this machine."""
    max_connections: int = 0
    """Maximum HTTP connections; 0 means 1000, or half of the file descriptors if that is less."""
    max_connections_per_address: int = 50
    """Maximum HTTP connections per address that have not yet sent a valid token."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies in front of the HTTP server; they are exempt from
    `max_connections_per_address`."""
    head_timeout: float = 10.0
    """Time limit for the head of an HTTP request to arrive."""
    body_timeout: float = 30.0
    """How long a client may pause while sending a request or reading a response."""
    max_requests_at_once: int = 8
    """Maximum concurrent HTTP requests and MCP calls per owner; further ones wait. The owner `local` has 24."""
    max_sessions: int = 50
    """Maximum MCP sessions per owner; a further one ends the least recently used. The owner `local` has 5000."""
    max_streams: int = 50
    """Maximum open MCP streams per owner. The owner `local` has 250."""
    max_watches: int = 100
    """Maximum resources that one owner can watch over HTTP. The owner `local` has 1000."""
    url: str = ""
    """Address at which woken agents reach the MCP server, such as https://duetime.example.org/mcp; empty means
    where `serve` listens."""
    tools: tuple[str, ...] = ()
    """Tool families or single tools to serve; empty means all."""
    issuer: str = "duetime"
    """The `iss` claim of this installation's tokens."""
    audience: str = "duetime"
    """The `aud` claim of this installation's tokens."""
    allowed_hosts: tuple[str, ...] = ()
    """Private hosts (names, addresses, networks) that URLs given by agents may reach."""
    pause_after: int = 10
    """Consecutive failures after which a recurring schedule is paused and its owner alerted; 0 means never.
    Existing schedules keep the value that they were created with."""
    agent: str = INBOX
    """The agent for prompts that name none."""
    model: str = ""
    """The model of built-in agents, such as anthropic:claude-sonnet-5-5."""
    prompts_per_day: int = 200
    """Maximum agent runs per owner and day, including prompts that arrive in an inbox; 0 means no limit."""
    notifications: NotificationSettings = field(default_factory=NotificationSettings)
    channels: Mapping[str, ChannelSettings] = field(default_factory=dict)
    agents: Mapping[str, AgentSettings] = field(default_factory=dict)
    mcp_servers: Mapping[str, McpServerSettings] = field(default_factory=dict)
    heartbeat: HeartbeatSettings = field(default_factory=HeartbeatSettings)
    sources: tuple[str, ...] = field(default=(), compare=False)
    origin: Origin = field(default=Origin(), compare=False)

    def path_of_db(self) -> str:
        return self.db or str(data_folder() / "duetime.db")

    def path_of_keys(self) -> Path:
        """Return the folder of the secret that signs tokens and of the records of issued tokens."""
        return data_folder() / "auth"

    def path_of_backups(self) -> Path:
        return Path(self.backup_folder) if self.backup_folder else data_folder() / "backups"


def is_postgres(db: str) -> bool:
    """Return whether the database is on a server; every other value is a file, whatever its name."""
    return db.startswith(("postgresql://", "postgres://"))


def local_zone(settings: Settings) -> str:
    """Return the configured zone, otherwise the machine's IANA zone, otherwise UTC."""
    if settings.timezone:
        return known_zone(settings.timezone).key
    import tzlocal

    try:
        return known_zone(tzlocal.get_localzone_name()).key
    except (InvalidInput, LookupError, ValueError):
        return "UTC"


def load_settings(
    flags: Mapping[str, Any] | None = None, *, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> Settings:
    """Load the settings. Later sources win; an invalid value is refused with the name of its source. The settings file
    of `folder` is read without a trust check, because the caller named it; otherwise, see `find_file`."""
    env = os.environ if environment is None else environment
    found, origin = find_file(env, folder)
    settings = _with(Settings(), _from_file(found, env), "" if found is None else str(found.path))
    variables = environment_values(env)
    settings = _with(settings, variables, ENVIRONMENT)
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    settings = _with(settings, given, COMMAND_LINE)
    tasks = settings.origin.tasks
    own = Path(origin.file).parent if origin.file else config_folder(env)
    if origin.here or (tasks and tasks == origin.file):
        modules: str | None = str(own)
    else:  # whoever types a module means the current folder; a variable is the same in every folder
        modules = str(Path.cwd()) if tasks == COMMAND_LINE else None
    if tasks == ENVIRONMENT:
        settings = replace(settings, tasks=tuple(absolute_paths({"tasks": [*settings.tasks]}, own)["tasks"]))
    refusal = "" if "db" in given or "db" in variables else origin.refusal
    return replace(settings, origin=origin._replace(tasks=tasks, modules=modules, refusal=refusal))


def _from_file(found: Found | None, env: Mapping[str, str]) -> dict[str, Any]:
    values = None if found is None else read_file(found.path, found.content)
    if found is None or values is None:
        if CONFIG in env:
            raise InvalidInput(f"{CONFIG} (or --config) names {env[CONFIG]}, which does not exist")
        return {}
    return with_absolute_paths(values, found.path.parent)


def _variables() -> dict[str, tuple[str, ...]]:
    """Return the environment variables and the settings that they set, such as `DUETIME_NOTIFICATIONS_SERVER` for a
    table."""
    plain = [(name,) for name in names_of(Settings) if name not in (*_TABLES, *_TABLES_OF_TABLES)]
    inside = [(table, name) for table, of in _TABLES.items() for name in names_of(of)]
    return {f"{PREFIX}{'_'.join(path).upper()}": path for path in (*plain, *inside)}


def environment_names() -> frozenset[str]:
    """Return the names of the environment variables for settings."""
    return frozenset(_variables())


def environment_values(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the settings that the environment sets, as texts."""
    env = os.environ if environment is None else environment
    given = {name.upper(): value for name, value in env.items() if name.startswith(PREFIX)}
    known: dict[str, Any] = {}
    for variable, (name, *inside) in _variables().items():
        if variable in given and inside:
            known.setdefault(name, {})[inside[0]] = given[variable]
        elif variable in given:
            known[name] = given[variable]
    return known


_FROM_ZERO = ("drain", "max_runs_per_hour", "max_stored_bytes", "pause_after", "prompts_per_day", "max_connections")
_FROM_ONE = (
    "threads", "lease", "retention_days", "max_requests_at_once", "max_sessions", "max_streams", "max_watches",
    "max_connections_per_address",
)  # fmt: skip
_LEAST: dict[str, float] = {
    **dict.fromkeys(_FROM_ZERO, 0), **dict.fromkeys(_FROM_ONE, 1), "head_timeout": 0.1, "body_timeout": 0.1,
}  # fmt: skip


def _with(settings: Settings, values: Mapping[str, Any], source: Source) -> Settings:
    if not values:
        return settings
    made = fitted(settings, values, source)
    for name, least in _LEAST.items():
        value = getattr(made, name)
        if name in values and value < least and not (value == 0 and name == "retention_days"):
            raise InvalidInput(f"{source}: {name} must be at least {least}, not {value}", field=name)
    for name, problem in problems_of(made):
        raise InvalidInput(f"{source}: {problem}", field=name)
    tasks = source if "tasks" in values else settings.origin.tasks
    return replace(made, sources=(*settings.sources, source), origin=Origin(tasks=tasks))
