"""The tables of `duetime.toml`: where notifications go, and which agents there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from duetime.engine.model import ONLY_LOCAL
from duetime.engine.policy.options import ALERTS

LOCAL = "local"
QSTASH = "qstash"
STANDING = "HEARTBEAT.md"
"""The default file for the standing instructions of a heartbeat."""

INBOX = "inbox"
"""The channel that needs no network, because the store keeps its messages; and the agent that is not started: its
prompts wait until a connected agent takes them."""
HEARTBEAT = "heartbeat"
"""The name by which prompts address the heartbeat; no other agent may have it."""


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    backend: str = LOCAL
    """`local`: schedules live in this store; `qstash`: they live at QStash and fire while this machine is off."""
    server: str = ""
    """An ntfy server, such as https://ntfy.sh; empty means the built-in inbox."""
    prefix: str = field(default="", repr=False)
    """Put before every topic: topics of a public server can be read by whoever guesses them."""
    token: str = field(default="", repr=False)
    """Of the ntfy server."""
    topic: str = ""
    """Where a notification goes that names no topic: a topic, the name of a channel, or `inbox`, which also says that
    nothing else is wanted. Empty means that each has to name one."""
    alerts: str = ALERTS
    """Where alerts go, which say what needs a person: a topic, the name of a channel, or `inbox`."""
    qstash_url: str = ""
    """Where QStash answers; empty means its own address, or QSTASH_URL of the environment."""
    qstash_token: str = field(default="", repr=False)
    """Of QStash; empty means QSTASH_TOKEN of the environment."""


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """`[channels.NAME]`: what is sent to the topic NAME goes here."""

    url: str = field(default="", repr=False)
    """An Apprise URL, or http(s) for a plain request."""
    method: str = "POST"
    """Of a plain request: POST, PUT or PATCH."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of a plain request."""
    body: str = field(default="", repr=False)
    """Of a plain request, with {message}, {title}, {topic} and {id}; empty means all fields as JSON."""
    owners: tuple[str, ...] = ONLY_LOCAL
    """Whose notifications may use it: owners by name, or `*` for all. For everybody else it does not exist."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """`[agents.NAME]`: how a prompt reaches an agent. Named here, never by an agent."""

    type: str = ""
    """`command`, `builtin`, `webhook` or `inbox`; a preset is a command."""
    preset: str = ""
    """claude, codex, gemini, goose or opencode: the flags of a known program."""
    command: tuple[str, ...] = ()
    """A program and its arguments, in which {mcp_config} and {model} are filled in; with a preset, how it is called."""
    prompt: str = "stdin"
    """How a command gets its prompt: `stdin`, or `argument` for the last one, after `--`."""
    env: tuple[str, ...] = ()
    """Names of environment variables that the command may see, besides the few that any program needs."""
    folder: str = ""
    """Where a command works; empty means an empty folder of its own. A preset may read there."""
    servers: tuple[str, ...] = ()
    """MCP servers of `[mcp_servers]` whose tools it may use."""
    tools: tuple[str, ...] = ()
    """Which of their tools, such as `github.get_*`; empty means all. Other tools are refused."""
    commands: tuple[str, ...] = ()
    """Commands that it may run in its folder, such as `git log *`. They are started without a shell."""
    web: bool = False
    """Whether it may search and read the web."""
    skills: tuple[str, ...] = ()
    """Folders of skills that it may read, each with a SKILL.md."""
    model: str = ""
    """Empty means the setting `model` for a built-in agent, and its own choice for a preset."""
    instructions: str = ""
    """A text that stands before every prompt of a built-in agent."""
    url: str = field(default="", repr=False)
    """Of a webhook."""
    secret: str = field(default="", repr=False)
    """Signs what a webhook is sent."""
    timeout: float = 900.0
    """Seconds for one run."""
    runs_per_day: int = 0
    """Of one owner; 0 means no limit."""
    tokens_per_day: int = 0
    """As `runs_per_day`."""
    dollars_per_day: float = 0.0
    """As `runs_per_day`, where the agent tells what it cost."""
    owners: tuple[str, ...] = ONLY_LOCAL
    """Whose prompts may wake it: owners by name, or `*` for all. For everybody else it does not exist."""


@dataclass(frozen=True, slots=True)
class McpServerSettings:
    """`[mcp_servers.NAME]`: an MCP server of the user's own, for agents whose `servers` name it. The worker connects to
    it, so agents see neither its address nor its credentials. `${NAME}` stands for an environment variable."""

    url: str = field(default="", repr=False)
    """Of a server over HTTP."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of a server over HTTP, such as `{Authorization = "Bearer ${GITHUB_TOKEN}"}`."""
    command: tuple[str, ...] = ()
    """The program and arguments of a server over stdio."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further environment variables of a server over stdio."""
    folder: str = ""
    """Where a server over stdio works; empty means the worker's folder."""


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    every: str = ""
    """Such as 30m; empty means no heartbeat."""
    between: str = ""
    """Its active hours, such as 08:00-22:00 in the setting `timezone`; empty means all day."""
    instructions: str = STANDING
    """A Markdown file with standing instructions."""
    agent: str = ""
    """Which of the agents wakes; empty means the built-in one."""
    runs_per_day: int = 100
    """Beats in a day; what is beyond it waits for the next."""
