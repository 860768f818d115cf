"""Expected failures as values: interfaces match on `Ok` and `Err`, and need not guess what may be raised."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from duetime.engine.errors import DuetimeError, InvalidInput, UnknownTask

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

    @property
    def field(self) -> str | None:
        """The field of the request that was refused, if there is exactly one."""
        name: str | None = self.details.get("field")
        return name

    @property
    def problem(self) -> str:
        """Return what is wrong with the field, without its name, or the whole message."""
        text: str = self.details.get("problem", self.message)
        return text

    @property
    def is_ok(self) -> bool:
        return False

    @property
    def is_err(self) -> bool:
        return True


Result: TypeAlias = Ok[T] | Err


def err_of(error: DuetimeError) -> Err:
    """Return an exception as a value, with the field that it is about and its problem."""
    if not isinstance(error, InvalidInput) or error.field is None:
        return Err(error.code, error.message)
    problem = {} if error.problem == error.message else {"problem": error.problem}
    known = {"known_tasks": error.known} if isinstance(error, UnknownTask) else {}
    hint = {"hint": error.hint} if error.hint else {}
    return Err(error.code, error.message, {"field": error.field} | problem | known | hint)
