"""Local records of notifications that an external service stores and fires: their owner and what was requested."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

from duetime.engine.clock import Instant
from duetime.engine.result import Result


class RemoteKind(StrEnum):
    SCHEDULE = "schedule"
    MESSAGE = "message"


class RemoteState(StrEnum):
    ASKED = "asked"  # a request to the service is in progress, or its process died meanwhile
    UNSURE = "unsure"  # the request failed as far as is known, but the service may have it all the same
    THERE = "there"  # the service has confirmed it
    PAUSED = "paused"


class Remote(NamedTuple):
    """Written before the service is called, so that a request whose response was lost can be repeated unchanged."""

    id: str
    owner: str
    kind: str
    topic: str
    trigger: str
    payload: str
    at: Instant | None
    """When a one-off fires; None for a recurring one."""
    remote: str | None
    """The service's own id for it, once known."""
    state: str
    key: str
    fingerprint: str
    created: Instant
    updated: Instant


class Mark(NamedTuple):
    """The fields of a record that differ after a change."""

    id: str
    state: str
    updated: Instant
    at: Instant | None
    trigger: str


class Remotes(Protocol):
    """The part of a store that keeps these records. A starred method (*) is one write transaction."""

    def keep_remote(self, remote: Remote, limit: int) -> Result[Remote]:
        """* Insert it, or return what its owner's key created. `limit` caps what an owner has, local and remote."""

    def repeat_remote(self, owner: str, fingerprint: str, since: Instant, now: Instant) -> Remote | None:
        """* Claim an unsure record with the same arguments, to repeat its request; nobody else gets it meanwhile."""

    def update_remote(self, remote: Remote) -> None:
        """* Update its time, its remote id and its state."""

    def forget_remote(self, id: str) -> None:
        """* Delete it, which frees its key."""

    def remote(self, id: str) -> Remote | None: ...

    def remote_by_key(self, owner: str, key: str) -> Remote | None: ...

    def remotes(self, owner: str, now: Instant, topic: str | None = None) -> list[Remote]:
        """Return an owner's records in order of creation, without one-offs whose time has passed."""

    def remote_marks(self, owner: str, topic: str, now: Instant) -> list[Mark]:
        """Return the marks of these records; cheap, for callers that poll several times a second."""
