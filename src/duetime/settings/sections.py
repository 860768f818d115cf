"""The tables of `duetime.toml`: where notifications go, and which agents there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from duetime.engine.model import ONLY_LOCAL
from duetime.engine.value_class import dataclass

LOCAL = "local"
QSTASH = "qstash"
STANDING = "HEARTBEAT.md"
"""The default file for the standing instructions of a heartbeat."""

INBOX = "inbox"
"""The channel that needs no network, because the store keeps its messages; and the agent that is not started: its
prompts wait until a connected agent takes them."""
HEARTBEAT = "heartbeat"
"""The name by which prompts address the heartbeat; no other agent may have it."""
NO_OWNER = '.owners: name at least one owner, such as ["local"], or ["*"] for all'
"""The problem of an agent or a channel that nobody may use."""


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    backend: str = LOCAL
    """`local`: notifications are kept in this store. `qstash`: they are kept at QStash and fire even while this
    machine is off."""
    server: str = ""
    """An ntfy server, such as https://ntfy.sh; empty means the built-in inbox."""
    prefix: str = field(default="", repr=False)
    """Prepended to every topic, because anyone who guesses a topic on a public server can read it."""
    token: str = field(default="", repr=False)
    """Access token for the ntfy server."""
    topic: str = ""
    """The topic of notifications that name none: a topic, the name of a channel, or `inbox`. Empty means that every
    notification has to name one."""
    alerts: str = ""
    """Where alerts go: a topic, the name of a channel, or `inbox`. Empty means the default topic or, without one, the
    topic `duetime-alerts`."""
    alerts_by_tag: Mapping[str, str] = field(default_factory=dict)
    """Where alerts of schedules with a tag go instead, such as `backup = "ops"`; of several tags, the first counts."""
    qstash_url: str = ""
    """Address of QStash; empty means QSTASH_URL from the environment, or QStash's own address."""
    qstash_token: str = field(default="", repr=False)
    """Access token for QStash; empty means QSTASH_TOKEN from the environment."""


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """`[channels.NAME]`: the destination of notifications to the topic NAME."""

    url: str = field(default="", repr=False)
    """An Apprise URL, or an http(s) URL for a plain request."""
    method: str = "POST"
    """Method of a plain request: POST, PUT or PATCH."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers of a plain request."""
    body: str = field(default="", repr=False)
    """Body of a plain request, with {message}, {title}, {topic} and {id}; empty means all fields as JSON."""
    owners: tuple[str, ...] = ONLY_LOCAL
    """Owners whose notifications may use it; `*` means everyone. For all others it does not exist."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """`[agents.NAME]`: how a prompt reaches an agent. Agents can only be defined here."""

    type: str = ""
    """`command`, `builtin`, `webhook` or `inbox`; a preset is a command."""
    preset: str = ""
    """A known program, with the right flags: claude, codex, gemini, goose or opencode."""
    command: tuple[str, ...] = ()
    """A program and its arguments; {mcp_config} and {model} are replaced. With a preset, the program to run."""
    prompt: str = "stdin"
    """How a command receives its prompt: `stdin`, or `argument` for the last argument, after `--`."""
    env: tuple[str, ...] = ()
    """Environment variables that the command may see, besides the few that any program needs."""
    folder: str = ""
    """Working folder of a command; empty means a new, empty folder. A preset may read there."""
    servers: tuple[str, ...] = ()
    """MCP servers from `[mcp_servers]` whose tools it may use."""
    tools: tuple[str, ...] = ()
    """Which of their tools it may use, such as `github.get_*`; empty means all. Other tools are refused."""
    commands: tuple[str, ...] = ()
    """Commands that it may run in its folder, such as `git log -5`, without a shell. A `*` covers no options."""
    web: bool = False
    """Whether it may use the web, also through what its runs schedule."""
    skills: tuple[str, ...] = ()
    """Folders of skills that it may read, each with a SKILL.md."""
    model: str = ""
    """The model; empty means the setting `model` for a built-in agent, and the program's default for a preset."""
    instructions: str = ""
    """A text that precedes every prompt of a built-in agent."""
    url: str = field(default="", repr=False)
    """Address of a webhook."""
    secret: str = field(default="", repr=False)
    """Signs the requests to a webhook."""
    timeout: float = 900.0
    """Time limit of one run."""
    runs_per_day: int = 0
    """Maximum runs per owner and day; 0 means no limit."""
    tokens_per_day: int = 0
    """Maximum tokens per owner and day; 0 means no limit."""
    dollars_per_day: float = 0.0
    """Maximum cost per owner and day, if the agent reports it; 0 means no limit."""
    owners: tuple[str, ...] = ONLY_LOCAL
    """Owners whose prompts may wake it; `*` means everyone. For all others it does not exist."""


@dataclass(frozen=True, slots=True)
class McpServerSettings:
    """`[mcp_servers.NAME]`: one of your MCP servers, for agents whose `servers` include it. The worker connects to it,
    so agents see neither its address nor its credentials. `${NAME}` stands for an environment variable."""

    url: str = field(default="", repr=False)
    """Address of a server over HTTP."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers for a server over HTTP, such as `{Authorization = "Bearer ${GITHUB_TOKEN}"}`."""
    command: tuple[str, ...] = ()
    """Program and arguments of a server over stdio."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Additional environment variables of a server over stdio."""
    folder: str = ""
    """Working folder of a server over stdio; empty means the folder of the settings file."""


@dataclass(frozen=True, slots=True)
class ExecutorSettings:
    """`[executors.NAME]`: a cluster that runs the tasks with `runs_on="NAME"`."""

    type: str = ""
    """`dask`, `ray` or `celery`, or a type that an installed package adds."""
    address: str = field(default="", repr=False)
    """Where the cluster is: the scheduler of Dask, such as tcp://host:8786; ray://host:10001; the Redis of Celery."""
    limit: int = 10_000
    """Maximum runs that are on the cluster at once; further ones wait, and owners take turns."""


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    every: str = ""
    """Interval, such as 30m; empty means no heartbeat."""
    between: str = ""
    """Active hours, such as 08:00-22:00, in the setting `timezone`; empty means all day."""
    instructions: str = STANDING
    """A Markdown file with standing instructions."""
    agent: str = ""
    """The agent to wake; empty means the built-in one."""
    runs_per_day: int = 100
    """Maximum beats per day."""
