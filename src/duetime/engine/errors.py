"""Error classes, each with a code for programs and a message that tells people what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final


class DuetimeError(Exception):
    """An operation failed; `message` says why. All errors of a class have the same `code`: `error` if a request was
    refused."""

    code: ClassVar[str] = "error"
    permanent: ClassVar[bool] = True

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())

    @property
    def message(self) -> str:
        return str(self)


class InvalidInput(DuetimeError):
    """The input cannot be used as it is."""

    code = "invalid"

    hint: str = ""
    """What to do instead, for interfaces that show it beside the message."""

    def __init__(self, message: str | None = None, *, field: str | None = None, problem: str | None = None) -> None:
        """Pass `field` and `problem`, so that every interface can name the field in its own way, or a whole `message`
        that does not begin with the field."""
        super().__init__(message if problem is None else f"{field}: {problem}")
        self.field = field
        self.problem = self.message if problem is None else problem


def unknown(what: str, given: str, known: Iterable[str]) -> str:
    """Return the message for a name that is not one of the known ones."""
    return f"Unknown {what} {given[:60]!r}. Choose one of: {', '.join(known)}"


class InvalidTrigger(InvalidInput):
    """The trigger cannot be used as it is."""

    code = "invalid_trigger"


class UnknownZone(InvalidInput):
    """The time zone is not known; use an IANA name such as Europe/Berlin."""

    code = "unknown_zone"


class UnreadableTime(InvalidInput):
    """The text cannot be read as a date or time."""

    code = "unreadable_time"


class StoreUnavailable(DuetimeError):
    """The store cannot be reached right now; work continues when it is back."""

    code = "store_unavailable"
    permanent = False


class StoreUnusable(DuetimeError):
    """The store cannot be used: wrong file, wrong version, read-only or full."""

    code = "store_unusable"


class WorkerGone(DuetimeError):
    """This worker was declared dead and its runs were given to others; it registers again."""

    code = "worker_gone"
    permanent = False


class UnknownTask(InvalidInput):
    """There is no such task; `list_tasks` shows all of them."""

    code = "unknown_task"

    def __init__(self, message: str | None = None, *, field: str | None = None, known: Sequence[str] = ()) -> None:
        super().__init__(message, field=field)
        self.known = list(known)


# Temporary faults of the store or the machine: no connection, no descriptors, no memory, a failed read or write.

TRANSIENT: Final = (StoreUnavailable, OSError, MemoryError)


def describe(error: BaseException) -> str:
    """Return the text to log for a transient error: its message, with the type unless it is StoreUnavailable."""
    if isinstance(error, StoreUnavailable):
        return f"the store is unavailable: {error}"
    return f"the machine is short of something ({type(error).__name__}: {error}); it will be retried"
