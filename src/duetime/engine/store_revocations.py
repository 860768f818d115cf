"""The part of a store that records what is no longer valid: revoked tokens, ended sessions, used links, rotated keys.

The store holds only ids and counts, never the secret that signs tokens and from which signing keys are derived.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from duetime.engine.clock import Instant


class Revocation(NamedTuple):
    """The id of a token, session or link that is no longer valid."""

    id: str
    at: Instant
    expires: Instant
    """When it would have expired anyway: from then on this record is not needed."""


class Revocations(Protocol):
    """A starred method (*) is one write transaction."""

    def revoke(self, revocations: Sequence[Revocation], now: Instant) -> list[str]:
        """* Record them and return the ids that were not revoked before; delete those that expired before `now`."""

    def revoked(self, first: str, second: str) -> list[str]:
        """Return which of two ids are revoked."""

    def signing_generation(self, owner: str) -> int:
        """Return the generation of an owner's signing key, which every rotation raises."""

    def rotate_signing_key(self, owner: str, now: Instant, least: int, limit: int) -> int | None:
        """* Rotate and return the generation, greater than `least`; None after `limit` rotations within an hour."""
