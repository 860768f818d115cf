"""The settings, each with its default and a description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, TypeVar

from duetime.engine.value_class import dataclass
from duetime.settings.locations import Origin, data_folder
from duetime.settings.sections import (
    INBOX,
    AgentSettings,
    ChannelSettings,
    ExecutorSettings,
    HeartbeatSettings,
    McpServerSettings,
    NotificationSettings,
)

T = TypeVar("T")

RUNS_PER_HOUR = 10_000
"""Enough for a job and a reminder every second, and some more."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Durations are in seconds unless the name says otherwise."""

    db: str = field(default="", repr=False)  # a URL may contain a password
    """The store: a path, `sqlite:///path`, `:memory:` or `postgresql://…`; empty means a file in the data folder."""
    timezone: str = ""
    """Default time zone, an IANA name such as `Europe/Berlin`; empty means the machine's."""
    tasks: tuple[str, ...] = ()
    """Modules, or paths of `.py` files, that register tasks."""
    labels: tuple[str, ...] = ()
    """Labels of the workers on this machine, such as `gpu`: only they run tasks that need one of them."""
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
    max_log_bytes: int = 64 * 1024
    """Maximum size of the log that is kept of each attempt of a run: half from the beginning and half from the end of
    what it writes; 0 keeps none."""
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
    watch_folders: tuple[str, ...] = ()
    """Folders whose files `files_changed` in `only_if` may look at; only for users of this machine."""
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
    executors: Mapping[str, ExecutorSettings] = field(default_factory=dict)
    heartbeat: HeartbeatSettings = field(default_factory=HeartbeatSettings)
    tables: Mapping[str, Any] = field(default_factory=dict)
    """Tables of kinds from other packages, by name."""
    sources: tuple[str, ...] = field(default=(), compare=False)
    origin: Origin = field(default=Origin(), compare=False)

    def table(self, model: type[T]) -> T:
        """Return the table of a kind from another package, by its class; the defaults, if it is not set."""
        return next((each for each in self.tables.values() if isinstance(each, model)), model())

    def path_of_db(self) -> str:
        return self.db or str(data_folder() / "duetime.db")

    def path_of_keys(self) -> Path:
        """Return the folder of the secret that signs tokens and of the records of issued tokens."""
        return data_folder() / "auth"

    def path_of_backups(self) -> Path:
        return Path(self.backup_folder) if self.backup_folder else data_folder() / "backups"
