"""Event loop on one thread, shared by all `async def` tasks. It starts when the first of them runs."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Coroutine
from typing import Any

from duetime.kinds.jobs.context import CancelSignal, Stopped

log = logging.getLogger("duetime.jobs")
LOOK_EVERY = 0.05
"""Seconds between two checks of the stop signals: one timer for all tasks instead of a waiting thread for each."""


class AsyncLoop:
    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._watched: dict[asyncio.Task[Any], CancelSignal] = {}
        self._looking = False

    def run(self, coroutine: Coroutine[Any, Any, Any], stop: CancelSignal) -> Any:
        """Run the coroutine and block the calling thread. Raises Stopped if it was cancelled by `stop` or `close`."""
        try:
            loop = self._started()
        except Stopped:
            coroutine.close()
            raise
        future = asyncio.run_coroutine_threadsafe(self._watch(coroutine, stop), loop)
        try:
            value, error = future.result()
        except concurrent.futures.CancelledError:
            if stop.is_set() or self._closed:
                raise Stopped from None
            raise
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Cancel the running tasks and end the thread."""
        with self._starting:
            self._closed = True
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        ending = asyncio.run_coroutine_threadsafe(self._cancel_all(), loop)
        try:
            ending.result(5)
        except TimeoutError:
            log.warning("an async task does not end although it was cancelled; it is left behind")
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        if not thread.is_alive():
            loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._closed:
                raise Stopped
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop,), name="duetime-async", daemon=True
                )
                self._thread.start()
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while True:
            try:
                loop.run_forever()
                return
            except (SystemExit, KeyboardInterrupt):
                # asyncio lets these escape from the loop; one task must not end the loop for all others.
                log.warning("an async task raised SystemExit or KeyboardInterrupt; the loop continues")

    async def _watch(self, coroutine: Coroutine[Any, Any, Any], stop: CancelSignal) -> tuple[Any, BaseException | None]:
        """Return the result, or an error that must not end the loop."""
        current = asyncio.current_task()
        assert current is not None
        self._watched[current] = stop
        if not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_soon(self._look)
        try:
            return await coroutine, None
        except (SystemExit, KeyboardInterrupt) as error:
            return None, error
        finally:
            self._watched.pop(current, None)

    def _look(self) -> None:
        """Cancel tasks whose stop signal is set, once each: a second cancel would interrupt their clean-up."""
        for task, stop in list(self._watched.items()):
            if stop.is_set():
                del self._watched[task]
                task.cancel()
        self._looking = bool(self._watched)
        if self._looking:
            asyncio.get_running_loop().call_later(LOOK_EVERY, self._look)

    async def _cancel_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
