"""Keeps the interpreter's own SQLite away from our files: two libraries in one process lose acknowledged commits."""

from __future__ import annotations

import os
import re
import sys
from typing import Any
from urllib.parse import unquote

_guarded: set[str] = set()
_LOCAL = re.compile(r"file:(?://(?:localhost)?(?=/))?", re.IGNORECASE)
_installed = False


def guard(path: str) -> None:
    """From now on `sqlite3.connect` on this file is refused in this process."""
    global _installed  # noqa: PLW0603 - an audit hook can be installed once and never removed
    _guarded.add(os.path.realpath(path))
    if not _installed:
        sys.addaudithook(_refuse)
        _installed = True


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "sqlite3.connect" or not arguments:
        return
    target = arguments[0]
    if isinstance(target, bytes | bytearray):
        target = os.fsdecode(bytes(target))
    if not isinstance(target, str | os.PathLike):
        return
    path = os.fsdecode(target)
    if _LOCAL.match(path):
        path = unquote(_LOCAL.sub("", path, count=1).split("?", 1)[0].split("#", 1)[0])
    if any(_same(path, guarded) for guarded in _guarded):
        raise RuntimeError(
            "sqlite3 must not open a Duetime store in this process: closing it would drop the store's file locks;"
            " use Duetime's own API, or another process"
        )


def _same(path: str, guarded: str) -> bool:
    """By the file itself where it is there: locks belong to it, whatever name it is opened by."""
    try:
        return os.path.samefile(path, guarded)  # noqa: PTH121 - no Path: it may hold a NUL, which is answered below
    except (OSError, ValueError):
        return False
