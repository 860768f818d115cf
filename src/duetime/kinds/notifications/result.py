"""Expected failures of notifications as values, which their contract prescribes: the tools match on `Ok` and `Err`.
Everything else raises."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar

from duetime.engine.errors import DuetimeError
from duetime.engine.value_class import dataclass
from duetime.service.errors import STORE_ERRORS, refuse

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ok(Generic[T]):
    value: T

    @property
    def is_ok(self) -> bool:
        return True

    @property
    def is_err(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Err:
    code: str
    message: str = ""
    details: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Those of the error, such as the `field` that it is about."""

    @property
    def is_ok(self) -> bool:
        return False

    @property
    def is_err(self) -> bool:
        return True


Result: TypeAlias = Ok[T] | Err


def as_result(method: Callable[P, T]) -> Callable[P, Result[T]]:
    """Make a method return its value as `Ok`, and what it raises as `Err`."""

    @functools.wraps(method)
    def returning(*args: P.args, **kwargs: P.kwargs) -> Result[T]:
        try:
            return Ok(method(*args, **kwargs))
        except DuetimeError as error:
            error = for_callers(error)
            return Err(error.code, error.message, error.details)

    return returning


def for_callers(error: DuetimeError) -> DuetimeError:
    """Return an error in a form that callers may see: a message of the store contains paths, which are only for the
    operator."""
    if error.code in STORE_ERRORS:
        return refuse("api_error", "the store cannot be reached right now; try again in a moment")
    return error


def error_of(err: Err) -> DuetimeError:
    return refuse(err.code, err.message, details=err.details)


def unwrap(result: Result[T]) -> T:
    """Return the value of a successful result, or raise the error."""
    if isinstance(result, Err):
        raise error_of(result)
    return result.value
