"""Types that prompts and agents share: the request that wakes an agent, its answer, and the roster of agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple, Protocol

from duetime.engine.clock import Instant
from duetime.engine.kind import StopSignal
from duetime.engine.model import EVERYBODY, UNLIMITED, Left
from duetime.engine.outcome import Outcome
from duetime.engine.value_class import dataclass
from duetime.engine.worker.lease import Lease
from duetime.kinds.prompts.allowance import Allowance
from duetime.settings.sections import INBOX


class Access(NamedTuple):
    """Access of one run to Duetime's tools: a server URL with a token, or a command that speaks MCP over stdio."""

    url: str | None
    token: str
    command: Sequence[str] = ()
    env: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """A prompt run, as it is given to an agent."""

    run: int
    fence: int
    """Fence of this attempt; `run` and `fence` together identify the holder of the prompts it takes (`run_holder`)."""
    task: int
    """The schedule's number, as people see it."""
    owner: str
    prompt: str
    """The prompt exactly as it was stored."""
    text: str
    """The prompt in its envelope, which says who stored it and when, and that it is data. An agent receives this."""
    stored: Instant
    due: Instant
    depth: int
    """Depth of what this run schedules: one more than its own."""
    patience: float
    """Seconds until the run times out."""
    access: Access
    stop: StopSignal
    report: Callable[[str], None]
    deeper: Callable[[int, str], Access]
    """Returns the same access with another depth and allowance, for a run that also does prompts stored by others."""
    zone: str = ""
    """Time zone of its owner and its token; empty means that of the installation."""
    left: Left = UNLIMITED
    """What the daily limits leave for this run. An agent that cannot enforce them is only stopped before its next
    run."""
    allowance: Allowance | None = None
    """What the run may use besides Duetime's own tools; None means what its agent's settings allow."""
    lease: Lease | None = None
    """The worker's lease: a program that an agent starts must end before it expires."""
    once: bool = False
    """True if the prompt must never reach its agent twice."""
    author: str = ""
    """Who stored the prompt, as a frame says it."""
    data: str = ""
    """The event that started the run, and what its gate gave to it, between marks."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Usage of a run, where the agent reports it."""

    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class AgentReply:
    """An agent's answer. `error` is None if it did what it was asked to do."""

    text: str = ""
    outcome: Any = None
    """Structured result, if the agent gives one."""
    tool_calls: Sequence[Mapping[str, Any]] = ()
    denied: Sequence[str] = ()
    """Tools that it was not allowed to use: a run that was denied one did not succeed."""
    spent: Spent = field(default_factory=Spent)
    exit_code: int | None = None
    error: str | None = None
    permanent: bool = False
    """True if a retry cannot help: a missing program, a wrong setting."""
    waiting_until: Instant | None = None
    """Set if the answer comes later, through a callback; the run waits until then."""
    earlier_calls: int = 0
    """Number of calls before `tool_calls`. Only the last calls of a long run are kept, because they say more than the
    first."""


CANNOT_START = "cannot be started here; its operator can tell why"
"""The error for owners other than the local one, who must not see paths and variables."""
NO_REPLY_YET = AgentReply(error="it broke off")
"""Placeholder for an agent's answer until it gives one."""


def answers_later(answer: AgentReply | Outcome) -> bool:
    """Return whether the agent answers later, with the same token, so that the run keeps the prompts it took."""
    return isinstance(answer, AgentReply) and answer.waiting_until is not None


class DuePrompt(NamedTuple):
    """A prompt that waited for an agent and is now held by a run."""

    task: int
    run: int
    owner: str
    prompt: str
    due: Instant
    stored: Instant
    depth: int = 0
    allow: Allowance | None = None
    """The most that it may use; None if nobody narrowed it."""
    hold: str = ""
    """Identifies this hold, to determine whether the run still has it."""
    author: str = ""
    """Who stored it, as a frame says it."""


class Agent(Protocol):
    def wake(self, request: AgentRequest) -> AgentReply | Outcome:
        """Run one attempt, in a thread of the pool.

        The attempt obeys `request.stop` and `request.patience`, ends everything it started before it returns, and never
        raises because of an agent, a network or a model. A returned Outcome is used unchanged, for example `Returned`
        to give the work back.
        """

    def missing(self) -> str | None:
        """Return what is missing to wake the agent from this process (program, key or folder), in one sentence; None if
        nothing is. This is called at each create, so it starts nothing and loads nothing slow."""

    def close(self) -> None: ...


# The agents that prompts can name: the default agent, names and types, and who may use them. No commands or addresses.


class NamedAgent(NamedTuple):
    type: str
    owners: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Roster:
    default: str
    agents: Mapping[str, NamedAgent]

    def described(self) -> list[dict[str, str]]:
        return [{"name": name, "type": each.type} for name, each in self.agents.items()]

    def inboxes(self) -> list[str]:
        """Return the agents besides the built-in inbox that are not woken: their prompts wait until taken."""
        return [name for name, each in self.agents.items() if each.type == INBOX and name != INBOX]

    def published(self) -> dict[str, Any]:
        agents = [{"name": name, "type": each.type, "owners": each.owners} for name, each in self.agents.items()]
        return {"default": self.default, "agents": agents}

    def differing(self, server: Roster) -> list[str]:
        """Return the settings that have a value here and a different one at the server."""
        same = all(server.agents.get(name) == each for name, each in self.agents.items())
        default = [] if self.default in (INBOX, server.default) else ["agent"]
        return [*default, *([] if same else ["agents"])]


def read_roster(published: Mapping[str, Any]) -> Roster | None:
    """Return the agents that a server published; None if there are none, or in an unknown format."""
    try:
        agents = {
            str(each["name"]): NamedAgent(str(each["type"]), tuple(map(str, each["owners"])))
            for each in published["agents"]
        }
        default = str(published["default"])
    except (KeyError, TypeError):
        return None
    return Roster(default, agents) if default in agents and INBOX in agents else None


def common_owners(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """Return the owners who may use an agent according to both settings."""
    if EVERYBODY in first or EVERYBODY in second:
        return tuple(second if EVERYBODY in first else first)
    return tuple(owner for owner in first if owner in second)
