"""Name lookups with a timeout."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

# Calls that cannot be interrupted run in a thread that is abandoned when their time is up.

T = TypeVar("T")


class Abandoned(Exception):
    """The work was not done in time; its thread may still run, but does not keep the process from ending."""


class NoneFree(Exception):
    """Too many threads were abandoned, so this work was not started."""


class Helpers:
    """Runs at most `most` threads at once, including abandoned ones. That is more than workers usually have threads, so
    only abandoned ones can use them up."""

    def __init__(self, most: int = 128) -> None:
        self._free = threading.BoundedSemaphore(most)

    def run(self, work: Callable[[], T], within: float) -> T:
        """Run `work`, which must not raise. Do not wait for a free thread: that would use up the caller's time."""
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
"""A function that is called like `socket.getaddrinfo`."""


class Unresolved(Exception):
    """A name has no address at present. Never permanent: without a network, no name has one."""


class Resolver:
    """Looks up names. A lookup cannot be interrupted, so each runs in its own thread, which may be abandoned."""

    def __init__(self, lookup: Lookup = socket.getaddrinfo) -> None:
        self._lookup = lookup
        self._helpers = Helpers()

    def addresses(self, host: str, port: int, within: float) -> list[str]:
        """Return every address of the host once, in the order in which they should be tried."""
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
