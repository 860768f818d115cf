"""`AsyncDuetime`: the methods of the Python API as coroutines. Each call runs in a thread, so that the event loop is
never blocked."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeAlias, TypeVar

from duetime.api.base import warn_not_started
from duetime.api.duetime import Duetime
from duetime.api.runs import DeadLetters, Inbox
from duetime.api.steps import Ended, Steps, advance
from duetime.api.values import Schedule, ScheduleValue
from duetime.engine.clock import Clock
from duetime.kinds.jobs.registry import Registry
from duetime.service.errors import refuse
from duetime.service.services import OPERATOR
from duetime.settings import Settings

MAX_CALLS = 32
"""Calls of one `AsyncDuetime` that run at once; a call that waits needs no thread between its reads of the store."""
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
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
                await self.run(lambda: None if future.exception() else undo(future.result()))
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


class _Asynchronous(Protocol[S_co]):
    """Something whose coroutines run the methods of another object in threads."""

    @property
    def _blocking(self) -> S_co: ...

    @property
    def _session(self) -> _Session: ...


Method: TypeAlias = Callable[Concatenate[S, P], T]
CoroutineMethod: TypeAlias = Callable[Concatenate[_Asynchronous[S], P], Coroutine[Any, Any, T]]


def _coroutine(
    method: Method[S, P, T], convert: Callable[[T, _Session], R], undo: Callable[[S, T], None] | None = None
) -> CoroutineMethod[S, P, R]:
    """Return a method as a coroutine with the same arguments. `undo` gets a result for which nobody waits any more."""
    waits: Method[S, P, Steps[T]] | None = getattr(method, "__wrapped__", None)

    @wraps(method)
    async def call(self: _Asynchronous[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        def steps() -> Steps[T]:
            if waits is None:
                return method(self._blocking, *args, **kwargs)
            return (yield from waits(self._blocking, *args, **kwargs))

        def give_up(step: float | Ended[T]) -> None:
            if undo is not None and isinstance(step, Ended):
                undo(self._blocking, step.value)

        session, next_step = self._session, partial(advance, steps())
        while isinstance(step := await session.run(next_step, undo and give_up), float):
            await asyncio.sleep(step)
        return convert(step.value, session)

    signature = inspect.signature(method)
    returns = re.sub(r"\bSchedule\b", "AsyncSchedule", signature.return_annotation)
    call.__signature__ = signature.replace(return_annotation=returns)  # type: ignore[attr-defined]  # for help()
    return call


def _value(method: Method[S, P, T]) -> CoroutineMethod[S, P, T]:
    return _coroutine(method, lambda value, _: value)


def _schedule(method: Method[S, P, Schedule]) -> CoroutineMethod[S, P, AsyncSchedule]:
    return _coroutine(method, lambda *of: AsyncSchedule(*of))  # noqa: PLW0108  # the class follows


def _schedules(method: Method[S, P, list[Schedule]]) -> CoroutineMethod[S, P, list[AsyncSchedule]]:
    return _coroutine(method, lambda schedules, session: [AsyncSchedule(each, session) for each in schedules])


class AsyncSchedule(ScheduleValue):
    """A schedule, and what can be done with it: the methods of `Schedule` as coroutines."""

    __slots__ = ("_blocking", "_session")
    _blocking: Schedule
    _session: _Session

    def __init__(self, schedule: Schedule, session: _Session) -> None:
        super().__init__(schedule._plain, schedule._zone)
        object.__setattr__(self, "_blocking", schedule)
        object.__setattr__(self, "_session", session)

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
        self._session, self._of = duetime._session, of

    @property
    def _blocking(self) -> S:
        return self._of(self._session.duetime())


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
        self._session = self._new_session()

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
    find = _coroutine(Duetime.find, lambda schedule, session: schedule and AsyncSchedule(schedule, session))
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
    take_prompt = _coroutine(Duetime.take_prompt, lambda taken, _: taken, Duetime._give_back)
    finish_prompt = _value(Duetime.finish_prompt)
    create_scheduled_task = _value(Duetime.create_scheduled_task)
    list_scheduled_tasks = _value(Duetime.list_scheduled_tasks)
    update_scheduled_task = _value(Duetime.update_scheduled_task)
    cancel_scheduled_task = _value(Duetime.cancel_scheduled_task)
    workers = _value(Duetime.workers)
    server_status = _value(Duetime.server_status)
