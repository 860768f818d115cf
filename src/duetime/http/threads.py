"""Threads for short requests. `anyio.to_thread` does the same in general, at several times the cost.

By default, this uses the tokens of AnyIO's limiter, so that both together use no more threads than AnyIO alone would.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")
Jobs = queue.SimpleQueue[Callable[[], None]]

IDLE: Final = 10.0
"""Seconds without a request after which a thread ends."""


class RequestThreads:
    def __init__(self, most: int | None = None) -> None:
        """With `most`, use this many separate threads instead of tokens of the default limiter."""
        self._limiter = None if most is None else anyio.CapacityLimiter(most)
        self._jobs: Jobs = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)

    async def run(self, function: Callable[[], T]) -> T:
        """Call a function in a thread. Like `anyio.to_thread.run_sync`, wait for it even when cancelled."""
        limiter = self._limiter or anyio.to_thread.current_default_thread_limiter()
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        try:
            limiter.acquire_on_behalf_of_nowait(result)
        except anyio.WouldBlock:
            await limiter.acquire_on_behalf_of(result)
        try:
            if not self._idle.acquire(blocking=False):
                target = partial(_work, self._jobs, self._idle)
                threading.Thread(target=target, name="duetime-request", daemon=True).start()
            self._jobs.put(partial(_call, function, contextvars.copy_context(), loop, result))
            return await asyncio.shield(result)
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):  # a thread cannot be interrupted, and its slot is free when it ends
                await asyncio.wait([result])
            raise
        finally:
            limiter.release_on_behalf_of(result)
            del result  # an exception in it refers to this frame


def _call(
    function: Callable[[], T], context: contextvars.Context, loop: asyncio.AbstractEventLoop, result: asyncio.Future[T]
) -> None:
    settle: Callable[[Any], None] = result.set_result
    try:
        value: Any = context.run(function)
    except StopIteration as error:  # which no future can hold
        settle, value = result.set_exception, RuntimeError(f"the function raised {error!r}")
    except BaseException as error:
        settle, value = result.set_exception, error
    with suppress(RuntimeError):  # the event loop was closed meanwhile, so nobody is waiting
        loop.call_soon_threadsafe(settle, value)


def _work(jobs: Jobs, idle: threading.Semaphore) -> None:
    """Do jobs until there is none for a while. A thread that waits counts as idle, and whoever adds a job takes one of
    these; so a thread that ends takes one, too, and goes on if none is left, because a job is about to come."""
    while True:
        try:
            job = jobs.get(timeout=IDLE)
        except queue.Empty:
            if idle.acquire(blocking=False):
                return
        else:
            job()
            del job  # it must not stay in memory while the thread waits
            idle.release()
