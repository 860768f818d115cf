"""A SQLite VFS that keeps a record of every write and sync, and disks as a power cut may leave them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import apsw

SECTOR = 512
NAME = "recording"


class Write(NamedTuple):
    file: str
    offset: int
    data: bytes


class Truncate(NamedTuple):
    file: str
    size: int


class Sync(NamedTuple):
    file: str


class Delete(NamedTuple):
    file: str


class Acknowledged(NamedTuple):
    """A fact that has to survive any fault from here on."""

    fact: Any


Operation: TypeAlias = Write | Truncate | Sync | Delete | Acknowledged


class RecordingVFS(apsw.VFS):
    """Passes everything on to the system's VFS and keeps a record of what reaches the disk."""

    def __init__(self, record: list[Operation]) -> None:
        self.record = record
        self.base = apsw.vfs_names()[0]
        super().__init__(NAME, self.base, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _RecordingFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.record.append(Delete(_short(filename)))


class _RecordingFile(apsw.VFSFile):
    def __init__(self, vfs: RecordingVFS, name: Any, flags: list[int]) -> None:
        self._record = vfs.record
        self._name = _short(name.filename() if isinstance(name, apsw.URIFilename) else name or "")
        super().__init__(vfs.base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._record.append(Write(self._name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._record.append(Truncate(self._name, newsize))

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._record.append(Sync(self._name))


def _short(path: str) -> str:
    return path.rsplit("/", 1)[-1]


@contextmanager
def recorded() -> Iterator[list[Operation]]:
    """Record what every SQLite connection of this process that is opened inside writes."""
    record: list[Operation] = []
    vfs = RecordingVFS(record)
    try:
        yield record
    finally:
        vfs.unregister()


@dataclass
class Disk:
    """The content that is certain to be on the disk, and the content that a power cut may or may not leave there."""

    heeds_syncs: bool = True
    """Whether syncs are obeyed; a disk that only claims to have synced checks that losses are found."""
    files: dict[str, bytearray] = field(default_factory=dict)
    pending: list[Write | Truncate] = field(default_factory=list)

    def apply(self, operation: Operation) -> None:
        match operation:
            case Write() | Truncate():
                self.pending.append(operation)
            case Sync(file) if self.heeds_syncs:
                for earlier in self.pending:
                    if earlier.file == file:
                        _carry_out(self.files, earlier)
                self.pending = [earlier for earlier in self.pending if earlier.file != file]
            case Delete(file):
                self.files.pop(file, None)
                self.pending = [earlier for earlier in self.pending if earlier.file != file]
            case _:
                pass

    def image(self, chance: random.Random, how: str) -> dict[str, bytearray]:
        """Return the files after a power cut: unsynced writes `dropped`, `kept`, `reordered` or `torn`."""
        files = {name: bytearray(data) for name, data in self.files.items()}
        for operation in _survivors(self.pending, chance, how):
            _carry_out(files, operation)
        return files


def _survivors(pending: list[Write | Truncate], chance: random.Random, how: str) -> list[Write | Truncate]:
    """Return the writes that survive: between two syncs, any of them, in any order; a sector is written whole."""
    if how == "dropped":
        return []
    if how == "kept":
        return list(pending)
    chosen = [operation for operation in pending if chance.random() < 0.5]
    if how == "reordered":
        return chosen
    return [part for operation in chosen for part in _torn(operation, chance)]


def _torn(operation: Write | Truncate, chance: random.Random) -> list[Write | Truncate]:
    if isinstance(operation, Truncate):
        return [operation]
    file, offset, data = operation
    starts = range(0, len(data), SECTOR)
    return [Write(file, offset + at, data[at : at + SECTOR]) for at in starts if chance.random() < 0.5]


def _carry_out(files: dict[str, bytearray], operation: Write | Truncate) -> None:
    data = files.setdefault(operation.file, bytearray())
    if isinstance(operation, Truncate):
        del data[operation.size :]
        return
    end = operation.offset + len(operation.data)
    if len(data) < end:
        data.extend(bytes(end - len(data)))
    data[operation.offset : end] = operation.data


def write_image(files: dict[str, bytearray], folder: Path) -> None:
    """Write an image as files; the shared memory of a log is made anew by whoever opens it."""
    for old in folder.iterdir():
        old.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)
