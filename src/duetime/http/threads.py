"""Threads for short requests. `anyio.to_thread` does the same in general, at several times the cost.

By default, this uses the tokens of AnyIO's limiter, so that both together use no more threads than AnyIO alone would.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")

IDLE: Final = 10.0
"""Seconds without any request after which the threads end."""


class _Job:
    """A function and its result. Everything except `work` is used only in the thread of the event loop."""

    def __init__(self, function: Callable[[], Any], threads: RequestThreads, loop: asyncio.AbstractEventLoop) -> None:
        self._function, self._threads, self._loop = function, threads, loop
        self._context = contextvars.copy_context()
        self._result: Any = None
        self._error: BaseException | None = None
        self._ended = False
        self._waiter = loop.create_future()

    def work(self) -> None:
        try:
            self._result = self._context.run(self._function)
        except BaseException as error:
            self._error = error
        try:
            self._loop.call_soon_threadsafe(self._end)
        except RuntimeError:
            pass  # the event loop was closed meanwhile, so nobody is waiting

    def _end(self) -> None:
        self._ended = True
        self._threads.ended()
        if not self._waiter.done():
            self._waiter.set_result(None)

    async def result(self) -> Any:
        try:
            await self._waiter
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):  # a thread cannot be interrupted, and its slot is free when it ends
                while not self._ended:
                    self._waiter = self._loop.create_future()
                    await self._waiter
            raise
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # which refers to this frame
        return self._result


class RequestThreads:
    """Use it only in the thread of the event loop."""

    def __init__(self, most: int | None = None) -> None:
        """With `most`, use this many separate threads instead of tokens of the default limiter."""
        self._most = most
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._running = 0
        self._threads = [0]
        """The number of threads, which stays known when this object is gone."""
        weakref.finalize(self, _end_threads, self._jobs, self._threads)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.TimerHandle | None = None

    async def run(self, function: Callable[[], T]) -> T:
        """Call a function in a thread. Like `anyio.to_thread.run_sync`, wait for it even when cancelled."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._running, self._ending = loop, 0, None
            default = anyio.to_thread.current_default_thread_limiter
            self._limiter = default() if self._most is None else anyio.CapacityLimiter(self._most)
        job = _Job(function, self, loop)
        try:
            self._limiter.acquire_on_behalf_of_nowait(job)
        except anyio.WouldBlock:
            await self._limiter.acquire_on_behalf_of(job)
        try:
            self._begin(job)
            result: T = await job.result()
            return result
        finally:
            self._limiter.release_on_behalf_of(job)

    def _begin(self, job: _Job) -> None:
        if self._running >= self._threads[0]:
            threading.Thread(target=_work, args=(self._jobs,), name="duetime-request", daemon=True).start()
            self._threads[0] += 1
        self._running += 1  # only now, because a thread that cannot be started raises
        self._jobs.put(job)

    def ended(self) -> None:
        self._running -= 1
        if self._running == 0 and self._ending is None and self._loop is not None:
            self._ending = self._loop.call_later(IDLE, self._end_if_idle)

    def _end_if_idle(self) -> None:
        self._ending = None
        if self._running == 0:
            _end_threads(self._jobs, self._threads)


def _work(jobs: queue.SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job.work()
        del job  # it must not stay in memory while the thread waits


def _end_threads(jobs: queue.SimpleQueue[_Job | None], number: list[int]) -> None:
    for _ in range(number[0]):
        jobs.put(None)
    number[0] = 0
