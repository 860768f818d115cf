"""Errors of all interfaces: one table that maps error codes to exceptions, HTTP statuses and exit codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from duetime.engine.errors import (
    Conflict,
    DuetimeError,
    InvalidInput,
    InvalidTrigger,
    KeyReused,
    LimitReached,
    NotFound,
    Refused,
    StoreUnavailable,
    StoreUnusable,
    UnknownTask,
    UnknownZone,
    UnreadableTime,
    WorkerGone,
)
from duetime.engine.scopes import WRITE, OutOfScope, check
from duetime.engine.value_class import NamedTuple

if TYPE_CHECKING:
    from duetime.engine.kind import Caller

STORE_ERRORS: Final = frozenset({StoreUnavailable.code, StoreUnusable.code})
"""Errors whose messages may name files or hosts, so that only the operator sees them."""
STORE_MESSAGE: Final = "The store cannot be reached right now; try again in a moment."

OK, FAILED, USAGE, NOT_FOUND, REFUSED, STORE, NOT_FINISHED = range(7)
"""Exit codes of the command line. `NOT_FINISHED`: the time to wait for a run passed before the run ended."""
INTERRUPTED, PIPE_CLOSED = 130, 141
"""Exit codes for SIGINT and SIGPIPE: 128 and the number of the signal."""


class ErrorClass(NamedTuple):
    """How errors with a code are shown: as an exception, as the status of an HTTP response, as the exit code of a
    command."""

    type: type[DuetimeError]
    status: int
    exit: int


_CONFLICT: Final = ErrorClass(Conflict, 409, REFUSED)
_OTHER: Final = ErrorClass(Refused, 422, FAILED)
ERRORS: Final = {
    "invalid": ErrorClass(InvalidInput, 422, USAGE),
    "invalid_trigger": ErrorClass(InvalidTrigger, 422, USAGE),
    "unknown_zone": ErrorClass(UnknownZone, 422, USAGE),
    "unreadable_time": ErrorClass(UnreadableTime, 422, USAGE),
    "unknown_task": ErrorClass(UnknownTask, 422, USAGE),
    "ambiguous": ErrorClass(InvalidInput, 409, USAGE),
    "invalid_file": ErrorClass(InvalidInput, 422, REFUSED),
    "not_json": ErrorClass(InvalidInput, 415, FAILED),
    "not_found": ErrorClass(NotFound, 404, NOT_FOUND),
    "key_reused": ErrorClass(KeyReused, 422, REFUSED),
    **dict.fromkeys(("not_possible", "conflict", "busy", "not_yours", "kept_elsewhere"), _CONFLICT),
    "broken": ErrorClass(Conflict, 409, FAILED),
    "changed": ErrorClass(Conflict, 412, FAILED),
    **dict.fromkeys(("quota", "depth"), ErrorClass(LimitReached, 403, REFUSED)),
    "too_large": ErrorClass(LimitReached, 413, REFUSED),
    **dict.fromkeys(("too_many_streams", "too_many_requests"), ErrorClass(LimitReached, 429, FAILED)),
    "run_token": ErrorClass(Refused, 403, REFUSED),
    "scope": ErrorClass(OutOfScope, 403, REFUSED),
    **dict.fromkeys(("operators_only", "foreign"), ErrorClass(Refused, 403, FAILED)),
    "store_unavailable": ErrorClass(StoreUnavailable, 503, STORE),
    "store_unusable": ErrorClass(StoreUnusable, 503, STORE),
    "worker_gone": ErrorClass(WorkerGone, 422, STORE),
}


def error_class(code: str) -> ErrorClass:
    return ERRORS.get(code, _OTHER)


def refuse(
    code: str, message: str, field: str | None = None, *, details: Mapping[str, Any] | None = None
) -> DuetimeError:
    """Return the exception for a code."""
    error = error_class(code).type(message)
    error.code, error.details = code, dict(details or {})
    if field is not None:
        error.details["field"] = field
    if "hint" in error.details:
        error.add_note(error.details["hint"])
    return error


def reword(error: DuetimeError, message: str, **details: Any) -> DuetimeError:
    """Return an error with another message and further details."""
    return refuse(error.code, message, details={**error.details, **details})


def refuse_many(caller: Caller, doing: str, instead: str, action: str = WRITE) -> None:
    """Refuse operations that may change many things at once to a token without the scope for the action, and to an
    agent's run, because something it read may have misled it."""
    check(caller.scopes, action)
    if caller.depth > 0:
        raise refuse("run_token", f"an agent's run cannot {doing} at once; {instead}")
