"""Formatting and rate limiting of log records.

Text from owners and agents must not control the terminal or imitate a record, credentials must not be logged, and a
repeated error or a client that repeats itself must not fill the disk.
"""

from __future__ import annotations

import logging
import re
import threading
from pathlib import Path
from typing import Final

from duetime.engine.clock import Clock, SystemClock
from duetime.engine.tracebacks import frames_of
from duetime.service.masking import redacted
from duetime.service.text import clean

LAYOUT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
INDENT = "    "
"""Prefix of every further line of a record, so that only its first line begins with a date."""


class SafeFormatter(logging.Formatter):
    """Redacts credentials, escapes control characters in every line, and indents all lines but the first."""

    def __init__(self) -> None:
        super().__init__(LAYOUT)

    def format(self, record: logging.LogRecord) -> str:
        first, *others = redacted(super().format(record)).split("\n")
        return "\n".join([clean(first), *(f"{INDENT}{clean(line)}" for line in others)])


# Failures of runs: one line with the user's own frame. The whole traceback is kept with the run.

_TRACE = "Traceback (most recent call last):"


def is_failure_of_a_run(record: logging.LogRecord) -> bool:
    """Return whether a record reports a failed run, rather than a fault of the server."""
    return not record.exc_info and _TRACE in record.getMessage()


class BriefFormatter(SafeFormatter):
    """Formats failures of runs in one line: what failed, the error, and the line of the user's code."""

    def format(self, record: logging.LogRecord) -> str:
        if not is_failure_of_a_run(record):
            return super().format(record)
        head, _, trace = record.getMessage().partition(_TRACE)
        short = logging.makeLogRecord({**vars(record), "msg": "%s: %s", "args": (head.strip(": \n"), _gist(trace))})
        return super().format(short)


def _gist(trace: str) -> str:
    """Return the error of a traceback and the last frame that is the user's own."""
    trace = trace.rpartition(_TRACE)[2]
    frames = frames_of(trace)
    lines = [line for line in trace.splitlines() if line and not line.startswith(" ")]
    error = lines[0] if lines else "it failed"
    if not frames:
        return error
    last = ([each for each in frames if each.own] or frames)[-1]
    return f"{error} ({Path(last.file).name}:{last.line} in {last.function})"


# Rate limiting of repeated lines.

MOST: Final = 20
PERIOD: Final = 30.0
"""Period in seconds in which at most MOST records of one line are written."""
_REMEMBERED: Final = 1000
_NUMBER = re.compile(r"\d+")

Key = tuple[str, int, str]


class RepeatFilter(logging.Filter):
    """Drops lines that repeat too often, ignoring their numbers, and logs how many once the period is over."""

    def __init__(self, handler: logging.Handler, most: int = MOST, clock: Clock | None = None) -> None:
        super().__init__()
        self._handler, self._most, self._clock = handler, most, clock or SystemClock()
        self._counts: dict[Key, tuple[float, int]] = {}
        """When the period of each line began, and how many records there have been since."""
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._clock.monotonic()
        key = (record.name, record.levelno, _NUMBER.sub("#", record.getMessage()[:200]))
        with self._lock:
            over = self._over(now)
            began, number = self._counts.get(key, (now, 0))
            self._counts[key] = began, number + 1
        for ended, left_out in over:
            self._tell(ended, left_out)
        return number < self._most

    def _over(self, now: float) -> list[tuple[Key, int]]:
        """Forget the lines whose period is over, and return those with dropped records."""
        ended = [key for key, (began, _) in self._counts.items() if now - began >= PERIOD]
        if len(self._counts) - len(ended) >= _REMEMBERED:
            ended = list(self._counts)
        counts = [(key, self._counts.pop(key)[1] - self._most) for key in ended]
        return [(key, left_out) for key, left_out in counts if left_out > 0]

    def _tell(self, key: Key, left_out: int) -> None:
        name, level, line = key
        words = "%s more records such as this were left out: %s"
        record = logging.LogRecord(name, level, "", 0, words, (left_out, line), None)
        with self._handler.lock or self._lock:
            self._handler.emit(record)
