"""Tracebacks of failed runs, starting at the first frame of the task and short enough to be stored in the run's row."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from duetime.engine.encoding import clean_text

if TYPE_CHECKING:
    from traceback import StackSummary, TracebackException

LONGEST: Final = 6_000
"""Maximum length of a stored traceback, in characters."""
_LONGEST_LINE: Final = 500
_UNREDACTED: Final = 40_000
"""Length to which a traceback is cut before its secrets are redacted: far more than is kept, so that a secret at the
edge of this cut is not part of what is kept."""
_MOST_FRAMES: Final = 40
_MOST_LINKS: Final = 20
_PACKAGE: Final = str(Path(__file__).resolve().parents[1]) + os.sep
_LIBRARY: Final = re.compile(
    r"(?i)[/\\](site-packages|dist-packages|lib[/\\]python\d[\d.]*|python\d+[/\\]lib)[/\\]|^<(?!string>)"
    r"|[/\\]duetime[/\\](engine|kinds|processes)[/\\]"
)
_FRAME: Final = re.compile(r'^[ |]*File "(?P<file>[^"]*)", line (?P<line>\d+)(?:, in (?P<function>.*))?$')


class Frame(NamedTuple):
    """A frame of a formatted traceback."""

    file: str
    line: int
    function: str
    code: str
    own: bool
    """Whether it is the user's code, and not a library's or Duetime's."""


def is_library(file: str) -> bool:
    return file.startswith(_PACKAGE) or _LIBRARY.search(file) is not None


def traceback_of(error: BaseException) -> str:
    """Format the traceback of an exception with its causes, without the frames that called the task. The text is not
    redacted yet."""
    import traceback

    try:
        found = traceback.TracebackException.from_exception(error, compact=True)
        links = list(_chain(found))[:_MOST_LINKS]
        for link in links:
            _drop_callers(link.stack)
        text = "".join(found.format())
        if len(text) > LONGEST:
            for link in links:
                _keep_own(link.stack)
            text = "".join(found.format())
    except Exception:  # formatting calls the task author's code, which may fail as well
        text = f"{type(error).__name__} (its traceback cannot be written)"
    return without_middle(text.rstrip(), _UNREDACTED)


def _chain(found: TracebackException) -> Iterator[TracebackException]:
    waiting = [found]
    while waiting:
        each = waiting.pop()
        yield each
        linked = (each.__cause__, each.__context__, *(each.exceptions or ()))
        waiting += [link for link in linked if link is not None]


def _drop_callers(stack: StackSummary) -> None:
    """Drop the frames of Duetime down to the task, if the task has frames of its own."""
    first = next((place for place, frame in enumerate(stack) if not frame.filename.startswith(_PACKAGE)), 0)
    del stack[:first]


def _keep_own(stack: StackSummary) -> None:
    """Drop the frames of libraries, except the innermost one, which raised; also drop the middle of a long
    recursion."""
    last = len(stack) - 1
    stack[:] = [frame for place, frame in enumerate(stack) if place == last or not is_library(frame.filename)]
    if len(stack) > _MOST_FRAMES:
        del stack[_MOST_FRAMES // 2 : -_MOST_FRAMES // 2]


def stored_traceback(redacted: str) -> str:
    """Return a redacted traceback as it is stored."""
    lines = [line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} ..." for line in redacted.splitlines()]
    return clean_text(without_middle("\n".join(lines), LONGEST))


def without_middle(text: str, longest: int) -> str:
    """Cut the middle out of a text that is too long: it begins with the frames and ends with the message."""
    if len(text) <= longest:
        return text
    half = longest // 2 - 30
    head, tail = text[:half].rpartition("\n")[0] or text[:half], text[-half:].partition("\n")[2] or text[-half:]
    return f"{head}\n  ... {len(text) - len(head) - len(tail):,} characters left out ...\n{tail}"


def frames_of(text: str) -> list[Frame]:
    """Return the frames of a stored traceback, in its order."""
    frames: list[Frame] = []
    lines = text.splitlines()
    for place, line in enumerate(lines):
        found = _FRAME.match(line)
        if found is None:
            continue
        following = lines[place + 1] if place + 1 < len(lines) else ""
        is_code = following.lstrip(" |") and following.startswith(line[: found.start("file") - len('File "')] + " ")
        code = following.strip(" |") if is_code and _FRAME.match(following) is None else ""
        number, function = int(found["line"][:9]), found["function"] or ""
        frames.append(Frame(found["file"], number, function, code, not is_library(found["file"])))
    return frames
