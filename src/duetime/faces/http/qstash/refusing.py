"""Refusals as QStash's clients expect them: a status, and a sentence under `error`."""

from __future__ import annotations

from typing import Any, NamedTuple

from duetime.core.notifications import STORE_ERRORS
from duetime.core.result import Err, Result

_STATUSES = {
    "not_found": 404,
    "quota": 412,
    "depth": 403,
    "busy": 409,
    "conflict": 409,
    "not_possible": 409,
    "broken": 409,
    **dict.fromkeys(STORE_ERRORS, 503),
}
_UNREACHABLE = "the store cannot be reached just now; try again in a moment"


class Answer(NamedTuple):
    body: Any = None
    status: int = 200


class Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message

    @property
    def answer(self) -> Answer:
        return Answer({"error": self.message}, self.status)


def refusal(code: str, message: str) -> Refused:
    """Of one of our own errors. What a store says of itself holds paths and is for the operator."""
    status = _STATUSES.get(code, 400)
    return Refused(status, _UNREACHABLE if status == 503 else message)


def not_found(what: str, id: str) -> Refused:
    """The same for what does not exist and for what belongs to somebody else."""
    return Refused(404, f"{what} {id[:200]} not found")


def not_offered(what: str) -> Refused:
    return Refused(501, f"{what} not offered by this server; it has schedules, messages, batches, a DLQ and logs")


def value_of(result: Result[Any]) -> Any:
    if isinstance(result, Err):
        raise refusal(result.code, result.message)
    return result.value
