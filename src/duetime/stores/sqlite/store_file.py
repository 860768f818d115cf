"""The file of a store: created for its owner alone, identified by its inode, and kept from the sqlite3 module."""

from __future__ import annotations

import errno
import os
import re
import sys
from typing import Any
from urllib.parse import unquote

from duetime.engine.errors import StoreUnusable

Inode = tuple[int, int]


def inode(path: str) -> Inode | None:
    try:
        seen = os.stat(path)  # noqa: PTH116 - in every transaction, and a Path costs as much as the call
    except FileNotFoundError:
        return None
    return seen.st_dev, seen.st_ino


def make_private(path: str) -> None:
    """Create an empty file that only its owner can read, because payloads may be private; the WAL inherits its mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOENT, errno.EACCES, errno.EROFS, errno.ENOTDIR):
            raise StoreUnusable(f"{path} cannot be created ({error.strerror}); choose another place") from error


# Keeps the sqlite3 module off our files: two SQLite libraries in one process lose acknowledged commits.

_guarded: set[str] = set()
_LOCAL = re.compile(r"file:(?://(?:localhost)?(?=/))?", re.IGNORECASE)
_installed = False


def guard(path: str) -> None:
    """Refuse `sqlite3.connect` on this file in this process from now on."""
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
    """Compare the files themselves: locks belong to a file, whatever name it is opened by."""
    try:
        return os.path.samefile(path, guarded)  # noqa: PTH121 - no Path: it may hold a NUL, which is handled below
    except (OSError, ValueError):
        return False
