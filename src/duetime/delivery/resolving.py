"""Looks names up with an end to its patience."""

from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, TypeAlias

from duetime.delivery.abandoning import Abandoned, Helpers, NoneFree

Lookup: TypeAlias = Callable[..., list[tuple[Any, ...]]]
"""Called as `socket.getaddrinfo` is."""


class Unresolved(Exception):
    """A name has no address just now. Never permanent: a machine without a network says so of every name."""


class Resolver:
    """A lookup cannot be interrupted, so each has a thread of its own that may be left behind."""

    def __init__(self, lookup: Lookup = socket.getaddrinfo) -> None:
        self._lookup = lookup
        self._helpers = Helpers()

    def addresses(self, host: str, port: int, within: float) -> list[str]:
        """Every address of the host, each once, in the order in which they should be tried."""
        if _is_address(host):
            return [host]
        try:
            found = self._helpers.run(lambda: self._look_up(host, port), within)
        except NoneFree:
            reason = f"{host} was not looked up, because too many lookups hang; check the name server"
            raise Unresolved(reason) from None
        except Abandoned:
            raise Unresolved(f"{host} could not be looked up in time") from None
        if not found:
            raise Unresolved(f"{host} was not found; check the name, or the network")
        return found

    def _look_up(self, host: str, port: int) -> list[str]:
        try:
            entries = self._lookup(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return []
        return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
