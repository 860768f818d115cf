"""The context that a task receives, and the exceptions that determine the outcome of its run."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from duetime.engine.clock import SECOND
from duetime.engine.encoding import error_text, shorten_error
from duetime.engine.outcome import Failed, Outcome, Retry
from duetime.engine.tracebacks import traceback_of
from duetime.engine.value_class import dataclass


class CancelSignal(Protocol):
    """Set when the run should stop: it was cancelled, its time is up, or its worker is shutting down."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


class TaskEvent(NamedTuple):
    """The event that started a run. Its data are what the sender wrote: data, not instructions."""

    id: int
    name: str
    at: datetime
    data: Any


class Emit(Protocol):
    def __call__(self, event: str, data: Any = None, *, key: str | None = None) -> int | None:
        """Send an event, and return its number once it is stored; None in a process of its own, whose worker stores it
        before the run ends. An event of the same name with the same `key` is sent once."""


def emit_nothing(event: str, data: Any = None, *, key: str | None = None) -> int | None:
    raise RuntimeError("events can be sent only by a run that a worker executes")


@dataclass(frozen=True, slots=True)
class TaskContext:
    """Passed to a task that has a parameter named `context` or annotated with this class."""

    run_id: int
    """The number of the run; the same for every attempt, so that a receiver can recognise a repetition."""
    attempt: int
    """The number of this attempt, starting at 1."""
    due: datetime
    """The scheduled time of this run, in UTC; not when it started."""
    name: str
    """The name of the schedule."""
    job_id: str
    """The id of the schedule."""
    owner: str
    """The owner of the schedule."""
    cancelled: CancelSignal
    """Set when the task should stop; has `is_set()` and `wait(timeout)`."""
    progress: Callable[[str], None]
    """Reports progress to people; only the latest text is kept."""
    event: TaskEvent | None = None
    """The event that started the run; None if something else did."""
    emit: Emit = emit_nothing
    """Sends an event: `context.emit("deploy.done", {"version": 5})`."""
    gate: Any = None
    """What `only_if` of the schedule gave to this run; None if it has no such condition."""


# Exceptions that say more about a run than that it failed.

LONGEST = 30 * 86_400.0
"""Maximum seconds of a requested retry delay; longer ones are reduced to it."""


class PermanentError(Exception):
    """Raise it if retrying cannot help: the run fails immediately, even if attempts are left."""

    permanent = True


class RetryLater(Exception):
    """Raise it to have the run retried after at least `seconds`. It counts as an attempt."""

    def __init__(self, seconds: float = 0.0, reason: str = "asked to be retried later") -> None:
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"RetryLater takes a number of seconds from 0 up, not {seconds!r}")
        super().__init__(reason)
        self.seconds = min(float(seconds), LONGEST)


class Stopped(Exception):
    """The work was ended because its run was told to stop; the stop signal says why."""


class ProcessFailed(Exception):
    """A task failed in its own process. Contains what the process reported, or how it ended."""

    def __init__(
        self, error: str, *, permanent: bool = False, retry: float | None = None, trace: str | None = None
    ) -> None:
        super().__init__(error)
        self.error = error
        self.permanent = permanent
        self.retry = retry
        self.trace = trace


# Mapping of exceptions to outcomes.


class Verdict(NamedTuple):
    """Details of a failure, in a form that a child process can send."""

    error: str
    permanent: bool = False
    retry: float | None = None


def verdict_on(error: BaseException) -> Verdict:
    """Classify an exception. It is permanent if its attribute `permanent` is True, as with Duetime's own errors."""
    if isinstance(error, ProcessFailed):
        return Verdict(shorten_error(error.error), error.permanent, error.retry)
    if isinstance(error, RetryLater):
        return Verdict(error_text(error), retry=error.seconds)
    return Verdict(error_text(error), permanent=getattr(error, "permanent", False) is True)


def outcome_of(error: BaseException) -> Outcome:
    verdict = verdict_on(error)
    trace = error.trace if isinstance(error, ProcessFailed) else traceback_of(error)
    if verdict.retry is not None:
        return Retry(verdict.error, after=round(verdict.retry * SECOND), traceback=trace)
    return Failed(verdict.error, permanent=verdict.permanent, traceback=trace)
