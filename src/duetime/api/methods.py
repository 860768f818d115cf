"""Declares a method once for `Duetime`, for `Schedule`, and as a coroutine for `AsyncDuetime` and `AsyncSchedule`.

A method is a function of something that has a call and, if it is about a schedule, of an id, which a `Schedule` adds
itself. One that waits yields the seconds until its next step: `Duetime` blocks its thread meanwhile, `AsyncDuetime`
waits on the loop. A type checker knows each form by the class on which the method is called.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Generator
from functools import partial, wraps
from types import MethodType
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar, overload

from duetime.api.types import Id
from duetime.service.services import Call

P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")
A = TypeVar("A")
S = TypeVar("S")
Steps: TypeAlias = Generator[float, None, T]
"""Yields how many seconds to wait before the next step, and returns a value."""


class Opened(Protocol):
    """Something of an open store, which has methods."""

    @property
    def _call(self) -> Call: ...


class CallThreads(Protocol):
    """Calls something short in a thread. If the caller gives up meanwhile, `undo` gets the result."""

    async def run(self, call: Callable[[], T], undo: Callable[[T], None] | None = None) -> T: ...


class Blocking:
    """Its methods block."""

    __slots__ = ()


class Asynchronous:
    """Its methods are coroutines, which call those of `_blocking` in the threads of the session."""

    __slots__ = ()
    _session: CallThreads

    @property
    @abstractmethod
    def _blocking(self) -> Any:
        """The object whose methods are called. Reading it may open the store."""


class BlockingSchedule:
    """Its methods block, and know the id of their schedule."""

    __slots__ = ()
    id: str

    @abstractmethod
    def _with_coroutines(self, session: CallThreads) -> AsynchronousSchedule: ...


class AsynchronousSchedule:
    """Its methods are coroutines, which know the id of their schedule."""

    __slots__ = ()


class Ended(NamedTuple, Generic[T]):
    """The value of a method after its last step."""

    value: T


def advance(steps: Steps[T]) -> float | Ended[T]:
    """Take the next step; return the seconds until the one after it, or the value."""
    try:
        return next(steps)
    except StopIteration as end:
        return Ended(end.value)


class Method(Generic[P, T, A]):
    """A method with the arguments `P` that returns a `T`, or an `A` as a coroutine."""

    def __init__(self, function: Callable[..., Any], *, returns_schedules: bool = False) -> None:
        self._function, self._waits = function, inspect.isgeneratorfunction(function)
        self._returns_schedules = returns_schedules
        self._undo: Callable[[Any, T], None] | None = None
        self._forms: dict[type, Callable[..., Any]] = {}

    def undo(self, function: Callable[[Any, T], None]) -> None:
        """Declare what becomes of a result for which nobody waits any more."""
        self._undo = function

    @overload
    def __get__(self, instance: Blocking, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: Asynchronous, owner: type) -> Callable[P, Coroutine[Any, Any, A]]: ...
    @overload
    def __get__(self: Method[Concatenate[Id, Q], T, A], instance: BlockingSchedule, owner: type) -> Callable[Q, T]: ...
    @overload
    def __get__(
        self: Method[Concatenate[Id, Q], T, A], instance: AsynchronousSchedule, owner: type
    ) -> Callable[Q, Coroutine[Any, Any, A]]: ...
    @overload
    def __get__(self, instance: None, owner: type) -> Callable[Concatenate[Any, P], Any]: ...
    def __get__(self, instance: object, owner: type) -> Any:
        form = self._forms.get(owner)
        if form is None:
            form = self._forms[owner] = self._form_of(owner)
        return form if instance is None else MethodType(form, instance)

    def _form_of(self, owner: type) -> Callable[..., Any]:
        """Return the function that a class has as its method."""
        is_coroutine = issubclass(owner, Asynchronous | AsynchronousSchedule)
        form = self._coroutine() if is_coroutine else self._blocking()
        signature = inspect.signature(self._function)
        returns = re.sub(r"^Steps\[(.*)\]$", r"\1", signature.return_annotation)
        if is_coroutine and self._returns_schedules:
            returns = re.sub(r"\bSchedule\b", "AsyncSchedule", returns)
        of_schedule = issubclass(owner, BlockingSchedule | AsynchronousSchedule)
        parameters = [each for each in signature.parameters.values() if each.name != "id" or not of_schedule]
        form.__annotations__ = {each.name: each.annotation for each in parameters[1:]} | {"return": returns}
        form.__signature__ = signature.replace(parameters=parameters, return_annotation=returns)  # type: ignore[attr-defined]
        form.__qualname__ = f"{owner.__name__}.{form.__name__}"
        return form

    def _call(self, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        own = (instance, instance.id) if isinstance(instance, BlockingSchedule) else (instance,)
        return self._function(*own, *args, **kwargs)

    def _blocking(self) -> Callable[..., Any]:
        @wraps(self._function)
        def call(instance: Any, /, *args: Any, **kwargs: Any) -> Any:
            value = self._call(instance, args, kwargs)
            if not self._waits:
                return value
            while isinstance(step := advance(value), float):
                threading.Event().wait(step)
            return step.value

        return call

    def _coroutine(self) -> Callable[..., Any]:
        @wraps(self._function)
        async def call(instance: Any, /, *args: Any, **kwargs: Any) -> Any:
            def steps() -> Steps[Any]:
                value = self._call(instance._blocking, args, kwargs)
                return (yield from value) if self._waits else value

            def give_up(step: float | Ended[Any]) -> None:
                if self._undo is not None and isinstance(step, Ended):
                    self._undo(instance._blocking, step.value)

            session, next_step = instance._session, partial(advance, steps())
            while isinstance(step := await session.run(next_step, self._undo and give_up), float):
                await asyncio.sleep(step)
            return _with_coroutines(step.value, session) if self._returns_schedules else step.value

        return call


def method(function: Callable[Concatenate[S, P], T]) -> Method[P, T, T]:
    """Declare a method. One that returns schedules is declared with `schedule_method` or `schedules_method`."""
    return Method(function)


def waits(function: Callable[Concatenate[S, P], Steps[T]]) -> Callable[Concatenate[S, P], T]:
    """Declare that a method waits between its steps, below the decorator that makes it a method."""
    return function  # type: ignore[return-value]  # the method takes the steps


def _with_coroutines(value: Any, session: CallThreads) -> Any:
    """Return a schedule, or a list of them, as the one whose methods are coroutines; anything else as it is."""
    if isinstance(value, list):
        return [_with_coroutines(each, session) for each in value]
    return value._with_coroutines(session) if isinstance(value, BlockingSchedule) else value
