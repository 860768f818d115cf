"""Changes to one table of a TOML file that keep every other line and all comments."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from duetime.cli.setup.json_edit import UnreadableFile
from duetime.settings.settings_file import without_empty

_HEADER = re.compile(r"\s*\[\[?\s*(?P<name>[^\[\]#]+?)\s*\]\]?\s*(#.*)?$")


def with_entry(text: str, path: tuple[str, str], entry: Mapping[str, Any], drop: Sequence[str] = ()) -> str:
    """Return the text with these values in the table at `path`; its other values stay, except for those named in
    `drop`."""
    import tomlkit

    before = _load(text)
    present = _entry(before, path)
    if present is None:
        addition = tomlkit.dumps({path[0]: {path[1]: dict(entry)}}).replace(f"[{path[0]}]\n", "", 1)
        gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
        changed = f"{text}{gap}{addition}"
    else:
        document = tomlkit.parse(text)
        own: Any = document[path[0]][path[1]]
        for key, value in entry.items():
            if present.get(key) != value:
                own[key] = value
        for key in set(present) & set(drop) - set(entry):
            del own[key]
        changed = tomlkit.dumps(document)
    rest = {key: value for key, value in (present or {}).items() if key not in drop}
    return _check(text, changed, _with(before, path, {**rest, **entry}))


def without_entry(text: str, path: tuple[str, str]) -> str:
    """Return the text without the table at `path` and the tables in it. Comments before the next table stay."""
    before = _load(text)
    if _entry(before, path) is None:
        return text
    lines: list[str] = []
    removed: list[str] = []
    waiting: list[str] = []  # blank lines and comments, which belong to the next table if one follows
    inside = False
    for line in text.splitlines(keepends=True):
        header = _HEADER.match(line)
        if header:
            within = _is_within(header["name"], path)
            lines += [each for each in waiting if each.strip() or not within]
            inside, waiting = within, []
        if not inside:
            lines.append(line)
        elif not header and (not line.strip() or line.lstrip().startswith("#")):
            waiting.append(line)
        else:
            removed += [*waiting, line]
            waiting = []
    if inside and not waiting and lines and not lines[-1].strip():
        lines.pop()  # the blank line before a table at the end of the file
    return _check(text, "".join([*lines, *waiting]), _with(before, path, None), lost="".join(removed))


def _is_within(header: str, path: tuple[str, str]) -> bool:
    names = [part.strip().strip("\"'") for part in header.split(".")]
    return tuple(names[:2]) == path


def _load(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableFile(str(error)) from None


def _entry(document: Mapping[str, Any], path: tuple[str, str]) -> Mapping[str, Any] | None:
    servers = document.get(path[0], {})
    entry = servers.get(path[1]) if isinstance(servers, Mapping) else servers
    if entry is None or isinstance(entry, Mapping):
        return entry
    raise UnreadableFile(f"{'.'.join(path)} is not a table")


def _with(document: Mapping[str, Any], path: tuple[str, str], entry: Mapping[str, Any] | None) -> dict[str, Any]:
    others = {key: value for key, value in document.get(path[0], {}).items() if key != path[1]}
    return {**document, path[0]: others if entry is None else {**others, path[1]: dict(entry)}}


def _check(before: str, after: str, expected: Mapping[str, Any], lost: str = "") -> str:
    """Return the text after the change. A text with other values, or with a comment missing, is never returned."""
    try:
        result = tomllib.loads(after)
    except tomllib.TOMLDecodeError:
        result = None
    if (
        result is None
        or without_empty(result) != without_empty(expected)
        or _comments(before) - _comments(after) - _comments(lost)
    ):
        raise UnreadableFile("it is written in a way that cannot be changed safely")
    return after


def _comments(text: str) -> Counter[str]:
    return Counter(line[line.index("#") :].rstrip() for line in text.splitlines() if "#" in line)
