"""The interface of a kind of work: it checks the payload of a new schedule, and executes a run when it is due."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Protocol

from duetime.engine import model
from duetime.engine.actor import UNKNOWN, Actor
from duetime.engine.clock import Instant
from duetime.engine.outcome import Outcome, Returned, Skipped
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.gates import GateGift
from duetime.engine.policy.options import Policy, policy_from_json
from duetime.engine.scopes import Scopes, lacking
from duetime.engine.value_class import NamedTuple, dataclass
from duetime.engine.worker.lease import Lease


class StopReason(StrEnum):
    CANCELLED = "cancelled"  # requested by a caller
    TIMEOUT = "timeout"  # the run's timeout has passed
    LEASE = "lease"  # the worker may no longer act: the run may belong to another worker
    SHUTDOWN = "shutdown"  # the worker is stopping and its grace period is over


STOPPED: Final = {
    StopReason.CANCELLED: "stopped on request",
    StopReason.LEASE: "its worker lost its lease before it was done",
    StopReason.SHUTDOWN: "the worker stopped before it was done",
}
"""The error of a run that was stopped; a run that timed out names its timeout instead."""


_creating = threading.Lock()


class StopSignal:
    """An event that is allocated only when something waits for it, because most runs end before that."""

    __slots__ = ("_event", "reason")

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        """The reason to stop; the first one given stays."""
        self._event: threading.Event | None = None

    def is_set(self) -> bool:
        return self.reason is not None

    def set(self, reason: StopReason) -> None:
        with _creating:
            if self.reason is None:
                self.reason = reason
            if self._event is not None:
                self._event.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Return True as soon as the run should stop, False if the timeout passes first."""
        with _creating:
            if self.reason is not None:
                return True
            if self._event is None:
                self._event = threading.Event()
        return self._event.wait(timeout)


LOCAL = model.LOCAL
_MOST_SHOWN = 500
"""Maximum characters of what a gate saw that a message shows."""


class Caller(NamedTuple):
    """The identity behind a request. An `operator` can also see and change what belongs to other owners."""

    owner: str
    operator: bool = False
    depth: int = 0
    holder: str = LOCAL
    """The holder of runs that this caller takes: the id of its token. A session id would not work, because over HTTP
    every request of the newer protocol is a session of its own. Without tokens (stdio, CLI, Python), all callers are
    the same holder."""
    grant: str | None = None
    """What the agent's run behind this caller may use, as JSON that its kind understands; None for everybody else.
    Whatever the run schedules gets no more than that."""
    actor: Actor = UNKNOWN
    """Who calls, and through which interface; stored with what this caller creates, edits, starts and retries."""
    scopes: Scopes = ()
    """The scopes of the caller's token that limit it; without any, it may do everything that its owner may."""

    def sees(self, owner: str, kind: str) -> bool:
        return (self.operator or owner == self.owner) and not (self.scopes and lacking(self.scopes, f"kind:{kind}"))


class Prepared(NamedTuple):
    """A validated payload, and the subject under which its schedule is filed (a task, a topic or an agent)."""

    payload: Mapping[str, Any]
    subject: str
    policy: Mapping[str, Any] = MappingProxyType({})
    """Policy defaults that follow from this payload."""
    agree: Callable[[Policy], None] = lambda policy: None
    """Raises InvalidInput if a policy would make the payload pointless; most payloads accept every policy."""
    check_cron: Callable[[str], None] = lambda expression: None
    """Raises InvalidTrigger for a valid cron expression that new schedules of this kind must not have."""
    text: str = ""
    """The field with the text that an author wrote, if an edit of the other fields does not change the author."""
    web: str = ""
    """The field through which something leaves the machine; empty if nothing does."""


