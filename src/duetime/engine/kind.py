"""What a kind of work is: it checks a payload when a schedule is made, and carries out a run when it is due."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from duetime.engine import ownership
from duetime.engine.clock import Instant
from duetime.engine.outcome import Outcome
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.options import Policy, policy_from_json
from duetime.engine.worker.lease import Lease


class StopReason(StrEnum):
    CANCELLED = "cancelled"  # somebody asked for it
    TIMEOUT = "timeout"  # its time is up
    LEASE = "lease"  # this worker may no longer act: the run may be somebody else's
    SHUTDOWN = "shutdown"  # the worker stops and its patience is over


_creating = threading.Lock()


class StopSignal:
    """An event that costs nothing until somebody waits for it: most runs end before anyone would."""

    __slots__ = ("_event", "_reason")

    def __init__(self) -> None:
        self._reason: StopReason | None = None
        self._event: threading.Event | None = None

    @property
    def reason(self) -> StopReason | None:
        """Why to stop; the first reason given stays."""
        return self._reason

    def is_set(self) -> bool:
        return self._reason is not None

    def set(self, reason: StopReason) -> None:
        with _creating:
            if self._reason is None:
                self._reason = reason
            if self._event is not None:
                self._event.set()

    def wait(self, timeout: float | None = None) -> bool:
        """True as soon as the run should stop, False when the time is over first."""
        with _creating:
            if self._reason is not None:
                return True
            if self._event is None:
                self._event = threading.Event()
        return self._event.wait(timeout)


LOCAL = ownership.LOCAL
"""Whoever sits at this machine: the owner of what is made without a token, and the holder of what it takes."""


class Caller(NamedTuple):
    """On whose behalf something is asked for. `operator` sees and may do more than its own."""

    owner: str
    operator: bool = False
    depth: int = 0
    holder: str = LOCAL
    """Whose hands a run is in that this caller takes: the id of its token. A session would not do, for over HTTP every
    request of the newer protocol is one of its own; without tokens (stdio, CLI, Python) all callers are one."""


def _any(_policy: Policy) -> None:
    """Most payloads go with every policy."""


class Prepared(NamedTuple):
    """A checked payload, and what its schedule is filed under (a task, a topic, an agent)."""

    payload: Mapping[str, Any]
    subject: str
    policy: Mapping[str, Any] = MappingProxyType({})
    """What this payload makes usual, where nothing else is asked for."""
    agree: Callable[[Policy], None] = _any
    """Raises InvalidInput where a policy would make it pointless."""


@dataclass(slots=True)
class Work:
    """One run in the hands of a kind."""

    claim: Claim
    stop: StopSignal
    report: Callable[[str], None]
    """Tells people how far it came; the latest text is kept."""
    lease: Lease | None = None
    """The worker's right to act, where a worker has it in hand: child processes must end before it does."""

    @property
    def payload(self) -> Any:
        return json.loads(self.claim.definition.payload)

    @property
    def policy(self) -> Policy:
        return policy_from_json(self.claim.definition.policy)


class Kind(Protocol):
    name: str
    defaults: Mapping[str, Any]
    """Policies that differ from the usual where nothing else is asked for."""
    remembered: tuple[str, ...]
    """The parts of a payload that outlive a deleted schedule, because its runs have to say them; most need none."""

    def public_id(self, now: Instant, trigger_type: str) -> str:
        """The form of its ids; `{id}` stands for the schedule's number. What fires once may be named otherwise."""

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        """Raises InvalidInput, naming the field."""

    def execute(self, work: Work) -> Outcome:
        """Called in a thread of the pool. May raise: an exception is a failed attempt."""

    def close(self) -> None:
        """Ends what it started: event loops, children."""
