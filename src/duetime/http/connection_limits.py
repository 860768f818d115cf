"""Limits on open connections: in total, and per address for those without an authenticated request.

Unauthenticated clients cannot lock out users with a valid token: at the limit, the oldest unauthenticated connection
is closed. If all are authenticated, the owner with the most connections loses its oldest idle one; if none has more
than its share, one that has been idle for a while is closed.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from starlette.types import Scope

from duetime.service.owner_limits import Shares
from duetime.settings import Settings

# Limits on file descriptors: of this process, and those that connections may not use.

TARGET: Final = 4096
"""More than a server ever uses; a higher limit would only slow down child processes, which close all of their
descriptors."""


def raise_soft_limit(target: int = TARGET) -> int:
    """Raise the soft limit towards the hard one, and return the limit that is then in force."""
    if soft_limit() < target:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = target if hard == resource.RLIM_INFINITY else min(target, hard)
        with suppress(OSError, ValueError):  # some systems have a further limit; the one in force is what counts
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
    return soft_limit()


def soft_limit() -> int:
    try:
        import resource
    except ModuleNotFoundError:
        return TARGET  # Windows has no such limit
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return TARGET if soft == resource.RLIM_INFINITY else soft


def reserve_of(limit: int) -> int:
    """Return how many descriptors connections may not use, because the store, child processes and files need them."""
    return max(16, min(256, limit // 8))


MAX_CONNECTIONS: Final = 1000
BURST: Final = 4
"""How many times its limit an address may open at once: GRACE seconds later, most of a user's connections are
authenticated."""
GRACE: Final = 1.0
SPARE_AFTER: Final = 5.0
"""Seconds after which an authenticated idle connection may be closed for a new one."""
CONNECTION: Final = "duetime.connection"
"""Key of the ASGI scope that holds the connection."""
OWNER: Final = "duetime.owner"
"""Key of the ASGI scope that holds the authenticated owner."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    total: int = 0
    """0 means half of the file descriptors, at most MAX_CONNECTIONS."""
    per_address: int = 50
    """Maximum connections of one address without an authenticated request."""
    trusted_proxies: Sequence[str] = ()
    """Addresses and networks to which `per_address` does not apply."""
    head_seconds: float = 10.0
    """Deadline for the whole head of a request. It is counted from the connection, from the previous response if nobody
    has authenticated on the connection, and otherwise from the first byte."""
    body_seconds: float = 30.0
    """Maximum time without progress while the client sends a body or reads a response."""

    def most(self) -> int:
        return self.total or max(1, min(MAX_CONNECTIONS, soft_limit() // 2))


class Connection(Protocol):
    address: str
    owner: str | None
    """None until a request was authenticated."""

    @property
    def is_answering(self) -> bool:
        """Return whether a complete request was received and its response is in progress."""

    @property
    def is_spare(self) -> bool:
        """Return whether it has waited for a request for more than SPARE_AFTER seconds."""

    @property
    def descriptor(self) -> int: ...

    def drop(self) -> None:
        """Close it at once."""


def mark_authenticated(scope: Scope, owner: str) -> None:
    """Assign the request, and its connection if there is a real one, to this owner."""
    scope[OWNER] = owner
    connection = scope.get(CONNECTION)
    if connection is not None:
        connection.authenticated(owner)


class ConnectionTable:
    """All open connections, oldest first. Use it only from the thread of the server's event loop."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._most = limits.most()
        self._highest = soft_limit() - reserve_of(soft_limit())
        self._trusted = [ipaddress.ip_network(each, strict=False) for each in limits.trusted_proxies]
        self._anonymous: dict[Connection, None] = {}
        self._authenticated: dict[Connection, None] = {}
        self._strangers: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._anonymous) + len(self._authenticated)

    def admit(self, connection: Connection) -> bool:
        """Register a new connection, dropping another if necessary; return False if it must be closed instead."""
        address = connection.address
        is_flooding = self._strangers.get(address, 0) >= BURST * self.limits.per_address
        if is_flooding and not self._is_trusted(address) and not self._drop_first(self._of(address)):
            return False
        if (len(self) >= self._most or connection.descriptor >= self._highest) and not self._make_room():
            return False
        self._anonymous[connection] = None
        self._strangers[address] += 1
        return True

    def is_crowded(self, address: str) -> bool:
        return self._strangers.get(address, 0) > self.limits.per_address and not self._is_trusted(address)

    def trim(self, address: str) -> None:
        """Close the oldest unauthenticated connections of an address that exceeds its limit."""
        while self.is_crowded(address) and self._drop_first(self._of(address)):
            pass

    def _of(self, address: str) -> Iterable[Connection]:
        return (each for each in self._anonymous if each.address == address)

    def authenticated(self, connection: Connection, owner: str) -> None:
        connection.owner = owner
        if connection in self._anonymous:
            self._forget_stranger(connection)
            self._authenticated[connection] = None

    def discard(self, connection: Connection) -> None:
        if connection in self._anonymous:
            self._forget_stranger(connection)
        self._authenticated.pop(connection, None)

    def _forget_stranger(self, connection: Connection) -> None:
        del self._anonymous[connection]
        self._strangers[connection.address] -= 1
        if not self._strangers[connection.address]:
            del self._strangers[connection.address]

    def _make_room(self) -> bool:
        strangers = (each for each in self._anonymous if not self._is_trusted(each.address))
        return self._drop_first(strangers) or self._drop_first(self._anonymous) or self._drop_an_authenticated()

    def _drop_an_authenticated(self) -> bool:
        [(owner, number)] = Counter(each.owner for each in self._authenticated).most_common(1) or [(None, 0)]
        fair = self._most // 4
        if number > fair and self._drop_first(each for each in self._authenticated if each.owner == owner):
            return True
        return self._drop_first(each for each in self._authenticated if each.is_spare)

    def _drop_first(self, connections: Iterable[Connection]) -> bool:
        victim = next((each for each in connections if not each.is_answering), None)
        if victim is None:
            return False
        self.discard(victim)
        victim.drop()
        return True

    def _is_trusted(self, address: str) -> bool:
        if not self._trusted:
            return False
        try:
            known = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(known in network for network in self._trusted)


# The limits of the HTTP server, from the settings.


def connection_limits(settings: Settings) -> ConnectionLimits:
    return ConnectionLimits(
        total=settings.max_connections,
        per_address=settings.max_connections_per_address,
        trusted_proxies=settings.trusted_proxies,
        head_seconds=settings.head_timeout,
        body_seconds=settings.body_timeout,
    )


def owner_shares(settings: Settings) -> Shares:
    return Shares(
        requests=settings.max_requests_at_once,
        sessions=settings.max_sessions,
        streams=settings.max_streams,
        watches=settings.max_watches,
    )
