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
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")

IDLE: Final = 10.0
"""Seconds without a request after which a thread ends."""


class RequestThreads:
    """Use it only in the thread of the event loop."""

    def __init__(self, most: int | None = None) -> None:
        """With `most`, use this many separate threads instead of tokens of the default limiter."""
        self._most = most
        self._loop: asyncio.AbstractEventLoop | None = None
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._idle: queue.SimpleQueue[None] = queue.SimpleQueue()
        """An item for each thread that waits for a job."""

    async def run(self, function: Callable[[], T]) -> T:
        """Call a function in a thread. Like `anyio.to_thread.run_sync`, wait for it even when cancelled."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            default = anyio.to_thread.current_default_thread_limiter
            self._loop, self._limiter = loop, default() if self._most is None else anyio.CapacityLimiter(self._most)
        job, limiter = _Job(function, loop), self._limiter
        try:
            limiter.acquire_on_behalf_of_nowait(job)
        except anyio.WouldBlock:
            await limiter.acquire_on_behalf_of(job)
        try:
            try:
                self._idle.get_nowait()
            except queue.Empty:
                queues = self._jobs, self._idle
                threading.Thread(target=_work, args=queues, name="duetime-request", daemon=True).start()
            self._jobs.put(job)
            result: T = await job.result()
            return result
        finally:
            limiter.release_on_behalf_of(job)


class _Job:
    """A function and its result. Everything except `work` is used only in the thread of the event loop."""

    __slots__ = ("_context", "_error", "_function", "_has_ended", "_loop", "_value", "_waiter")

    def __init__(self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self._function, self._loop, self._context = function, loop, contextvars.copy_context()
        self._value: Any = None
        self._error: BaseException | None = None
        self._has_ended = False
        self._waiter = loop.create_future()

    def work(self) -> None:
        try:
            self._value = self._context.run(self._function)
        except BaseException as error:
            self._error = error
        with suppress(RuntimeError):  # the event loop was closed meanwhile, so nobody is waiting
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._has_ended = True
        if not self._waiter.done():
            self._waiter.set_result(None)

    async def result(self) -> Any:
        try:
            await self._waiter
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):  # a thread cannot be interrupted, and its slot is free when it ends
                while not self._has_ended:
                    self._waiter = self._loop.create_future()
                    await self._waiter
            raise
        if self._error is None:
            return self._value
        try:
            raise self._error
        finally:
            self._error = None  # which refers to this frame


def _work(jobs: queue.SimpleQueue[_Job], idle: queue.SimpleQueue[None]) -> None:
    """Do jobs until there is none for a while. A thread that waits counts as idle, and whoever adds a job takes one of
    these; so a thread that ends takes one, too, and goes on if none is left, because a job is about to come."""
    while True:
        try:
            job = jobs.get(timeout=IDLE)
        except queue.Empty:
            with suppress(queue.Empty):
                idle.get_nowait()
                return
        else:
            job.work()
            del job  # it must not stay in memory while the thread waits
            idle.put(None)
