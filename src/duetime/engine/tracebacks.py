"""Tracebacks of failed runs, starting at the first frame of the task and short enough to be stored in the run's row."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from duetime.engine.encoding import clean_text
from duetime.engine.value_class import NamedTuple, pattern

if TYPE_CHECKING:
    from traceback import StackSummary, TracebackException

MAX_TRACEBACK_LENGTH: Final = 6_000
"""Maximum length of a stored traceback, in characters."""
_LONGEST_LINE: Final = 500
_UNREDACTED: Final = 40_000
"""Length to which a traceback is cut before its secrets are redacted: far more than is kept, so that a secret at the
edge of this cut is not part of what is kept."""
_MOST_LINKS: Final = 20
_PACKAGE: Final = str(Path(__file__).resolve().parents[1]) + os.sep
_LIBRARY: Final = pattern(
    r"(?i)[/\\](site-packages|dist-packages|lib[/\\]python\d[\d.]*|python\d+[/\\]lib)[/\\]|^<(?!string>)"
    r"|[/\\]duetime[/\\](engine|kinds|processes)[/\\]"
)
_RELATIONS: Final = {
    "The above exception was the direct cause of the following exception:": "caused by",
    "During handling of the above exception, another exception occurred:": "while handling",
}
_BETWEEN: Final = pattern(rf"^\n({'|'.join(_RELATIONS)})\n\n", re.MULTILINE)
_REPEATED: Final = pattern(r"^[ |]*\[Previous line repeated (\d{1,9}) more times?\]$")
_ERROR: Final = pattern(r"(?:  \| )?(?![ +|-]|Traceback \(|Exception Group Traceback \()\S.*")
_LEAST_PART: Final = 300
_FRAME: Final = pattern(r'^[ |]*File "(?P<file>[^"]*)", line (?P<line>\d+)(?:, in (?P<function>.*))?$')


class TraceFrame(NamedTuple):
    """A frame of a formatted traceback."""

    file: str
    line: int
    function: str
    code: str
    own: bool
    """Whether it is the user's code, and not a library's or Duetime's."""
    repeated: int = 0
    """How often the same line called itself again."""


class ChainedException(NamedTuple):
    """An exception of a stored traceback."""

    relation: str
    """How the exception before it is related: it was `caused by` this one, or raised `while handling` it."""
    error: str
    """Its type and its message."""
    frames: list[TraceFrame]


def is_library(file: str) -> bool:
    return file.startswith(_PACKAGE) or _LIBRARY.search(file) is not None


def traceback_of(error: BaseException) -> str:
    """Format the traceback of an exception with its causes, without the frames that called the task. The text is not
    redacted yet."""
    import traceback

    try:
        exception = traceback.TracebackException.from_exception(error, compact=True)
        links = list(_chain(exception))[:_MOST_LINKS]
        for link in links:
            _drop_callers(link.stack)
        text = "".join(exception.format())
        if len(text) > MAX_TRACEBACK_LENGTH:
            for link in links:
                _keep_own(link.stack)
            text = "".join(exception.format())
    except Exception:  # formatting calls the task author's code, which may fail as well
        text = f"{type(error).__name__} (its traceback cannot be written)"
    return _shorten(text.rstrip(), _UNREDACTED)


def _chain(exception: TracebackException) -> Iterator[TracebackException]:
    waiting = [exception]
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
    """Drop the frames of libraries, except the innermost one, which raised."""
    last = len(stack) - 1
    stack[:] = [frame for place, frame in enumerate(stack) if place == last or not is_library(frame.filename)]


def stored_traceback(redacted: str) -> str:
    """Return a redacted traceback as it is stored."""
    lines = [line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} ..." for line in redacted.splitlines()]
    return clean_text(_shorten("\n".join(lines), MAX_TRACEBACK_LENGTH))


def _shorten(text: str, longest: int) -> str:
    """Cut a traceback that is too long, each of its exceptions for itself, so that none loses its message."""
    if len(text) > longest:
        parts = _BETWEEN.split(text)
        share = max(_LEAST_PART, longest * 2 // (len(parts) + 1) - 80)
        parts[::2] = [without_middle(part, share) for part in parts[::2]]
        text = parts[0] + "".join(f"\n{parts[at]}\n\n{parts[at + 1]}" for at in range(1, len(parts), 2))
    return without_middle(text, longest)


def without_middle(text: str, longest: int) -> str:
    """Cut the middle out of a text that is too long: it begins with the frames and ends with the message."""
    if len(text) <= longest:
        return text
    half = longest // 2 - 30
    head, tail = text[:half].rpartition("\n")[0] or text[:half], text[-half:].partition("\n")[2] or text[-half:]
    return f"{head}\n  ... {len(text) - len(head) - len(tail):,} characters left out ...\n{tail}"


def exceptions_of(text: str) -> list[ChainedException]:
    """Return the exceptions of a stored traceback: the one that was raised last, then those that led to it."""
    *before, last = _BETWEEN.split(text)
    parts = [("", last), *zip(before[-1::-2], before[-2::-2], strict=True)]
    return [ChainedException(_RELATIONS.get(words, ""), _error_of(part), frames_of(part)) for words, part in parts]


def _error_of(part: str) -> str:
    """Return the type and message of an exception, which follow its frames."""
    lines = part.splitlines()
    first = next((place for place, line in enumerate(lines) if _ERROR.fullmatch(line)), len(lines))
    is_group = lines[first:] and lines[first].startswith(" ")
    return lines[first].removeprefix("  | ") if is_group else "\n".join(lines[first:]).strip()


def frames_of(text: str) -> list[TraceFrame]:
    """Return the frames of a stored traceback, in its order."""
    frames: list[TraceFrame] = []
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if (again := _REPEATED.match(line)) and frames:
            frames[-1] = frames[-1]._replace(repeated=int(again[1]))
        match = _FRAME.match(line)
        if match is None:
            continue
        following = lines[place + 1] if place + 1 < len(lines) else ""
        is_code = following.lstrip(" |") and following.startswith(line[: match.start("file") - len('File "')] + " ")
        code = following.strip(" |") if is_code and _FRAME.match(following) is None else ""
        number, function = int(match["line"][:9]), match["function"] or ""
        frames.append(TraceFrame(match["file"], number, function, code, not is_library(match["file"])))
    return frames


_FRAMES: Final = re.compile(
    r'^[ \t|+-]*(?:Traceback \(most recent call last\):|File "[^"\n]*", line \d+.*(?:\n[ \t|]{4,}(?!File ").*)*)\n?',
    re.MULTILINE,
)


def without_frames(text: str, is_inside: bool = False) -> tuple[str, bool]:
    """Return a text without the frames of the tracebacks in it, which show source code and paths; their messages stay.
    Return also whether it ends in a frame, so that the text after it may begin with source code, as `is_inside` says of
    this one."""
    if not (is_inside or '"' in text or "Traceback" in text):
        return text, False
    whole = f'File "", line 0\n{text}' if is_inside else text
    return _FRAMES.sub("", whole), any(match.end() == len(whole) for match in _FRAMES.finditer(whole))
