"""Methods that wait, as steps: between two of them, `Duetime` blocks its thread, `AsyncDuetime` waits on the loop."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Generator
from functools import wraps
from typing import Generic, NamedTuple, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Steps: TypeAlias = Generator[float, None, T]
"""Yields how many seconds to wait before the next step, and returns a value."""


class Ended(NamedTuple, Generic[T]):
    """The value of a method after its last step."""

    value: T


def advance(steps: Steps[T]) -> float | Ended[T]:
    """Take the next step; return the seconds until the one after it, or the value."""
    try:
        return next(steps)
    except StopIteration as end:
        return Ended(end.value)


def blocking(steps: Callable[P, Steps[T]]) -> Callable[P, T]:
    """Return a method that blocks until the last step. `__wrapped__` has its steps."""

    @wraps(steps)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        generator = steps(*args, **kwargs)
        while isinstance(step := advance(generator), float):
            threading.Event().wait(step)
        return step.value

    returns = steps.__annotations__["return"].removeprefix("Steps[").removesuffix("]")
    call.__annotations__ = {**steps.__annotations__, "return": returns}
    signature = inspect.signature(steps).replace(return_annotation=returns)
    call.__signature__ = signature  # type: ignore[attr-defined]  # for help()
    return call
