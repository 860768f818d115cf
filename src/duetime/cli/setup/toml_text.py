"""Editing of single values in a TOML text that leaves every other line, comments included, unchanged."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str, ...]
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_HEADER = re.compile(r"\s*\[")


class CannotChange(Exception):
    """Raised for a text that cannot be edited line by line, such as one with inline tables."""


def with_values(text: str, changes: Mapping[Path, Any]) -> str:
    """Return the text with these values, each named by its tables and its key. The result is parsed and verified."""
    wanted = tomllib.loads(text)
    lines = text.splitlines()
    for path, value in changes.items():
        _set(wanted, path, value)
        _put(lines, path[:-1], path[-1], value)
    made = "\n".join(lines).strip("\n") + "\n"
    try:
        fits = tomllib.loads(made) == wanted
    except tomllib.TOMLDecodeError:
        fits = False
    if not fits:
        raise CannotChange
    return made


def _set(document: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        document = document.setdefault(name, {})
    document[path[-1]] = value


def _put(lines: list[str], table: Path, key: str, value: Any) -> None:
    written = f"{_name(key)} = {json.dumps(value, ensure_ascii=False)}"
    span = _span(lines, table)
    if span is None:
        lines += ["", f"[{'.'.join(map(_name, table))}]", written]
        return
    first, last = span
    for number in range(first, last):
        length = _length(lines[number:last], key)
        if length:
            lines[number : number + length] = [written]
            return
    while last > first and not lines[last - 1].strip():
        last -= 1
    lines.insert(last, written)


def _span(lines: Sequence[str], table: Path) -> tuple[int, int] | None:
    """Return the range of lines with the values of a table: after its header, before the next one."""
    headers = [number for number, line in enumerate(lines) if _HEADER.match(line) and _table_of(line) is not None]
    starts = [(-1, ()), *((number, _table_of(lines[number])) for number in headers)]
    ends = [*headers, len(lines)]
    for (start, found), end in zip(starts, ends, strict=True):
        if found == table:
            return start + 1, end
    return None


def _table_of(line: str) -> Path | None:
    """Return the tables that a header names, or None if the line is no header, such as the rest of a list."""
    try:
        found: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    names: list[str] = []
    while isinstance(found, dict) and len(found) == 1:
        ((name, found),) = found.items()
        names.append(name)
    return tuple(names) if found == {} else ("",)  # [[arrays of tables]] are never changed here


def _length(lines: Sequence[str], key: str) -> int:
    """Return the number of lines of the value whose key is in the first one; 0 for another key or none."""
    if "=" not in lines[0]:
        return 0
    for number in range(1, len(lines) + 1):
        try:
            return number if list(tomllib.loads("\n".join(lines[:number]))) == [key] else 0
        except tomllib.TOMLDecodeError:
            continue
    return 0


def _name(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key)
