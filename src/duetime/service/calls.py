"""Helpers shared by the Python API and the commands: local caller, results as exceptions, triggers from options."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypeVar

from duetime.engine.clock import SECOND
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.engine.kind import LOCAL as LOCAL_OWNER
from duetime.engine.kind import Caller
from duetime.engine.result import Err, Result
from duetime.engine.times import read_duration

T = TypeVar("T")
LOCAL = Caller(LOCAL_OWNER, operator=True)


class Refused(DuetimeError):
    """The request was refused."""

    def __init__(self, err: Err) -> None:
        super().__init__(err.message or err.code)
        self.reason = err.code
        self.details = err.details


def taken(result: Result[T]) -> T:
    """Return the value or raise the refusal, because Python callers expect exceptions."""
    if isinstance(result, Err):
        raise Refused(result)
    return result.value


def trigger_of(
    *,
    at: datetime | str | None = None,
    every: timedelta | float | str | None = None,
    cron: str | None = None,
    rrule: str | None = None,
) -> tuple[str, dict[str, Any]]:
    given = [
        name for name, value in (("at", at), ("every", every), ("cron", cron), ("rrule", rrule)) if value is not None
    ]
    if len(given) != 1:
        raise InvalidInput(f"give exactly one of at, every, cron, rrule, not {', '.join(given) or 'none'}")
    if at is not None:
        return "once", {"run_at": at.isoformat() if isinstance(at, datetime) else at}
    if isinstance(every, str):
        return "interval", {"seconds": read_duration(every) / SECOND}
    if every is not None:
        return "interval", {"seconds": every.total_seconds() if isinstance(every, timedelta) else every}
    if cron is not None:
        return "cron", {"expression": cron}
    return "rrule", {"rrule": rrule}
