"""The local record of notifications that another service keeps and fires: whose they are, and what was asked for."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

from duetime.engine.clock import Instant
from duetime.engine.result import Result


class RemoteKind(StrEnum):
    SCHEDULE = "schedule"
    MESSAGE = "message"


class RemoteState(StrEnum):
    ASKED = "asked"  # somebody is asking the service for it right now, or died while doing so
    UNSURE = "unsure"  # asked for in vain, as far as we heard: the service may have it all the same
    THERE = "there"  # the service has said that it has it
    PAUSED = "paused"


class Remote(NamedTuple):
    """Made before the service is asked, so that a request whose answer was lost can be repeated as the same one."""

    id: str
    owner: str
    kind: str
    topic: str
    trigger: str
    payload: str
    at: Instant | None
    """When a one-off goes out; a recurring one has none."""
    remote: str | None
    """What the service calls it, once it said so."""
    state: str
    key: str
    fingerprint: str
    created: Instant
    updated: Instant


class Mark(NamedTuple):
    """What of a record differs after a change."""

    id: str
    state: str
    updated: Instant
    at: Instant | None
    trigger: str


class Remotes(Protocol):
    """The part of a store that keeps them. A starred method (*) is one write transaction."""

    def keep_remote(self, remote: Remote, limit: int) -> Result[Remote]:
        """* Keeps it, or returns what its owner's key made before. `limit` caps what an owner has, here and there."""

    def repeat_remote(self, owner: str, fingerprint: str, since: Instant, now: Instant) -> Remote | None:
        """* An unsure one for the same arguments, which is then asked for again; nobody else gets it meanwhile."""

    def update_remote(self, remote: Remote) -> None:
        """* Its time, its name there, its state."""

    def forget_remote(self, id: str) -> None:
        """* It is gone, and its key is free."""

    def remote(self, id: str) -> Remote | None: ...

    def remote_by_key(self, owner: str, key: str) -> Remote | None: ...

    def remotes(self, owner: str, now: Instant, topic: str | None = None) -> list[Remote]:
        """In the order in which they were made; without one-offs whose time has come."""

    def remote_marks(self, owner: str, topic: str, now: Instant) -> list[Mark]:
        """The same, narrow: for whoever asks several times a second."""
