"""Calls the monitoring addresses of schedules when their runs start, succeed and fail."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from queue import Full, Queue
from typing import Final, NamedTuple
from zlib import crc32

from duetime.engine.clock import SystemClock
from duetime.engine.model import RunStatus
from duetime.engine.policy.options import policy_for_ending
from duetime.engine.policy.rows import RunEvent
from duetime.net.client import CallFailed, Http, HttpCall
from duetime.net.ssrf_guard import Guard

log = logging.getLogger("duetime.ping")

_SUFFIXES: Final = {
    RunStatus.RUNNING: "/start",
    RunStatus.COMPLETED: "",
    RunStatus.FAILED: "/fail",
    RunStatus.LOST: "/fail",
}
"""What is added to the path of an address, as most monitoring services expect it."""
_THREADS: Final = 4
_MAX_WAITING: Final = 250
"""Number of calls that wait for one thread; further ones are dropped, because a late call would say something wrong."""
_TIMEOUT: Final = 5.0


class _Ping(NamedTuple):
    schedule: str
    owner: str
    address: str


class Pings:
    """An observer of the store. Each call is tried once, and nothing waits for it. One thread makes all calls to an
    address, so that they arrive in order."""

    def __init__(self, allowed_hosts: Sequence[str]) -> None:
        self._http = Http(SystemClock(), Guard(tuple(allowed_hosts)), connections=_THREADS)
        self._queues: tuple[Queue[_Ping | None], ...] = tuple(Queue(_MAX_WAITING) for _ in range(_THREADS))
        self._threads: dict[int, threading.Thread] = {}
        self._starting = threading.Lock()

    def __call__(self, events: Sequence[RunEvent]) -> None:
        for definition, run in events:
            ping, suffix = policy_for_ending(definition.policy).ping, _SUFFIXES.get(RunStatus(run.status))
            if ping is not None and suffix is not None:
                self._put(crc32(ping.encode()) % _THREADS, _Ping(definition.public_id, run.owner, _with(ping, suffix)))

    def _put(self, number: int, ping: _Ping) -> None:
        try:
            self._queues[number].put_nowait(ping)
        except Full:
            log.warning("a ping of %s was dropped, because too many wait for slow addresses", ping.schedule)
        with self._starting:
            if number not in self._threads:
                thread = threading.Thread(target=self._send_all, args=[number], name="duetime-ping", daemon=True)
                self._threads[number] = thread
                thread.start()

    def _send_all(self, number: int) -> None:
        while (ping := self._queues[number].get()) is not None:
            try:
                answer = self._http.send(
                    HttpCall("GET", ping.address, {}, patience=_TIMEOUT, once=True, owner=ping.owner)
                )
            except CallFailed as error:
                log.warning("a ping of %s failed: %s", ping.schedule, error.reason)
            except Exception:
                log.exception("a ping of %s failed", ping.schedule)
            else:
                if not 200 <= answer.status < 300:
                    log.warning("a ping of %s was answered with status %s", ping.schedule, answer.status)

    def close(self) -> None:
        """Wait for the calls in progress, and for those behind them as long as one call may take."""
        for number in self._threads:
            try:
                self._queues[number].put(None, timeout=_TIMEOUT)
            except Full:
                continue
        for thread in self._threads.values():
            thread.join(_TIMEOUT)
        self._http.close()


def _with(address: str, suffix: str) -> str:
    """Return an address with a suffix of its path."""
    path, mark, query = address.partition("?")
    return f"{path.rstrip('/')}{suffix}{mark}{query}" if suffix else address
