"""Waiting for runs: until one has ended, or until a promised one was handed over."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from duetime.engine.model import LIVE, Run, RunStatus, ScheduleState, is_held_back, names_limit, run_holder
from duetime.engine.store import RunQuery
from duetime.service.masking import masked
from duetime.service.services import NO_WORKER, Call
from duetime.service.state_details import run_detail, shown_status

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


def waited_for(call: Call, run: Run) -> dict[str, Any]:
    """Return whether a run has ended and the reason why not, for the answer to somebody who waited for it."""
    if has_ended(run):
        return {"ended": True, "reason": None}
    return {"ended": False, "reason": _why_unfinished(call, run) or why_not_started(call, run.kind)}


def why_not_started(call: Call, kind: str | None = None) -> str:
    idle = any(each.code == NO_WORKER for each in call.services.worker_warnings(kind))
    return "no worker is running" if idle else "no worker has started it"


def _why_unfinished(call: Call, run: Run) -> str | None:
    """Return what a run that has not ended is waiting for, as a clause that follows a colon; None if only for a worker
    to start it."""
    if run.status == RunStatus.RUNNING:
        return "it is still running"
    if run.status == RunStatus.WAITING:
        if shown_status(run) == RunStatus.RUNNING:
            return f"it is still running {run_detail(run)}"
        taken = masked(run.error) if is_held_back(run) else "the agent that took it has not finished it"
        return "no agent has taken it" if run.holder is None else taken
    if run.status == RunStatus.QUEUED:
        return f"it is queued behind an earlier run{_held_behind(call, run)}"
    if run.error is None:
        return None
    if run.attempt:
        return f"an attempt failed and is repeated later: {masked(run.error)}"
    return f"{'it is held back' if names_limit(run.error) else 'no worker can run it'}: {masked(run.error)}"


def _held_behind(call: Call, run: Run) -> str:
    """Return what the earlier runs of a queued run wait for, if that is the end of a pause."""
    store = call.scheduler.store
    schedule = store.get(run.schedule)
    if schedule is None or schedule.progress.state != ScheduleState.PAUSED:
        return ""
    query = RunQuery(schedule=run.schedule, status="live", count_to=0)
    active = [each for each in store.runs(query).items if each.status != RunStatus.QUEUED]
    held = [each for each in active if each.status == RunStatus.PENDING and store.starts_at(each) is None]
    return ", which waits until the schedule is resumed" if active and held == active else ""


def has_ended(run: Run) -> bool:
    return run.status not in LIVE


def look_again(call: Call, run: Run) -> Run:
    """Return the run as it is now, and as the caller sees it."""
    return call.scheduler.run(call.caller, run.id) or run


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


def wait_for_end(call: Call, run: Run, seconds: float) -> Run:
    """Block the calling thread until the run has ended or the time has passed; return the run as it is then."""
    return wait_for_result(run, partial(look_again, call), has_ended, seconds)


def wait_for_result(seen: T, look: Callable[[T], T], is_over: Callable[[T], bool], seconds: float) -> T:
    """Do the same as `await_result`, but block the calling thread."""
    for pause in _pauses(seconds):
        if is_over(seen):
            break
        threading.Event().wait(pause)
        seen = look(seen)
    return seen


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
