"""Expected failures as values: interfaces match on `Ok` and `Err`, and need not guess what may be raised."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from duetime.engine.errors import DuetimeError

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
    """Return an exception as a value. `service.errors` does the opposite."""
    return Err(error.code, error.message, error.details)
