"""Settings files of folders that the user trusts, each recorded by its path and a hash of its content.

A folder may come from anybody: a cloned repository, an archive, a shared disk. Its settings name code to import and
programs to start, so they apply only after `duetime trust`, which has to be repeated after every change.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import NamedTuple

from duetime.engine.errors import DuetimeError

FILE = "duetime.toml"
_LARGEST = 1024 * 1024
_WORLD_WRITABLE = stat.S_IWOTH
ADVICE = "so it is ignored; look at it, then run `duetime trust` in its folder to use it"


class CannotTrust(DuetimeError):
    """Others could change this settings file."""

    code = "not_possible"


class Found(NamedTuple):
    """A settings file, with its content if that was read already, so that what was checked is what is used."""

    path: Path
    content: bytes | None = None
    problem: str = ""
    """Why it must not be trusted; empty if nothing is wrong."""


class Trusted(NamedTuple):
    """The record of one trusted file."""

    path: Path
    digest: str


def read_found(path: Path) -> Found | None:
    """Read a folder's settings file once, with symbolic links resolved; None if there is none."""
    try:
        real = path.resolve(strict=True)
        descriptor = os.open(real, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, RuntimeError):
        return Found(path, None, "cannot be read")
    with os.fdopen(descriptor, "rb") as file:
        seen = os.fstat(file.fileno())
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > _LARGEST:
            return Found(real, None, "is not a settings file")
        return Found(real, file.read(_LARGEST + 1), _problem(seen, real.parent.stat()))


def _problem(file: os.stat_result, folder: os.stat_result) -> str:
    if os.name != "posix":
        return ""
    if file.st_uid not in (os.geteuid(), 0):
        return "belongs to another user"
    if file.st_mode & _WORLD_WRITABLE:
        return "can be changed by every user of this machine"
    if folder.st_uid not in (os.geteuid(), 0):
        return "is in a folder of another user"
    if folder.st_mode & _WORLD_WRITABLE:
        return "is in a folder that every user of this machine can write to"
    return ""


class TrustedFiles:
    """The records in the data folder, one small file for each settings file."""

    def __init__(self, data: Path) -> None:
        self._folder = data / "trusted"

    def refusal(self, found: Found) -> str:
        """Return why a file is not used, as the rest of a sentence; empty if it is trusted with this content."""
        if found.content is None or found.problem:
            return f"{found.problem or 'cannot be read'}, so it is ignored; --config FILE names a settings file"
        record = self._record(self._place(found.path))
        if record is None or record.path != found.path:
            return f"is not trusted, {ADVICE}"
        if record.digest != _digest(found.content):
            return f"has changed since it was trusted, {ADVICE}"
        return ""

    def add(self, found: Found) -> None:
        from duetime.security.private_files import make_private, replace_private

        if found.content is None or found.problem:
            raise CannotTrust(
                f"{found.path} {found.problem or 'cannot be read'}, so it cannot be trusted; move it to a place that "
                f"only you can write to, or name it each time with --config"
            )
        record = {"path": str(found.path), "sha256": _digest(found.content)}
        make_private(self._folder.parent)
        make_private(self._folder)
        replace_private(self._place(found.path), json.dumps(record) + "\n")

    def remove(self, path: Path) -> bool:
        """Remove a record; return whether there was one."""
        try:
            self._place(path).unlink()
        except FileNotFoundError:
            return False
        return True

    def all(self) -> list[Trusted]:
        """Return the records, sorted by path."""
        try:
            places = list(self._folder.iterdir())
        except OSError:
            return []
        return sorted(record for place in places if (record := self._record(place)) is not None)

    def _place(self, path: Path) -> Path:
        return self._folder / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.json"

    def _record(self, place: Path) -> Trusted | None:
        """Return a record; None if it cannot be read, so that nothing is trusted by mistake."""
        try:
            kept = json.loads(place.read_text(encoding="utf-8"))
            return Trusted(Path(kept["path"]), str(kept["sha256"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
