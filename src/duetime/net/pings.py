"""Calls the monitoring addresses of schedules when their runs start, succeed and fail."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from duetime.engine.clock import SystemClock
from duetime.engine.lazy_logger import lazy_logger
from duetime.engine.model import RunStatus
from duetime.engine.policy.options import policy_for_ending
from duetime.engine.policy.rows import RunEvent
from duetime.engine.value_class import NamedTuple

if TYPE_CHECKING:
    from duetime.net.client import Http

log = lazy_logger("duetime.ping")

_SUFFIXES: Final = {
    RunStatus.RUNNING: "/start",
    RunStatus.COMPLETED: "",
    RunStatus.SKIPPED: "",  # its gate let nothing pass, which is how it should be
    RunStatus.FAILED: "/fail",
    RunStatus.LOST: "/fail",
}
"""What is added to the path of an address, as most monitoring services expect it."""
_THREADS: Final = 8
_SLOW_THREADS: Final = 4
"""Number of threads that addresses may use together which did not answer the last time."""
_MAX_WAITING: Final = 8
"""Number of calls that wait for one address; the oldest ones are dropped, because they say least about now."""
_TIMEOUT: Final = 5.0


class _Ping(NamedTuple):
    schedule: str
    owner: str
    address: str


class Pings:
    """An observer of the store. Each call is tried once, and nothing waits for it. The calls to one address are made
    one after the other, so that they arrive in order."""

    def __init__(self, allowed_hosts: Sequence[str]) -> None:
        self._clock = SystemClock()
        self._allowed_hosts = tuple(allowed_hosts)
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[_Ping]] = {}
        """By the address of the schedule; the next one to be called is the first."""
        self._busy: set[str] = set()
        self._slow: set[str] = set()
        """Addresses that did not answer the last time."""
        self._threads: list[threading.Thread] = []
        self._deadline: float | None = None
        """After it, no call begins, because this is closed."""

    @cached_property
    def _http(self) -> Http:
        from duetime.net.client import Http  # few commands cause a call
        from duetime.net.ssrf_guard import Guard

        return Http(self._clock, Guard(self._allowed_hosts), connections=_THREADS)

    def __call__(self, events: Sequence[RunEvent]) -> None:
        with self._changed:
            for definition, run in events:
                address, suffix = policy_for_ending(definition.policy).ping, _SUFFIXES.get(RunStatus(run.status))
                if address is not None and suffix is not None:
                    self._add(address, _Ping(definition.public_id, run.owner, _with(address, suffix)))

    def _add(self, address: str, ping: _Ping) -> None:
        waiting = self._waiting.setdefault(address, deque())
        if len(waiting) == _MAX_WAITING:
            _warn(waiting.popleft(), "was dropped, because its address answers too slowly")
        waiting.append(ping)
        if len(self._threads) < min(_THREADS, len(self._waiting) + len(self._busy)):
            thread = threading.Thread(target=self._send_all, name="duetime-ping", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._changed.notify()

    def _send_all(self) -> None:
        while (taken := self._take()) is not None:
            address, ping = taken
            answered = self._send(ping)
            with self._changed:
                self._busy.remove(address)
                (self._slow.discard if answered else self._slow.add)(address)
                if waiting := self._waiting.pop(address, None):
                    self._waiting[address] = waiting  # behind the other addresses
                self._changed.notify()

    def _take(self) -> tuple[str, _Ping] | None:
        """Wait for a call that may be made, and return it with the address of its schedule; None when this is
        closed."""
        with self._changed:
            while True:
                if self._deadline is not None and (not self._waiting or self._clock.monotonic() > self._deadline):
                    return None
                is_full = len(self._busy & self._slow) >= _SLOW_THREADS
                for address, waiting in self._waiting.items():
                    if address not in self._busy and not (is_full and address in self._slow):
                        self._busy.add(address)
                        return address, waiting.popleft()
                self._changed.wait(None if self._deadline is None else 0.1)

    def _send(self, ping: _Ping) -> bool:
        """Make a call. Return whether it was answered, with whatever status."""
        from duetime.net.client import CallFailed, HttpCall

        try:
            answer = self._http.send(HttpCall("GET", ping.address, {}, patience=_TIMEOUT, once=True, owner=ping.owner))
        except CallFailed as error:
            _warn(ping, f"failed: {error.reason}")
            return False
        except Exception:
            log.exception("a ping of %s failed", ping.schedule)
            return False
        if not 200 <= answer.status < 300:
            _warn(ping, f"was answered with status {answer.status}")
        return True

    def close(self) -> None:
        """Make the calls that wait, as far as that takes no longer than one call may take."""
        with self._changed:
            self._deadline = deadline = self._clock.monotonic() + _TIMEOUT
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._clock.monotonic()))
        with self._changed:
            self._deadline = 0.0
            unsent = [ping for waiting in self._waiting.values() for ping in waiting]
            self._waiting = {}
        for ping in unsent:
            _warn(ping, "was not sent, because this process ends")
        if self._threads:
            self._http.close()


def _warn(ping: _Ping, reason: str) -> None:
    log.warning("a ping of %s %s", ping.schedule, reason)


def _with(address: str, suffix: str) -> str:
    """Return an address with a suffix of its path."""
    path, mark, query = address.partition("?")
    return f"{path.rstrip('/')}{suffix}{mark}{query}" if suffix else address
