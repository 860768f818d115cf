"""`AsyncDuetime`: the methods of the Python API as coroutines. Each call runs in a thread, so that the event loop is
never blocked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Self, TypeVar

from duetime.api.base import warn_not_started
from duetime.api.duetime import Duetime, Methods
from duetime.api.methods import Asynchronous
from duetime.api.runs import DeadLettersMethods, InboxMethods
from duetime.engine.clock import Clock
from duetime.engine.errors import DuetimeError
from duetime.kinds.jobs.registry import Registry
from duetime.service.errors import refuse
from duetime.service.services import OPERATOR
from duetime.settings import Settings

MAX_CALLS = 32
"""Calls of one `AsyncDuetime` that run at once; a call that waits needs no thread between its reads of the store."""
T = TypeVar("T")


class _Session:
    """A store from its opening to its close, and the threads of the calls to it."""

    def __init__(self, open_store: Callable[[], Duetime]) -> None:
        self._open_store, self._lock = open_store, threading.RLock()
        self._opened: Duetime | None = None
        self._threads = ThreadPoolExecutor(MAX_CALLS, "duetime")
        self.is_closed = self._warns = False

    def duetime(self) -> Duetime:
        """Open the store at the first call, which runs in a thread: this reads files, and may migrate the store."""
        self._check()
        with self._lock:
            self._check()  # it may have been closed meanwhile
            if self._opened is None:
                self._opened = self._open_store()
                self._opened._warn = self._warn
            return self._opened

    def start(self) -> None:
        with self._lock:
            self.duetime().start()

    def _check(self) -> None:
        if self.is_closed:
            raise refuse("not_possible", "it is closed; open it again with `async with`, or with start()")

    async def run(self, call: Callable[[], T], undo: Callable[[T], None] | None = None) -> T:
        """Call something short in a thread. If the caller gives up meanwhile, `undo` gets the result."""
        self._check()
        future = self._threads.submit(call)
        try:
            result = await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if undo is not None and not future.cancelled():
                undo_result = partial(_undo, future, undo)
                with suppress(DuetimeError, RuntimeError):  # it was closed meanwhile, and its threads with it
                    await asyncio.shield(asyncio.wrap_future(self._threads.submit(undo_result)))
            raise
        if self._warns:
            self._warns = False
            warn_not_started()
        return result

    def _warn(self) -> None:
        """Warn later, in the coroutine: this thread does not know its caller."""
        self._warns = True

    async def close(self) -> None:
        """Close the store after an opening that is under way, in a thread that no other call has."""
        self.is_closed = True
        closing = ThreadPoolExecutor(1, "duetime_close")
        try:
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(closing, self._close))
        finally:
            closing.shutdown(wait=False)
            self._threads.shutdown(wait=False)

    def _close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, None
            if opened is not None:
                opened.close()


def _undo(future: Future[T], undo: Callable[[T], None]) -> None:
    if future.exception() is None:
        undo(future.result())


class _AsyncGroup(Asynchronous):
    def __init__(self, session: _Session, read: Callable[[Duetime], object]) -> None:
        self._session: _Session = session
        self._read = read

    @property
    def _blocking(self) -> object:
        return self._read(self._session.duetime())


class AsyncInbox(InboxMethods, _AsyncGroup):
    """The notifications that were delivered: the methods of `Inbox` as coroutines."""


class AsyncDeadLetters(DeadLettersMethods, _AsyncGroup):
    """The runs that failed for good or were lost: the methods of `DeadLetters` as coroutines."""


class AsyncDuetime(Methods, Asynchronous):
    """`Duetime` for asynchronous code: the same arguments, and the same methods as coroutines.

    `async with AsyncDuetime(...)` starts the worker and stops it at the end; both can be repeated. A task that is
    cancelled while it waits for a run does not wait any longer.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        registry: Registry | None = None,
        clock: Clock | None = None,
        owner: str = OPERATOR.owner,
    ) -> None:
        open_store = partial(Duetime, url, settings=settings, registry=registry, clock=clock, owner=owner)
        self._new_session = partial(_Session, open_store)
        self._session: _Session = self._new_session()

    @property
    def _blocking(self) -> Duetime:
        return self._session.duetime()

    async def start(self) -> Self:
        """Start the worker. Due schedules fire from now on. After `close`, this opens the store again."""
        if self._session.is_closed:
            self._session = self._new_session()
        await self._session.run(self._session.start)
        return self

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except BaseException:  # cancelled, for example: the thread may have started the worker
            await self.close()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop the worker and close the store. Closing twice is not an error."""
        await self._session.close()

    async def stop(self) -> int:
        """Stop the worker, and return the number of runs whose outcome could not be recorded."""
        return await self._session.run(lambda: self._session.duetime().stop())

    @property
    def inbox(self) -> AsyncInbox:
        """The notifications that were delivered."""
        return AsyncInbox(self._session, lambda duetime: duetime.inbox)

    @property
    def dead_letters(self) -> AsyncDeadLetters:
        """The runs that failed for good or were lost."""
        return AsyncDeadLetters(self._session, lambda duetime: duetime.dead_letters)
