"""Looks names up with an end to its patience."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

# Work of others that cannot be interrupted, done in a thread that may be left behind when its time is up.

T = TypeVar("T")


class Abandoned(Exception):
    """It was not done in time; its thread may still be at it, and does not keep the process from ending."""


class NoneFree(Exception):
    """Too many were left behind, so that this one was not begun."""


class Helpers:
    """At most so many at once, those included that were left behind: more than workers usually have threads, so that
    only those use them up."""

    def __init__(self, most: int = 128) -> None:
        self._free = threading.BoundedSemaphore(most)

    def run(self, work: Callable[[], T], within: float) -> T:
        """`work` must not raise. Nobody waits for a helper: it would cost time that is not there any more."""
        if not self._free.acquire(blocking=False):
            raise NoneFree
        done: SimpleQueue[T] = SimpleQueue()
        threading.Thread(target=self._work, args=(work, done), name="duetime-helper", daemon=True).start()
        try:
            return done.get(timeout=within)
        except Empty:
            raise Abandoned from None

    def _work(self, work: Callable[[], T], done: SimpleQueue[T]) -> None:
        try:
            done.put(work())
        finally:
            self._free.release()


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
