"""Which connections may stay: in total, and of one address as long as no request of theirs was authenticated.

Whoever sends a valid token is never shut out by strangers: when there is no room, the oldest connection that has not
authenticated is closed. When all have, the owner with the most connections loses its oldest idle one.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from starlette.types import Scope

from duetime.http.descriptors import reserve_of, soft_limit

MOST: Final = 1000
BURST: Final = 4
"""An address may open this many times its limit at once: GRACE seconds later, most of a user's have authenticated."""
GRACE: Final = 1.0
CONNECTION: Final = "duetime.connection"
"""Where a request keeps the connection that it came by."""
OWNER: Final = "duetime.owner"
"""Where a request keeps whom it was authenticated as."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    total: int = 0
    """0 means half of the descriptors, and at most MOST."""
    per_address: int = 50
    """Connections of one address without an authenticated request."""
    trusted_proxies: Sequence[str] = ()
    """Addresses and networks to which `per_address` does not apply."""
    head_seconds: float = 10.0
    """For the whole head of a request, from the connection or the answer before."""
    body_seconds: float = 30.0
    """Without any progress in sending a body or in reading an answer."""

    def most(self) -> int:
        return self.total or max(1, min(MOST, soft_limit() // 2))


class Connection(Protocol):
    address: str
    owner: str | None
    """None until a request was authenticated."""

    @property
    def is_answering(self) -> bool:
        """Whether a request has come in whole and its answer is under way."""

    @property
    def descriptor(self) -> int: ...

    def drop(self) -> None:
        """Close it at once."""


def mark_authenticated(scope: Scope, owner: str) -> None:
    """From now on the request, and the connection that it came by if there is a real one, belong to this user."""
    scope[OWNER] = owner
    connection = scope.get(CONNECTION)
    if connection is not None:
        connection.authenticated(owner)


class ConnectionTable:
    """All open connections, the oldest first. Used by the thread of the server's loop alone."""

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
        """Make room for a new connection if need be; False when there is none, and it has to be closed."""
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
        """Close the oldest connections of an address that holds more than it may without having authenticated."""
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
        return self._drop_first(strangers) or self._drop_first(self._anonymous) or self._drop_of_the_largest_owner()

    def _drop_of_the_largest_owner(self) -> bool:
        [(owner, number)] = Counter(each.owner for each in self._authenticated).most_common(1) or [(None, 0)]
        fair = self._most // 4
        return number > fair and self._drop_first(each for each in self._authenticated if each.owner == owner)

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
