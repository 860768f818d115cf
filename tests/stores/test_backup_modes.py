"""Copies of a store hold every payload: whoever makes one, only its owner can read it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from duetime.app import App, build
from duetime.settings import Settings


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def back_up(app: App) -> None:
    task = app.registry.get("backup_database")
    assert task is not None
    task.function()


def test_the_backup_task_writes_files_for_their_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    with closing(build(Settings(db=str(tmp_path / "my.db"), backup_folder=str(folder)))) as app:
        back_up(app)
    [made] = folder.iterdir()
    assert mode(made) == 0o600


def test_a_backup_folder_that_is_made_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    with closing(build(Settings(db=str(tmp_path / "my.db"), backup_folder=str(folder)))) as app:
        back_up(app)
    assert mode(folder) == 0o700


def test_the_copy_is_private_while_it_is_written(tmp_path: Path) -> None:
    seen: list[int] = []
    with closing(build(Settings(db=str(tmp_path / "my.db")))) as app:
        app.store.backup(str(tmp_path / "copy.db"), lambda _done: seen.extend(map(mode, tmp_path.glob("*.partial"))))
    assert seen
    assert set(seen) == {0o600}
