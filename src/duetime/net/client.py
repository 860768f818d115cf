"""HTTP client: one deadline for each call, bounded answers, no redirects, no proxy from the environment.

A call is checked before any part of it is sent.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from duetime.engine import trace_context
from duetime.engine.clock import Clock
from duetime.net.calls import CallFailed, HttpAnswer, HttpCall, checked
from duetime.net.ssrf_guard import Guard, Resolver

if TYPE_CHECKING:
    import ssl

    import httpcore2

    from duetime.net.exchange import Exchange


__all__ = ["CallFailed", "Http", "HttpAnswer", "HttpCall"]


class Http:
    """HTTP client, without a guard for the operator's own addresses, or with one for addresses that an agent gave.
    Connections are reused, so the two must not share a client."""

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
        """`connections`: at least as many as threads that send. `resends`: send again if a reused connection turns out
        to be dead; False for a caller that must know of every loss. `dialler` and `trust` replace the real network and
        the known certificate authorities."""
        self._clock = clock
        self._find = Resolver().addresses if guard is None else guard.check
        self._options: dict[str, Any] = {"connections": connections, "largest": largest, "resends": resends}
        self._options |= {"dialler": dialler, "trust": trust}
        self._opening = threading.Lock()
        self._exchange: Exchange | None = None

    def send(self, call: HttpCall) -> HttpAnswer:
        """Return the answer, whatever its status. Raise CallFailed if there is none."""
        if headers := trace_context.headers():
            own = {name.lower() for name in call.headers}
            call = call._replace(headers={**call.headers, **{n: v for n, v in headers.items() if n not in own}})
        return self.open().send(checked(call), call.patience)

    def close(self) -> None:
        with self._opening:
            if self._exchange is not None:
                self._exchange.close()
                self._exchange = None

    def open(self) -> Exchange:
        """Return the exchange, which is created on first use because the library is slow to load and most commands make
        no calls. Calling this in advance loads what the first call would have to wait for."""
        with self._opening:
            if self._exchange is None:
                from duetime.net.exchange import Exchange

                self._exchange = Exchange(self._clock, self._find, **self._options)
            return self._exchange
