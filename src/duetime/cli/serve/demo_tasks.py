"""The tasks of the demo. They are also examples of how tasks are written."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from duetime.kinds.jobs.context import TaskContext
from duetime.kinds.jobs.registry import task


@task(name="demo_greet")
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Hello, {name}!"


@task(name="demo_beat")
def beat(context: TaskContext) -> str:
    """Says which occurrence it stands for: the due instant, not the moment it happened to start."""
    return f"due at {context.due:%H:%M:%S}Z"


@task(name="demo_wait")
async def wait(seconds: float = 0.3) -> str:
    """Waits without holding a thread."""
    await asyncio.sleep(seconds)
    return f"waited {seconds:g} s on the event loop"


@task(name="demo_primes", isolation="process")
def primes(below: int) -> dict[str, Any]:
    """Counts primes in a process of its own, which may crash or hang without harm to anything else."""
    primes_below = [
        number for number in range(2, below) if all(number % divisor for divisor in range(2, int(number**0.5) + 1))
    ]
    return {"primes": len(primes_below), "process": os.getpid()}


@task(name="demo_unlucky")
def unlucky() -> None:
    """Always fails: its run is a dead letter until somebody tries it again or dismisses it."""
    raise RuntimeError("no luck today; this sample always fails")


@task(name="demo_flaky")
def flaky(context: TaskContext) -> str:
    """Fails the first time and works when it is tried again."""
    if context.attempt == 1:
        raise ConnectionError("the other side did not answer")
    return f"worked at attempt {context.attempt}"
