"""Error classes, each with a code for programs and a message that tells people what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final


class DuetimeError(Exception):
    """An operation failed. `message` says why and what to do; `code` identifies the reason for programs, such as
    `key_reused`."""

    code: str = "error"
    permanent: ClassVar[bool] = True

    def __init__(
        self, message: str | None = None, *, code: str | None = None, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())
        if code is not None:
            self.code = code
        self.details: dict[str, Any] = dict(details or {})
        """Further facts by name, such as the `field` that the error is about."""

    @property
    def message(self) -> str:
        return str(self)

    @property
    def field(self) -> str | None:
        """The argument that the error is about, if it is exactly one."""
        name: str | None = self.details.get("field")
        return name

    @property
    def problem(self) -> str:
        """The problem with the field, without its name, or the whole message."""
        text: str = self.details.get("problem", self.message)
        return text


class Refused(DuetimeError):
    """The request was refused, and nothing was changed."""


class NotFound(Refused):
    """There is no such thing."""

    code = "not_found"


class Conflict(Refused):
    """The request does not fit what is stored: a state that does not allow it, a key in use, another change."""

    code = "conflict"


class KeyReused(Conflict):
    """This idempotency_key was used with other arguments; use another key, or the same arguments."""

    code = "key_reused"

    def __init__(self, message: str | None = None) -> None:
        usual = "this idempotency_key was used with other arguments; use another key, or the same arguments"
        super().__init__(message or usual, details={"field": "idempotency_key"})


class LimitReached(Refused):
    """A limit is reached: on the number or size of schedules, on requests, or on schedules that create others."""

    code = "quota"


class InvalidInput(Refused):
    """The input cannot be used as it is; `field` names the argument, if it is exactly one."""

    code = "invalid"

    def __init__(self, message: str | None = None, *, field: str | None = None, problem: str | None = None) -> None:
        """Pass `field` and `problem`, so that every interface can name the field in its own way, or a whole `message`
        that does not begin with the field."""
        super().__init__(message if problem is None else f"{field}: {problem}")
        if field is not None:
            self.details["field"] = field
        if problem is not None:
            self.details["problem"] = problem


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return the message for a name that is not one of the known ones."""
    return f"Unknown {what} {name[:60]!r}. Choose one of: {', '.join(known)}"


class InvalidTrigger(InvalidInput):
    """The trigger cannot be used as it is."""

    code = "invalid_trigger"


class TimePassed(InvalidTrigger):
    """The time of a one-off, or the end of a schedule, is in the past."""


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
        self.details["known_tasks"] = list(known)


# Temporary faults of the store or the machine: no connection, no descriptors, no memory, a failed read or write.

TRANSIENT: Final = (StoreUnavailable, OSError, MemoryError)


def describe(error: BaseException) -> str:
    """Return the text to log for a transient error: its message, with the type unless it is StoreUnavailable."""
    if isinstance(error, StoreUnavailable):
        return f"the store is unavailable: {error}"
    return f"the machine is short of something ({type(error).__name__}: {error}); it will be retried"
