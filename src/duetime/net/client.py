"""HTTP client: one deadline for each call, bounded answers, no redirects, no proxy from the environment."""

from __future__ import annotations

import ssl
import threading
from typing import TYPE_CHECKING

from duetime.engine.clock import Clock
from duetime.net.dns import Resolver
from duetime.net.messages import Answer, Call, CallFailed, checked
from duetime.net.ssrf_guard import Guard

if TYPE_CHECKING:
    import httpcore2

    from duetime.net.exchange import Exchange

__all__ = ["Answer", "Call", "CallFailed", "Http"]


class Http:
    """HTTP client without a guard for the operator's own addresses, or with one for addresses that an agent gave.
    Connections are reused, so the two must not be the same client."""

    def __init__(
        self,
        clock: Clock,
        guard: Guard | None,
        *,
        connections: int = 32,
        largest: int = 64 * 1024,
        resends: bool = True,
        dialler: httpcore2.NetworkBackend | None = None,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        """`connections`: at least as many as threads that send. `resends`: send again if a kept connection turns out to
        be dead; False for a caller that must know of every loss. `dialler` and `trust` replace the real network and
        the known certificate authorities."""
        self._clock = clock
        self._find = Resolver().addresses if guard is None else guard.check
        self._connections = connections
        self._largest = largest
        self._resends = resends
        self._dialler = dialler
        self._trust = trust
        self._opening = threading.Lock()
        self._exchange: Exchange | None = None

    def send(self, call: Call) -> Answer:
        """Return the answer, whatever its status. Raise CallFailed if there is none."""
        return self._opened().send(checked(call), call.patience)

    def open(self) -> None:
        """Load in advance what the first call would have to wait for."""
        self._opened()

    def close(self) -> None:
        with self._opening:
            if self._exchange is not None:
                self._exchange.close()
                self._exchange = None

    def _opened(self) -> Exchange:
        """Return the exchange, created on first use: the library is slow to load, and most commands call nobody."""
        with self._opening:
            if self._exchange is None:
                from duetime.net.exchange import Exchange

                self._exchange = Exchange(
                    self._clock,
                    self._find,
                    connections=self._connections,
                    largest=self._largest,
                    resends=self._resends,
                    dialler=self._dialler,
                    trust=self._trust,
                )
            return self._exchange
