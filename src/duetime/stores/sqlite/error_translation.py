"""Raises SQLite's errors as Duetime errors, which say what to do next and whether the fault is temporary."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import apsw

from duetime.engine.errors import DuetimeError, InvalidInput, StoreUnavailable, StoreUnusable

_SMALLEST_SPACE = 64 * 1024
"""Bytes of free space; the shared memory beside a SQLite file takes 32 kB at first."""


def _opening_error(path: str) -> DuetimeError:
    """Return a permanent error for a file that cannot be opened, but a temporary one if descriptors or memory are
    short."""
    folder = os.path.dirname(path) or "."  # noqa: PTH120 - no Path: this runs where memory or descriptors are short
    is_there = os.path.isfile(path) and os.access(path, os.R_OK | os.W_OK)  # noqa: PTH113
    if is_there and os.access(folder, os.W_OK):
        return StoreUnavailable(f"{path} cannot be opened just now; it will be retried")
    return StoreUnusable(f"{path} cannot be opened; check that its folder exists and may be written")


def _failure(path: str, error: BaseException) -> StoreUnavailable:
    """Return the error for a failed read or write. SQLite does not say so if the disk is too full for the files beside
    its own."""
    full = isinstance(error, apsw.FullError)
    if isinstance(error, apsw.IOError):
        with suppress(OSError):
            from shutil import disk_usage  # most processes need it never

            full = disk_usage(os.path.dirname(path) or ".").free < _SMALLEST_SPACE  # noqa: PTH120 - as above
    if full:
        return StoreUnavailable(f"{path}: the disk is full; free some space, and work continues")
    return StoreUnavailable(f"{path}: reading or writing failed ({error}); check the disk and the memory")


def _read_only(path: str, wrote: bool) -> DuetimeError:
    if wrote:
        return StoreUnavailable(f"{path} cannot be written any more; check its disk and its permissions")
    return StoreUnusable(f"{path} cannot be written; check the permissions of the file and its folder")


class translated:
    """Raise SQLite's errors as Duetime errors, which say what to do next. A file that this process `wrote` to before
    may become writable again: a disk that was remounted read-only after an error is a temporary fault."""

    def __init__(self, path: str) -> None:
        self._path, self.wrote = path, False

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:  # a generator costs too much for every read and write
            with _raise_translated(self._path, self.wrote):
                raise error


@contextmanager
def _raise_translated(path: str, wrote: bool) -> Iterator[None]:
    try:
        yield
    except apsw.BusyError as error:
        raise StoreUnavailable(f"{path} is locked by another process; it will be retried") from error
    except apsw.ReadOnlyError as error:
        raise _read_only(path, wrote) from error
    except apsw.NotADBError as error:
        raise StoreUnusable(f"{path} is not a SQLite database; choose another file") from error
    except apsw.CorruptError as error:
        raise StoreUnusable(f"{path} is damaged; restore it from a backup") from error
    except apsw.CantOpenError as error:
        raise _opening_error(path) from error
    except (apsw.FullError, apsw.IOError, apsw.NoMemError, MemoryError) as error:
        raise _failure(path, error) from error
    except apsw.TooBigError as error:
        raise InvalidInput("too large to be stored") from error
    except UnicodeEncodeError as error:
        raise InvalidInput("text with lone surrogates cannot be stored") from error
    except apsw.ConnectionClosedError as error:
        raise StoreUnavailable(f"{path} was closed") from error
