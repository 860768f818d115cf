"""The keys that sign requests."""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
from collections.abc import Callable
from functools import cache

from duetime.engine.clock import Clock, SystemClock
from duetime.engine.errors import DuetimeError, StoreUnavailable
from duetime.engine.store_interfaces import Revocations

KNOWN_FOR = 1.0
"""Seconds for which the number of rotations is cached; another node's rotation may take this long to take effect
here."""
MOST_PER_HOUR = 10
MOST_REMEMBERED = 10_000


class TooManyRotations(DuetimeError):
    """The key was rotated too often within the last hour."""

    code = "too_many"


class SigningKeys:
    """A sequence of keys for each owner, derived from the installation's secret. Only the number of rotations is kept,
    in the store, so that every node signs with the same key."""

    def __init__(self, secret: Callable[[], bytes], store: Revocations, clock: Clock) -> None:
        """`secret` is called only for the first key, because most commands need none and the call creates a missing
        secret."""
        self._secret, self._store, self._clock = cache(secret), store, clock
        self._monotonic = SystemClock().monotonic
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, int]] = {}

    def current(self, owner: str) -> str:
        return self._key(owner, self._generation(owner))

    def both(self, owner: str) -> tuple[str, str]:
        """Return the current key and the next one."""
        generation = self._generation(owner)
        return self._key(owner, generation), self._key(owner, generation + 1)

    def rotate(self, owner: str) -> None:
        """Rotate the key. Concurrent calls, even on different nodes, are separate rotations."""
        generation = self._store.rotate_signing_key(owner, self._clock.now(), MOST_PER_HOUR)
        if generation is None:
            raise TooManyRotations(
                f"the signing key was rotated {MOST_PER_HOUR} times within an hour; use the current one, and rotate it"
                " when the hour is over"
            )
        self._remember(owner, generation)

    def _generation(self, owner: str) -> int:
        """Return the number of rotations; the cached one while the store is unavailable, when nobody can rotate."""
        known = self._known.get(owner)
        if known is not None and self._monotonic() - known[0] < KNOWN_FOR:
            return known[1]
        try:
            generation = self._store.signing_generation(owner)
        except StoreUnavailable:
            if known is None:
                raise
            return known[1]
        self._remember(owner, generation)
        return generation

    def _remember(self, owner: str, generation: int) -> None:
        with self._lock:
            if len(self._known) > MOST_REMEMBERED:
                self._known.clear()
            self._known[owner] = self._monotonic(), generation

    def _key(self, owner: str, generation: int) -> str:
        message = f"sign requests\0{generation}\0{owner}".encode()
        digest = hmac.new(self._secret(), message, hashlib.sha256).digest()
        return f"sig_{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"
