"""The source around a line of a traceback, for the page of a run."""

from __future__ import annotations

import linecache
import sys
from textwrap import dedent
from typing import Final

from duetime.engine.tracebacks import TraceFrame
from duetime.service.masking import masked

BEFORE: Final = 3
AFTER: Final = 2
"""Lines that are shown before and after the one of the traceback."""
_LONGEST: Final = 300


def source_around(frame: TraceFrame) -> list[tuple[int, str]]:
    """Return the numbered lines around one of a traceback, with credentials masked. A traceback is text, and whoever
    raised the error may have written any path into it: only the source of a module that this process has imported is
    read, and nothing is returned unless it still has the line of the traceback in its place."""
    modules = list(sys.modules.values())
    if not frame.code or all(getattr(module, "__file__", None) != frame.file for module in modules):
        return []
    linecache.checkcache(frame.file)
    lines, first = linecache.getlines(frame.file), max(0, frame.line - 1 - BEFORE)
    if frame.line > len(lines) or lines[frame.line - 1].strip() != frame.code:
        return []
    text = masked(dedent("".join(lines[first : frame.line + AFTER]))).rstrip()
    return [(first + number, line[:_LONGEST]) for number, line in enumerate(text.splitlines(), 1)]
