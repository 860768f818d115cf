"""The tasks that come with Duetime for gates, the conditions in `only_if`: what a page, a field or a folder shows, and
whether that has changed."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from duetime.engine import patterns
from duetime.engine.encoding import encode_whole
from duetime.engine.errors import InvalidInput
from duetime.engine.policy.gates import FIRST_LOOK
from duetime.engine.triggers.event import MISSING, value_at
from duetime.kinds.jobs.builtin import TASKS, web_tasks
from duetime.kinds.jobs.registry import Task

if TYPE_CHECKING:
    from duetime.settings import Settings

_MOST_KEPT: Final = 256
"""Maximum bytes of a value that a gate remembers as it is; of a longer one, it remembers a digest."""
_MOST_FILES: Final = 20_000
_MOST_NAMED: Final = 100
"""Maximum number of changed files that are named."""
_REGEX: Final = re.compile(r"\\|^\^|(?<!\*)\.\*|\.\+|\(\?")
"""What stands in regular expressions and hardly ever in text."""


class NotNow(Exception):
    """The gate lets nothing pass; the message says why."""


class Memory:
    """What one step of a gate remembers."""

    def __init__(self, before: Any = None) -> None:
        self.before = before
        """None if this is the first look."""
        self.after: Any = before
        self.at_once = before is None
        """Whether `after` is remembered even if the gate lets nothing pass."""

    def compare(self, value: Any) -> Any:
        """Remember a value, and return the one before. The first look lets nothing pass."""
        self.after = value
        if self.before is None:
            raise NotNow(FIRST_LOOK)
        return self.before


def changed(value: Annotated[Any, "what to compare"], *, memory: Memory) -> Any:
    """Only in only_if: lets a value pass that differs from the one with which the last run succeeded."""
    if memory.compare(_print(value)) == memory.after:
        raise NotNow("nothing has changed")
    return value


def became(
    value: Annotated[Any, "what to compare"], target: Annotated[Any, "the value that it is to have"], *, memory: Memory
) -> Any:
    """Only in only_if: lets a value pass when it becomes this one."""
    is_target = encode_whole(value) == encode_whole(target)
    was_target = memory.compare(is_target)
    if not is_target:
        memory.at_once = True
        raise NotNow(f"it is not {encode_whole(target)}")
    if was_target:
        raise NotNow(f"it was {encode_whole(target)} before")
    return value


def contains(value: Annotated[Any, "a text"], text: Annotated[str, "what to look for"]) -> bool:
    """Returns whether a text contains another one."""
    return text in _text(value)


def matches(value: Annotated[Any, "a text"], pattern: Annotated[str, "a text with * for any text"]) -> bool:
    """Returns whether a whole text matches a pattern, in which * stands for any text."""
    if _REGEX.search(pattern):
        raise InvalidInput(field="pattern", problem="write * for any text; other signs stand for themselves")
    return patterns.matches(pattern, _text(value))


def field(value: Annotated[Any, "JSON"], path: Annotated[str, "such as build.state or items.0.name"]) -> Any:
    """Returns what stands at a path in JSON; null if nothing does."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise InvalidInput(field="value", problem=f"is not JSON, so it has no {path[:100]}") from None
    part = value_at(value, path)
    return None if part is MISSING else part


def files_changed(
    folder: Annotated[str, "a folder below watch_folders of the settings"], *, folders: Sequence[str], memory: Memory
) -> dict[str, Any]:
    """Only in only_if: lets the names of files pass that are new or changed in a folder and the folders below it."""
    top = allowed_folder(folder, folders)
    files = list(_files(top))
    facts = "".join(f"{path}\0{at}\0{size}\0" for path, at, size, _ in files)
    digest = hashlib.sha256(facts.encode(errors="surrogateescape")).hexdigest()
    before, since = memory.compare([digest, max((arrived for *_, arrived in files), default=0)])
    if before == digest:
        raise NotNow("no file has changed")
    names = [path for path, *_, arrived in files if arrived > since]
    return {"changed": names[:_MOST_NAMED], "number_of_files": len(files)}


def allowed_folder(folder: str, folders: Sequence[str]) -> str:
    """Return the path of a folder that is or lies below one of those that the settings name, links resolved."""
    path = Path(folder).expanduser()
    is_inside = any(path.resolve().is_relative_to(Path(each).expanduser().resolve()) for each in folders)
    if not path.is_absolute() or not is_inside:
        problem = "must be an absolute path below one of watch_folders in the settings"
        raise InvalidInput(field="folder", problem=problem)
    return str(path.resolve())


def _files(top: str) -> Iterator[tuple[str, int, int, int]]:
    """Yield the path below the folder, the time of the last change, the size and the time of its arrival of each file,
    in a fixed order. A copy may be older than its arrival. Links are not followed, so that nothing outside is read."""
    if not Path(top).is_dir():
        raise InvalidInput(field="folder", problem="there is no such folder")
    left = _MOST_FILES
    for parent, below, names in os.walk(top, followlinks=False):
        below.sort()
        left -= len(names) + len(below)
        if left < 0:
            problem = f"holds more than {_MOST_FILES} files and folders; choose a folder below it"
            raise InvalidInput(field="folder", problem=problem)
        for path in (Path(parent, name) for name in sorted(names)):
            with suppress(FileNotFoundError):  # it was deleted meanwhile
                about = path.lstat()
                arrived = max(about.st_mtime_ns, about.st_ctime_ns)
                yield str(path.relative_to(top)), about.st_mtime_ns, about.st_size, arrived


def _print(value: Any) -> str:
    """Return what is remembered of a value: the value itself, or a digest of it."""
    text = encode_whole(value)
    data = text.encode()
    return f"={text}" if len(data) <= _MOST_KEPT else f"#{hashlib.sha256(data).hexdigest()}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else encode_whole(value)


GATE_TASKS: Final = (
    Task(changed, gate=True, constants={"memory": None}),
    Task(became, gate=True, constants={"memory": None}),
    Task(contains, portable=True),
    Task(matches, portable=True),
    Task(field, portable=True),
)


def tasks_of(settings: Settings) -> list[Task]:
    """Return the tasks that come with Duetime, besides those for operators."""
    tasks = [*TASKS, *GATE_TASKS, *web_tasks(settings)]
    if settings.watch_folders:
        folders = {"folders": list(settings.watch_folders), "memory": None}
        tasks.append(Task(files_changed, gate=True, local=True, constants=folders))
    return tasks
