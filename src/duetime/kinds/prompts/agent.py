"""What an agent is woken with, and what wakes it: the words that prompts and agents share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from duetime.engine.clock import Instant
from duetime.engine.kind import StopSignal
from duetime.engine.outcome import Outcome
from duetime.engine.usage import UNLIMITED, Left
from duetime.engine.worker.lease import Lease


class Access(NamedTuple):
    """How this one run reaches Duetime's tools: a server at a URL with a token, or a command that speaks over stdio."""

    url: str | None
    token: str
    command: Sequence[str] = ()
    env: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Errand:
    """One prompt run in the hands of an agent."""

    run: int
    fence: int
    """Of this attempt: together they say in whose hands is what it takes (`run_holder`)."""
    task: int
    """The number by which people know the schedule."""
    owner: str
    prompt: str
    """What the owner stored, as it is."""
    text: str
    """The same, framed: who stored it, when, and that it is data. This is what an agent is given."""
    stored: Instant
    due: Instant
    depth: int
    """Of what this run schedules: one more than its own."""
    patience: float
    """Seconds until its time is up."""
    access: Access
    stop: StopSignal
    report: Callable[[str], None]
    deeper: Callable[[int], Access]
    """The same access for a run that also does what others stored, at their depth."""
    zone: str = ""
    """In which its owner reads times, and its token too; empty means that of the installation."""
    left: Left = UNLIMITED
    """What the limits of the day leave to this run. Who cannot keep to it is only stopped before the next one."""
    lease: Lease | None = None
    """The worker's right to act: a program that an agent starts must end before it does."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run used, where the agent reports it."""

    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back. `error` is None where the agent did what it was asked for."""

    text: str = ""
    outcome: Any = None
    """Structured, where the agent gives such."""
    tool_calls: Sequence[Mapping[str, Any]] = ()
    denied: Sequence[str] = ()
    """Tools that it was not allowed: a run that was denied one did not succeed."""
    spent: Spent = field(default_factory=Spent)
    exit_code: int | None = None
    error: str | None = None
    permanent: bool = False
    """True where trying again cannot help: a missing program, a setting that is wrong."""
    waiting_until: Instant | None = None
    """Set where the answer comes later, by a callback: the run waits until then."""
    earlier_calls: int = 0
    """Made before `tool_calls`: a long run's last ones tell more than its first, and only these are remembered."""


BROKE_OFF = Reply(error="it broke off")
"""Stands for the answer of an agent until it gives one."""


def goes_on(answer: Reply | Outcome) -> bool:
    """Its agent answers later, with the same token: what it took stays in its hands."""
    return isinstance(answer, Reply) and answer.waiting_until is not None


class Agent(Protocol):
    def wake(self, errand: Errand) -> Reply | Outcome:
        """One attempt, in a thread of the pool. It watches `errand.stop` and its patience, and ends what it started
        before it returns; never raises for what an agent, a network or a model does. An Outcome decides by itself, for
        example `Returned` where the work is given back."""

    def close(self) -> None: ...
