"""Waiting for runs: until one has ended, or until a promised one was handed over."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

from duetime.engine.kind import Caller
from duetime.engine.model import LIVE, Run, RunStatus, run_holder
from duetime.engine.scheduler import Scheduler
from duetime.service.services import NO_WORKER, OPERATOR, Call, Services
from duetime.service.state_details import why_unfinished

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


def waited_for(services: Services, run: Run) -> dict[str, Any]:
    """Return whether a run has ended and the reason why not, for the answer to somebody who waited for it."""
    if has_ended(run):
        return {"ended": True, "reason": None}
    reason = why_unfinished(services.scheduler, run)
    if reason is None:
        idle = any(each.code == NO_WORKER for each in services.worker_warnings(run.kind))
        reason = "no worker is running" if idle else "no worker has started it"
    return {"ended": False, "reason": reason}


def has_ended(run: Run) -> bool:
    return run.status not in LIVE


def look_again(scheduler: Scheduler, run: Run, caller: Caller = OPERATOR) -> Run:
    """Return the run as it is now, and as the caller sees it."""
    return scheduler.run(caller, run.id) or run


def _pauses(seconds: float) -> Iterator[float]:
    """Yield pauses, short ones first, that add up to this many seconds."""
    pause = _FIRST_PAUSE
    while seconds > 0:
        yield min(pause, seconds)
        seconds -= pause
        pause = min(2 * pause, _LONGEST_PAUSE)


async def await_result(first: T, look: Callable[[T], Awaitable[T]], is_over: Callable[[T], bool], seconds: float) -> T:
    """Check again until something is over or the time has passed; return the last state. No thread is blocked between
    two checks, and a check is left out if the owner's other requests occupy all slots."""
    import anyio  # commands start without it

    from duetime.service.owner_limits import TooManyRequests

    seen, deadline = first, anyio.current_time() + seconds
    for pause in _pauses(seconds):
        if is_over(seen) or anyio.current_time() >= deadline:
            break
        await anyio.sleep(pause)
        try:
            seen = await look(seen)
        except TooManyRequests:
            continue
    return seen


def wait_for_end(scheduler: Scheduler, run: Run, seconds: float) -> Run:
    """Block the calling thread until the run has ended or the time has passed; return the run as it is then."""
    for pause in _pauses(seconds):
        if has_ended(run):
            break
        threading.Event().wait(pause)
        run = look_again(scheduler, run)
    return run


# Handovers: an agent that promised a later result may have it before the promise is stored.

CHECKS, PAUSE = 50, 0.1
"""How many times, and after how many seconds each, to check whether a run was handed over."""


async def await_handover(is_early: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the run can be finished, without blocking a thread. Call this before finishing, because the handover
    may come between a refusal and a check after it."""
    import anyio

    for _ in range(CHECKS):
        if not await is_early():
            break
        await anyio.sleep(PAUSE)


def is_own_run(call: Call, run_id: int) -> bool:
    """Return whether the caller's own token is for this run, and a worker still holds the run."""
    run = call.scheduler.run(call.caller, run_id)
    if run is None or run.status != RunStatus.RUNNING:
        return False
    return call.caller.holder == run_holder(run.id, run.fence)
