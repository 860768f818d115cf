"""What a task may raise to say more than that it failed."""

from __future__ import annotations

import math

LONGEST = 30 * 86_400.0
"""Seconds; a task that asks for more patience gets this much."""


class PermanentError(Exception):
    """Trying again cannot help: the run fails at once, whatever attempts are left."""

    permanent = True


class RetryLater(Exception):
    """Not this time: try again after `seconds` at least. Counts as an attempt."""

    def __init__(self, seconds: float = 0.0, reason: str = "asked to be tried again later") -> None:
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"RetryLater takes a number of seconds from 0 up, not {seconds!r}")
        super().__init__(reason)
        self.seconds = min(float(seconds), LONGEST)


class Stopped(Exception):
    """The work was ended because its run was told to stop; the stop signal says why."""


class ProcessFailed(Exception):
    """A task failed in its own process. Carries what the process told about it, or how it ended."""

    def __init__(
        self, error: str, *, permanent: bool = False, retry: float | None = None, trace: str | None = None
    ) -> None:
        super().__init__(error)
        self.error = error
        self.permanent = permanent
        self.retry = retry
        self.trace = trace
