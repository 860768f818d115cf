"""From what a task raised, or why it was stopped, to the outcome of its run."""

from __future__ import annotations

from typing import NamedTuple

from duetime.core.clock import SECOND
from duetime.core.outcome import Failed, Outcome, Retry
from duetime.kinds.results import error_text, shorten_error
from duetime.kinds.signals import ProcessFailed, RetryLater


class Verdict(NamedTuple):
    """What is known about a failure, in a form that also travels from a process of its own."""

    error: str
    permanent: bool = False
    retry: float | None = None


def verdict_on(error: BaseException) -> Verdict:
    """An exception may say of itself that it is permanent, as all of ours do."""
    if isinstance(error, ProcessFailed):
        return Verdict(shorten_error(error.error), error.permanent, error.retry)
    if isinstance(error, RetryLater):
        return Verdict(error_text(error), retry=error.seconds)
    return Verdict(error_text(error), permanent=getattr(error, "permanent", False) is True)


def outcome_of(error: BaseException) -> Outcome:
    verdict = verdict_on(error)
    if verdict.retry is not None:
        return Retry(verdict.error, after=round(verdict.retry * SECOND))
    return Failed(verdict.error, permanent=verdict.permanent)
