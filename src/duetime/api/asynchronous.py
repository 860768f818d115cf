"""`AsyncDuetime`: the methods of the Python API as coroutines. Each call runs in a thread, so that the event loop is
never blocked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeAlias, TypeVar

from duetime.api.duetime import Duetime
from duetime.api.runs import DeadLetters, Inbox
from duetime.api.values import GIVEN_UP, Schedule, ScheduleValue
from duetime.engine.clock import Clock
from duetime.kinds.jobs.registry import Registry
from duetime.service.services import OPERATOR
from duetime.settings import Settings

MAX_CALLS = 32
"""Calls of one `AsyncDuetime` that run at once; a call with `wait` counts until it returns."""
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
T = TypeVar("T")


class _Asynchronous(Protocol[S_co]):
    """Something whose coroutines run the methods of another object in threads."""

    @property
    def _blocking(self) -> S_co: ...

    @property
    def _threads(self) -> ThreadPoolExecutor: ...


Method: TypeAlias = Callable[Concatenate[S, P], T]
CoroutineMethod: TypeAlias = Callable[Concatenate[_Asynchronous[S], P], Coroutine[Any, Any, T]]


async def _in_thread(threads: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    """Call something in a thread. If nobody awaits this any more, the call stops to wait for what it waits for."""
    context, given_up = copy_context(), threading.Event()
    context.run(GIVEN_UP.set, given_up)
    try:
        return await asyncio.get_running_loop().run_in_executor(threads, context.run, call)
    finally:
        given_up.set()


def _coroutine(method: Method[S, P, T], convert: Callable[[T, ThreadPoolExecutor], R]) -> CoroutineMethod[S, P, R]:
    """Return a method as a coroutine with the same arguments."""

    @wraps(method)
    async def call(self: _Asynchronous[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        result = await _in_thread(self._threads, lambda: method(self._blocking, *args, **kwargs))
        return convert(result, self._threads)

    return call


def _value(method: Method[S, P, T]) -> CoroutineMethod[S, P, T]:
    return _coroutine(method, lambda value, _: value)


def _schedule(method: Method[S, P, Schedule]) -> CoroutineMethod[S, P, AsyncSchedule]:
    return _coroutine(method, lambda *of: AsyncSchedule(*of))  # noqa: PLW0108  # the class follows


def _schedules(method: Method[S, P, list[Schedule]]) -> CoroutineMethod[S, P, list[AsyncSchedule]]:
    return _coroutine(method, lambda schedules, threads: [AsyncSchedule(each, threads) for each in schedules])


class AsyncSchedule(ScheduleValue):
    """A schedule, and what can be done with it: the methods of `Schedule` as coroutines."""

    __slots__ = ("_blocking", "_threads")
    _blocking: Schedule
    _threads: ThreadPoolExecutor

    def __init__(self, schedule: Schedule, threads: ThreadPoolExecutor) -> None:
        super().__init__(schedule._plain, schedule._zone)
        object.__setattr__(self, "_blocking", schedule)
        object.__setattr__(self, "_threads", threads)

    refresh = _schedule(Schedule.refresh)
    edit = _schedule(Schedule.edit)
    pause = _schedule(Schedule.pause)
    resume = _schedule(Schedule.resume)
    cancel = _schedule(Schedule.cancel)
    delete = _schedule(Schedule.delete)
    run_now = _value(Schedule.run_now)
    stop = _value(Schedule.stop)
    wait = _schedule(Schedule.wait)
    history = _value(Schedule.history)


class _AsyncGroup(Generic[S]):
    def __init__(self, duetime: AsyncDuetime, of: Callable[[Duetime], S]) -> None:
        self._duetime, self._of, self._threads = duetime, of, duetime._threads

    @property
    def _blocking(self) -> S:
        return self._of(self._duetime._blocking)


class AsyncInbox(_AsyncGroup[Inbox]):
    """The notifications that were delivered: the methods of `Inbox` as coroutines."""

    messages = _value(Inbox.messages)
    mark = _value(Inbox.mark)
    mark_all_read = _value(Inbox.mark_all_read)


class AsyncDeadLetters(_AsyncGroup[DeadLetters]):
    """The runs that failed for good or were lost: the methods of `DeadLetters` as coroutines."""

    runs = _value(DeadLetters.runs)
    dismiss = _value(DeadLetters.dismiss)
    restore = _value(DeadLetters.restore)
    retry_all = _value(DeadLetters.retry_all)
    dismiss_all = _value(DeadLetters.dismiss_all)
    restore_all = _value(DeadLetters.restore_all)


class AsyncDuetime:
    """`Duetime` for asynchronous code: the same arguments, and the same methods as coroutines.

    `async with AsyncDuetime(...)` starts the worker and stops it at the end. A task that is cancelled while it waits
    for a run does not wait any longer.
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
        self._open = partial(Duetime, url, settings=settings, registry=registry, clock=clock, owner=owner)
        self._opening = threading.Lock()
        self._opened: Duetime | None = None
        self._threads = ThreadPoolExecutor(MAX_CALLS, "duetime")

    @property
    def _blocking(self) -> Duetime:
        """Open the store at the first call, which runs in a thread: this reads files, and may migrate the store."""
        with self._opening:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    async def start(self) -> Self:
        """Start the worker. Due schedules fire from now on."""
        await _in_thread(self._threads, lambda: self._blocking.start())  # noqa: PLW0108  # opens it in the thread
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop the worker and close the store."""
        if self._opened is not None:
            await _in_thread(self._threads, self._opened.close)
        self._threads.shutdown(wait=False)

    @property
    def inbox(self) -> AsyncInbox:
        """The notifications that were delivered."""
        return AsyncInbox(self, lambda duetime: duetime.inbox)

    @property
    def dead_letters(self) -> AsyncDeadLetters:
        """The runs that failed for good or were lost."""
        return AsyncDeadLetters(self, lambda duetime: duetime.dead_letters)

    stop = _value(Duetime.stop)
    schedule = _schedule(Duetime.schedule)
    prompt = _schedule(Duetime.prompt)
    notify = _schedule(Duetime.notify)
    request = _schedule(Duetime.request)
    create = _schedule(Duetime.create)
    preview = _value(Duetime.preview)
    get = _schedule(Duetime.get)
    find = _coroutine(Duetime.find, lambda schedule, threads: schedule and AsyncSchedule(schedule, threads))
    schedules = _schedules(Duetime.schedules)
    upcoming = _value(Duetime.upcoming)
    edit = _schedule(Duetime.edit)
    pause = _schedule(Duetime.pause)
    resume = _schedule(Duetime.resume)
    cancel = _schedule(Duetime.cancel)
    delete = _schedule(Duetime.delete)
    change_many = _value(Duetime.change_many)
    run_now = _value(Duetime.run_now)
    run_again = _value(Duetime.run_again)
    wait = _schedule(Duetime.wait)
    wait_for_run = _value(Duetime.wait_for_run)
    history = _value(Duetime.history)
    run = _value(Duetime.run)
    retry = _value(Duetime.retry)
    cancel_run = _value(Duetime.cancel_run)
    stop_runs = _value(Duetime.stop_runs)
    take_prompt = _value(Duetime.take_prompt)
    finish_prompt = _value(Duetime.finish_prompt)
    create_scheduled_task = _value(Duetime.create_scheduled_task)
    list_scheduled_tasks = _value(Duetime.list_scheduled_tasks)
    update_scheduled_task = _value(Duetime.update_scheduled_task)
    cancel_scheduled_task = _value(Duetime.cancel_scheduled_task)
    workers = _value(Duetime.workers)
    server_status = _value(Duetime.server_status)
