"""Stays with a program until it has ended, by itself or because it had to."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from duetime.agents.answers import Reader
from duetime.agents.environment import Secrets
from duetime.agents.process import LeashedProcess
from duetime.core.child_lease import ChildLease
from duetime.core.clock import Clock, SystemClock
from duetime.core.kind import StopReason
from duetime.core.waking import Errand

_TICK = 0.05
"""Seconds between two looks at a stop signal."""
_NEWS = 1.0
"""Seconds between two reports of what the program is doing."""
_HURRIED = 0.5
"""Seconds of grace where the worker itself is about to end: it has to record what became of the run."""
_LAST = 2.0
"""Seconds for the leash to end everything before it is killed with its group."""
_SHUTDOWN = "the worker stopped before it was done"
_STOPPED = {
    StopReason.CANCELLED: "stopped on request",
    StopReason.LEASE: "its worker lost its lease before it was done",
    StopReason.SHUTDOWN: _SHUTDOWN,
}


class TimeLimits(NamedTuple):
    grace: float = 5.0
    """Seconds for a program to end by itself once it was asked to."""
    unheard: float = 30.0
    """Seconds that a program lives without hearing of its worker, where the lease is not over before."""


TIME_LIMITS = TimeLimits()


def supervise(
    process: LeashedProcess,
    errand: Errand,
    reader: Reader,
    secrets: Secrets,
    limits: TimeLimits,
    is_closed: Callable[[], bool],
    clock: Clock | None = None,
) -> str | None:
    """Why it was made to end, if it was. Real processes live in real time, also where the schedules do not."""
    clock = clock or SystemClock()
    began = reported = clock.monotonic()
    child = ChildLease(errand.lease, limits.unheard, clock)
    ending: _Ending | None = None
    while not process.gone:
        for data in process.hear(_TICK):
            reader.take(data)
        now = clock.monotonic()
        deadline = child.renewal()  # before the look at `stop`: a lease that was lost may be renewed after that
        if deadline is not None and errand.stop.reason is not StopReason.LEASE:
            process.live_until(deadline)
        if now - reported >= _NEWS and (news := reader.heard.news) is not None:
            reported = now
            errand.report(secrets.without(news))
            reader.heard.news = None
        if ending is None and (why := _why_end(errand, now - began, is_closed())) is not None:
            ending = _Ending(process, why, now + _grace(errand.stop.reason, limits))
        if ending is not None and ending.is_over(now):
            break
    if ending is None and child.over and process.was_ended:  # by its deadline, and so by no fault of its own
        errand.stop.set(StopReason.LEASE)
        return _STOPPED[StopReason.LEASE]
    return ending.why if ending else None


def _why_end(errand: Errand, passed: float, closed: bool) -> str | None:
    if errand.stop.reason in _STOPPED:
        return _STOPPED[errand.stop.reason]
    if closed:
        return _SHUTDOWN
    if errand.stop.is_set() or passed >= errand.patience:
        return f"timed out after {errand.patience:g} s"
    return None


def _grace(reason: StopReason | None, limits: TimeLimits) -> float:
    if reason is StopReason.LEASE:
        return 0.0  # the run may be somebody else's by now
    return min(_HURRIED, limits.grace) if reason is StopReason.SHUTDOWN else limits.grace


class _Ending:
    """Asked first, then killed through the leash, then with it."""

    def __init__(self, process: LeashedProcess, why: str, kill_at: float) -> None:
        self.why = why
        self._process = process
        self._kill_at = kill_at
        self._killed = False
        process.ask_to_end()

    def is_over(self, now: float) -> bool:
        if now >= self._kill_at and not self._killed:
            self._killed = True
            self._process.kill()
        return now >= self._kill_at + _LAST
