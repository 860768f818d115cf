"""Looks names up with an end to its patience."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

Lookup: TypeAlias = Callable[..., list[tuple[Any, ...]]]
"""Called as `socket.getaddrinfo` is."""

_AT_ONCE = 128
"""More than any worker has threads: only lookups that were left behind can use them up."""


class Unresolved(Exception):
    """A name has no address just now. Never permanent: a machine without a network says so of every name."""


class Resolver:
    """A lookup cannot be interrupted, so each has a thread of its own that may be left behind; their number is bounded,
    and none of them keeps the process from ending."""

    def __init__(self, lookup: Lookup = socket.getaddrinfo) -> None:
        self._lookup = lookup
        self._free = threading.BoundedSemaphore(_AT_ONCE)

    def addresses(self, host: str, port: int, within: float) -> list[str]:
        """Every address of the host, each once, in the order in which they should be tried."""
        if _is_address(host):
            return [host]
        if not self._free.acquire(blocking=False):
            raise Unresolved(f"{host} was not looked up, because too many lookups hang; check the name server")
        found: SimpleQueue[list[str] | Exception] = SimpleQueue()
        threading.Thread(target=self._look_up, args=(host, port, found), name="lookup", daemon=True).start()
        try:
            answer = found.get(timeout=within)
        except Empty:
            raise Unresolved(f"{host} could not be looked up in time") from None
        if isinstance(answer, Exception) or not answer:
            raise Unresolved(f"{host} was not found; check the name, or the network") from None
        return answer

    def _look_up(self, host: str, port: int, found: SimpleQueue[list[str] | Exception]) -> None:
        try:
            entries = self._lookup(host, port, type=socket.SOCK_STREAM)
            found.put(list(dict.fromkeys(str(entry[4][0]) for entry in entries)))
        except (OSError, UnicodeError) as error:
            found.put(error)
        finally:
            self._free.release()


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
