"""Runs one line: times it, shows its progress, and turns an error into a failure of that line alone."""

from __future__ import annotations

import sys
import time
import traceback
from dataclasses import dataclass

from scorecard.line import Line, Result, Scale

EVERY = 1.0
"""Seconds between two updates of the progress on a terminal."""
EVERY_ELSEWHERE = 30.0
"""The same where the output goes to a file."""


@dataclass(frozen=True, slots=True)
class Row:
    """The result of a line that was run."""

    line: Line
    result: Result
    seconds: float

    @property
    def count(self) -> str:
        return ", ".join(f"{number:,} {what}" for what, number in self.result.counts.items())

    @property
    def verdict(self) -> str:
        return "passed" if self.result.passed else "FAILED"


def run_line(line: Line, scale: Scale) -> Row:
    """Run a line; what it raises is its failure."""
    progress = Progress(line.name)
    began = time.monotonic()
    try:
        result = line.measure(scale, progress.tell)
    except Exception:
        result = Result({}, "the line ended with an error", (traceback.format_exc(),))
    finally:
        progress.clear()
    return Row(line, result, time.monotonic() - began)


class Progress:
    """A line on standard error that is written over; a new line now and then where nobody watches."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._live = sys.stderr.isatty()
        self._began = self._shown = time.monotonic()

    def tell(self, words: str) -> None:
        now = time.monotonic()
        if now - self._shown < (EVERY if self._live else EVERY_ELSEWHERE):
            return
        self._shown = now
        text = f"{self._name}: {words} ({now - self._began:.0f} s)"
        print(f"\r\x1b[K{text}" if self._live else text, end="" if self._live else "\n", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
