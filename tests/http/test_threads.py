"""Threads for requests: as many as there are tokens, and each is waited for."""

from __future__ import annotations

import threading
from functools import partial

import anyio
import anyio.to_thread
import pytest

from duetime.http.threads import RequestThreads


def test_results_errors_and_context_come_back() -> None:
    def fail() -> None:
        raise ValueError("as meant")

    async def main() -> None:
        threads = RequestThreads()
        assert await threads.run(lambda: threading.current_thread().name) == "duetime-request"
        with pytest.raises(ValueError, match="as meant"):
            await threads.run(fail)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await threads.run(partial(next, iter([])))
        assert anyio.to_thread.current_default_thread_limiter().borrowed_tokens == 0

    anyio.run(main)


def test_a_thread_that_cannot_be_started_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> None:
        threads = RequestThreads()
        with monkeypatch.context() as short_of_memory:
            short_of_memory.setattr(threading.Thread, "start", no_thread)
            with pytest.raises(RuntimeError):
                await threads.run(lambda: None)
        assert anyio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
        assert await threads.run(lambda: "run") == "run"

    anyio.run(main)


def test_no_more_run_at_once_than_there_are_tokens() -> None:
    running, most, lock = 0, 0, threading.Lock()
    both = threading.Barrier(2)

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        both.wait(30)
        with lock:
            running -= 1

    async def main() -> None:
        threads = RequestThreads(2)
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(partial(threads.run, work))

    anyio.run(main)
    assert most == 2


def test_a_cancelled_caller_waits_for_its_thread() -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait(30)
        ended.set()

    async def main() -> None:
        threads = RequestThreads(1)
        async with anyio.create_task_group() as group:
            group.start_soon(partial(threads.run, work))
            await anyio.to_thread.run_sync(begun.wait)
            group.cancel_scope.cancel()
            go_on.set()
        assert ended.is_set()
        assert await threads.run(lambda: 5) == 5, "its token is free again"

    anyio.run(main)


def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.http.threads.IDLE", 0.01)

    async def main() -> None:
        threads = RequestThreads()
        first = await threads.run(threading.current_thread)
        await anyio.to_thread.run_sync(first.join, 10)
        assert not first.is_alive()
        assert await threads.run(lambda: 5) == 5

    anyio.run(main)
