"""Waiting for a handover: an agent that promised a later result may have it before the promise is stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from duetime.engine.model import RunStatus, run_holder
from duetime.service.services import Call

CHECKS, PAUSE = 50, 0.1
"""How many times, and after how many seconds each, to check again whether a run was handed over."""


async def await_handover(is_early: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the run can be finished. No thread is blocked meanwhile.

    Call this before finishing: the handover may come between a refusal and a check after it.
    """
    for _ in range(CHECKS):
        if not await is_early():
            break
        await anyio.sleep(PAUSE)


def is_own_run(call: Call, run_id: int) -> bool:
    """Return whether this is the run that the caller's own token is for, and a worker still has it."""
    run = call.scheduler.run(call.caller, run_id)
    if run is None or run.status != RunStatus.RUNNING:
        return False
    return call.caller.holder == run_holder(run.id, run.fence)