@dataclass(slots=True)
class Work:
    """A run for a kind to execute."""

    claim: Claim
    stop: StopSignal
    report: Callable[[str], None]
    """Reports progress to users; only the latest text is kept."""
    lease: Lease | None = None
    """The worker's lease, if a worker executes the run: child processes must end before the lease does."""
    event: model.EventRow | None = None
    """The event that started the run."""
    gift: GateGift | None = None
    """What the gate of its schedule gave to the run; None if there is no gate."""

    @property
    def payload(self) -> Any:
        return json.loads(self.claim.definition.payload)

    @property
    def policy(self) -> Policy:
        return policy_from_json(self.claim.definition.policy)

    @property
    def depth(self) -> int:
        """The number of agent runs between a person and this run."""
        depth = self.claim.definition.depth
        return depth if self.event is None else max(depth, self.event.depth)

    def filled(self, payload: Mapping[str, Any], fields: Sequence[str], **how: bool) -> Mapping[str, Any]:
        """Return the payload, of which these fields have the values of the event that started the run."""
        if self.event is None:
            return payload
        from duetime.engine.event_templates import Filling  # few runs need it

        fill = Filling(json.loads(self.event.data)).fill
        return {name: fill(value, **how) if name in fields else value for name, value in payload.items()}

    def with_gate_result(self, message: str) -> str:
        """Return a message to a person, with what the gate saw at its end."""
        text = "" if self.gift is None else self.gift.text
        brief = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
        return f"{message}\n\n{brief}" if brief else message


class Gates(Protocol):
    """The attribute `gates` of the kind that knows the tasks of gates, the conditions `only_if` of schedules."""

    def check(self, gate: str, caller: Caller) -> None:
        """Check the gate of a new or edited schedule. Raises InvalidInput, naming the field."""

    def closed_host(self, gate: str) -> str | None:
        """Return a host that the gate may not call, as far as that is known without looking it up."""

    def look(self, gate: str, memory: str | None, work: Work) -> GateGift | Skipped | Returned:
        """Check whether the work is to be done. May raise: the gate failed. A run whose tasks are not known here is
        returned. If there is nothing new to remember, the memory of the answer is None."""


def gates_of(kinds: Mapping[str, Kind]) -> Gates | None:
    return next((kind.gates for kind in kinds.values() if hasattr(kind, "gates")), None)


class ThreadUse(StrEnum):
    """The share of a worker's threads that the runs of a kind get."""

    SHARED = "shared"
    # a quarter of the threads is reserved for such kinds, because their runs are short and urgent
    RESERVED = "reserved"
    CAPPED = "capped"  # such kinds use at most half of the threads, because their runs are long


def lane_names(kinds: Mapping[str, Kind]) -> dict[str, ThreadUse]:
    """Return the names with which the lanes of a worker begin: its kinds, and its kinds with each of their `labels`."""
    return {
        model.with_label(name, label): kind.thread_use
        for name, kind in kinds.items()
        for label in (None, *getattr(kind, "labels", ()))
    }


class Kind(Protocol):
    name: str
    defaults: Mapping[str, Any]
    """Policy defaults of this kind, where they differ from the general ones."""
    counts_depth: bool
    """False if its runs start no further agent, in which case a run of any depth may schedule them."""
    thread_use: ThreadUse
    remembered: tuple[str, ...]
    """Payload fields that are kept when a schedule is deleted, because its runs show them; most kinds need none."""

    def scopes_for(self, definition: model.Definition) -> Scopes:
        """Return the scopes that a token which has scopes needs for a schedule, besides its kind, such as
        `agent:claude`."""

    def public_id(self, now: Instant, trigger_type: str) -> str:
        """Return the pattern of public ids; `{id}` is a placeholder for the schedule's number. One-offs may have a
        pattern of their own."""

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        """Validate a payload. Raises InvalidInput, naming the field."""

    def execute(self, work: Work) -> Outcome:
        """Execute a run, in a thread of the pool. May raise: an exception is a failed attempt."""

    def close(self) -> None:
        """Stop what this kind has started: event loops, child processes."""
