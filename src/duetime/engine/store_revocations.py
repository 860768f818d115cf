"""The part of a store that keeps what no longer serves: revoked tokens, ended sessions, used links, rotated keys.

The store holds ids and counts alone. The secret that signs tokens, and from which signing keys follow, is never in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from duetime.engine.clock import Instant


class Revocation(NamedTuple):
    """The id of a token, session or link that serves nobody any more."""

    id: str
    at: Instant
    expires: Instant
    """When it would have ended anyway: from then on nobody needs this record."""


class Revocations(Protocol):
    """A starred method (*) is one write transaction."""

    def revoke(self, revocations: Sequence[Revocation], now: Instant) -> list[str]:
        """* Keeps them and returns the ids that were not revoked before; forgets those that expired before `now`."""

    def revoked(self, first: str, second: str) -> list[str]:
        """Which of two ids are revoked."""

    def signing_generation(self, owner: str) -> int:
        """How often an owner's signing key was rotated."""

    def rotate_signing_key(self, owner: str, now: Instant, least: int, limit: int) -> int | None:
        """* The generation after a rotation, which is beyond `least`; None after `limit` rotations within an hour."""
