"""Errors of all interfaces: one exception for a refused request, and one table that maps error codes to HTTP statuses
and exit codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from duetime.engine import result
from duetime.engine.errors import DuetimeError, StoreUnavailable, StoreUnusable
from duetime.engine.result import Err, Result
from duetime.engine.scopes import WRITE, check

if TYPE_CHECKING:
    from duetime.engine.kind import Caller

T = TypeVar("T")

STORE_ERRORS: Final = frozenset({StoreUnavailable.code, StoreUnusable.code})
"""Errors whose messages may name files or hosts, so that only the operator sees them."""
STORE_MESSAGE: Final = "The store cannot be reached right now; try again in a moment."

OK, FAILED, USAGE, NOT_FOUND, REFUSED, STORE, NOT_FINISHED = range(7)
"""Exit codes of the command line. `NOT_FINISHED`: the time to wait for a run passed before the run ended."""
INTERRUPTED, PIPE_CLOSED = 130, 141
"""Exit codes for SIGINT and SIGPIPE: 128 and the number of the signal."""


class Shown(NamedTuple):
    """How an error is shown: the status of an HTTP response, and the exit code of a command."""

    status: int
    exit: int


_INVALID: Final = Shown(422, USAGE)
ERRORS: Final = {
    **dict.fromkeys(("invalid", "invalid_trigger", "unknown_zone", "unreadable_time", "unknown_task"), _INVALID),
    "key_reused": Shown(422, REFUSED),
    "not_found": Shown(404, NOT_FOUND),
    "ambiguous": Shown(409, USAGE),
    **dict.fromkeys(("not_possible", "conflict", "busy", "not_yours"), Shown(409, REFUSED)),
    **dict.fromkeys(("broken", "kept_elsewhere"), Shown(409, FAILED)),
    "changed": Shown(412, FAILED),
    "too_large": Shown(413, REFUSED),
    "not_json": Shown(415, FAILED),
    **dict.fromkeys(("too_many_streams", "too_many_requests"), Shown(429, FAILED)),
    **dict.fromkeys(("quota", "depth", "run_token", "scope"), Shown(403, REFUSED)),
    **dict.fromkeys(("operators_only", "foreign"), Shown(403, FAILED)),
    **dict.fromkeys((StoreUnavailable.code, StoreUnusable.code), Shown(503, STORE)),
    "worker_gone": Shown(422, STORE),
}
_OTHER: Final = Shown(422, FAILED)


def shown(code: str) -> Shown:
    return ERRORS.get(code, _OTHER)


class Refused(DuetimeError):
    """The request was refused."""

    def __init__(self, err: Err) -> None:
        super().__init__(err.message or err.code)
        self.err = err
        if "hint" in err.details:
            self.add_note(err.details["hint"])

    @property
    def reason(self) -> str:
        return self.err.code

    @property
    def details(self) -> dict[str, object]:
        return self.err.details


def unwrap(result: Result[T]) -> T:
    """Return the value of a successful result, or raise Refused."""
    if isinstance(result, Err):
        raise Refused(result)
    return result.value


def refuse(code: str, message: str, field: str | None = None) -> Refused:
    return Refused(Err(code, message, {} if field is None else {"field": field}))


def refuse_many(caller: Caller, doing: str, instead: str, action: str = WRITE) -> None:
    """Refuse operations that may change many things at once to a token without the scope for the action, and to an
    agent's run, because something it read may have misled it."""
    check(caller.scopes, action)
    if caller.depth > 0:
        raise refuse("run_token", f"an agent's run cannot {doing} at once; {instead}")


def err_of(error: DuetimeError) -> Err:
    """Return an exception as the value that interfaces present."""
    return error.err if isinstance(error, Refused) else result.err_of(error)
