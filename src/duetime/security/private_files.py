"""Files that only their owner may read, written atomically, and the secret that signs tokens."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.engine.redaction import remember_secrets

OTHERS = 0o077


class Exposed(DuetimeError):
    """A file with a secret can be read by others."""

    code = "exposed"


def make_private(folder: Path) -> None:
    """Create a folder that only this user may use, or remove the permissions of others from an existing one."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(exist_ok=True, mode=0o700)
        if os.name == "posix" and folder.stat().st_mode & OTHERS:
            folder.chmod(0o700)
    except OSError as error:
        raise Exposed(f"{folder} cannot be made private ({error.strerror}); choose another XDG_DATA_HOME") from error


def read_private(path: Path) -> str | None:
    """Return the content, or None if there is no file; refuse a file that others may have read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Exposed(f"{path} cannot be read ({error.strerror}); it has to be a file of your own") from error
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
        _check(path, os.fstat(file.fileno()))
        return file.read()


def _check(path: Path, seen: os.stat_result) -> None:
    if os.name != "posix":
        return
    if not stat.S_ISREG(seen.st_mode) or seen.st_uid not in (os.geteuid(), 0):
        raise Exposed(f"{path} is not a file of your own; remove it, and a new one is made")
    if seen.st_mode & OTHERS:
        raise Exposed(
            f"{path} can be read by others (mode {stat.S_IMODE(seen.st_mode):o}); remove it to have a new one made, "
            f"or, if nobody has read it, run: chmod 600 {path}"
        )


def replace_private(path: Path, text: str) -> None:
    """Replace a file atomically: whenever the machine stops, the file has either the old text or the new one."""
    _write_beside(path, text).replace(path)


def create_private(path: Path, text: str) -> bool:
    """Create a file atomically; return False if another process was faster, whose complete file then stays."""
    draft = _write_beside(path, text)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def _write_beside(path: Path, text: str) -> Path:
    """Write a new file beside `path` under an unpredictable name; remove it if that fails, as on a full disk."""
    if path.is_dir():  # `.` has no name, and no file replaces a folder
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft


# The secret that signs tokens: from the environment, or created once and stored in a private file.

VARIABLE = "DUETIME_SECRET"
FILE = "secret"
MIN_SECRET_BYTES = 64
"""Minimum number of bytes of the secret: a key shorter than the output of HS512 weakens it."""

_MAKE = "python3 -c 'import secrets; print(secrets.token_urlsafe(64))'"


def load_secret(folder: Path, environment: Mapping[str, str]) -> bytes:
    secret = environment.get(VARIABLE)
    if secret is not None:
        return _long_enough(secret.encode("utf-8", "surrogateescape"), VARIABLE)
    make_private(folder)
    path = folder / FILE
    text = read_private(path)
    if text is None:
        create_private(path, secrets.token_urlsafe(MIN_SECRET_BYTES))
        text = read_private(path)
    return _long_enough((text or "").strip().encode(), str(path))


def _long_enough(secret: bytes, source: str) -> bytes:
    remember_secrets([secret.decode("utf-8", "replace")])
    if len(secret) < MIN_SECRET_BYTES:
        raise InvalidInput(
            f"{source}: the secret has {len(secret)} bytes, at least {MIN_SECRET_BYTES} are needed; make one: {_MAKE}"
        )
    return secret
