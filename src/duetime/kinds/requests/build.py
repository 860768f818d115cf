"""Builds the request kind, its sender and its signing keys."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING

from duetime.engine.clock import Clock
from duetime.engine.outcome import Outcome
from duetime.engine.store_interfaces import Revocations
from duetime.kinds.requests.kind import RequestKind
from duetime.kinds.requests.wire import Outgoing, Requester
from duetime.service.kind_spec import BuildContext
from duetime.settings import Settings

if TYPE_CHECKING:
    from duetime.kinds.requests.signing_keys import SigningKeys


def build(context: BuildContext) -> RequestKind:
    return RequestKind(OpenedByUse(context.settings, context.store, context.clock), context.clock)


def signing_keys(settings: Settings, store: Revocations, clock: Clock) -> SigningKeys:
    """Return the signing keys, equal on all nodes: derived from the token secret and the store's rotation count."""
    from duetime.kinds.requests.signing_keys import SigningKeys
    from duetime.security.private_files import load_secret

    folder = settings.path_of_keys()
    return SigningKeys(partial(load_secret, folder, os.environ), folder, store, clock)


class OpenedByUse:
    """Opens the real requester on first use, because most commands send nothing and it is slow to load."""

    def __init__(self, settings: Settings, store: Revocations, clock: Clock) -> None:
        self._settings, self._store, self._clock = settings, store, clock
        self._opening = threading.Lock()
        self._opened: Requester | None = None
        if settings.allowed_hosts:  # report an invalid list at once, not with the first request
            from duetime.net.ssrf_guard import Guard

            Guard(settings.allowed_hosts)

    @cached_property
    def keys(self) -> SigningKeys:
        """Keys shared by the whole process, so that a rotation takes effect at once everywhere in it."""
        return signing_keys(self._settings, self._store, self._clock)

    def host_of(self, url: str) -> str:
        return self._requester().host_of(url)

    def send(self, outgoing: Outgoing) -> Outcome:
        return self._requester().send(outgoing)

    def close(self) -> None:
        with self._opening:
            if self._opened is not None:
                self._opened.close()

    def _requester(self) -> Requester:
        with self._opening:
            if self._opened is None:
                self._opened = open_requester(self._settings, self._clock, self.keys.current)
            return self._opened


def open_requester(settings: Settings, clock: Clock, key_of: Callable[[str], str]) -> Requester:
    """Return a requester with an SSRF guard, because clients give the URLs. `key_of` returns an owner's signing key."""
    from duetime.kinds.requests.sender import Requests
    from duetime.net.client import Http
    from duetime.net.host_limits import Hosts
    from duetime.net.ssrf_guard import Guard

    http = Http(clock, Guard(settings.allowed_hosts), connections=settings.threads)
    return Requests(clock, http, Hosts(clock, settings.threads), key_of)
