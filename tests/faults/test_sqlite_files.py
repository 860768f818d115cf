"""What can be wrong with a SQLite file: every case says what to do, and leaves nothing half-written."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

from duetime.engine.errors import DuetimeError, StoreUnavailable, StoreUnusable
from duetime.engine.validation import NewSchedule
from duetime.stores.sqlite import error_translation
from duetime.stores.sqlite.store import SqliteStore
from tests.support.drafts import once
from tests.support.refusals import attempt, refusal_of
from tests.support.workers import CALLER, ROOT, Crew, crew, eventually

UNPRIVILEGED = 65_534


def opened(path: Path) -> SqliteStore:
    store = SqliteStore(path)
    try:
        store.migrate()
    except BaseException:
        store.close()
        raise
    return store


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    """A file system of the test's own. Where there is no right to mount, the test is skipped and says so."""
    folder.mkdir()
    done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no right to mount a file system here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


# -- files that cannot be used --------------------------------------------------------------------------------------


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear diary, this is not a database. " * 100, encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(StoreUnusable, match=r"letter\.txt is not a SQLite database; choose another file"):
        opened(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("version", [0, 1, 7])
def test_a_database_of_another_program_is_left_alone(tmp_path: Path, version: int) -> None:
    """Whatever number it uses for its own versions; not even its journal mode is changed."""
    path = tmp_path / "other.db"
    other = apsw.Connection(str(path))
    other.execute(f"CREATE TABLE notes (text); PRAGMA user_version = {version}")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreUnusable, match="is a database of another program; choose another file"):
        opened(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    opened(path).close()
    newer = apsw.Connection(str(path))
    newer.execute("PRAGMA user_version = 4711; UPDATE meta SET value = 4711 WHERE key = 'floor'")
    newer.close()
    with pytest.raises(StoreUnusable, match="install a newer Duetime"):
        opened(path)


def test_a_damaged_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    opened(path).close()
    content = bytearray(path.read_bytes())
    content[100:4000] = b"\xff" * 3900
    path.write_bytes(content)
    with pytest.raises(DuetimeError, match=r"damaged|not a SQLite database"):
        opened(path)


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="cannot be opened"):
        opened(tmp_path)


# -- read-only ------------------------------------------------------------------------------------------------------

_OPEN_AS_SOMEBODY = """
import json, os, sys
from duetime.engine.errors import DuetimeError
from duetime.stores.sqlite.store import SqliteStore
path, user = json.loads(sys.argv[1])
if os.geteuid() == 0:
    os.setgroups([])
    os.setuid(user)
try:
    SqliteStore(path).migrate()
except DuetimeError as error:
    print(error.code, error)
"""


def open_as_somebody(path: Path) -> str:
    """Permissions do not bind root: the file is opened by somebody else, after the imports."""
    done = subprocess.run(
        [sys.executable, "-c", _OPEN_AS_SOMEBODY, json.dumps([str(path), UNPRIVILEGED])],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can reach."""
    with tempfile.TemporaryDirectory(prefix="duetime-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.parametrize("made", [True, False])
def test_a_file_or_folder_without_the_right_to_write_is_refused(open_folder: Path, made: bool) -> None:
    path = open_folder / "store.db"
    if made:
        opened(path).close()
        path.chmod(0o444)
    open_folder.chmod(0o555)
    said = open_as_somebody(path)
    assert said.startswith("store_unusable"), said
    assert "permissions" in said or "may be written" in said
    assert path.exists() == made


def test_a_read_only_file_system_is_refused(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=4m", "tmpfs") as disk:
        opened(disk / "store.db").close()
        before = (disk / "store.db").read_bytes()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(StoreUnusable, match=r"cannot be written; check the permissions|cannot be opened"):
            opened(disk / "store.db")
        assert (disk / "store.db").read_bytes() == before
        with pytest.raises(StoreUnusable):
            opened(disk / "fresh.db")


# -- a full disk ----------------------------------------------------------------------------------------------------


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(b"\0" * 4096):
                pass
        except OSError:
            pass  # full
    return ballast


def new(key: str) -> NewSchedule:
    payload = {"task": "mark", "kwargs": {"key": key + "x" * 20_000}}
    return NewSchedule("job", key, "interval", {"hours": 1}, payload)


def test_a_full_disk_refuses_clearly_and_work_goes_on_when_there_is_space(tmp_path: Path) -> None:
    with (
        mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=4m", "tmpfs") as disk,
        crew(str(disk / "store.db"), tmp_path, lease=2.0) as team,
    ):
        gate = team.gate()
        (worker,) = team.start(1)
        team.add("insist", ["during"], gate=str(gate))
        eventually(lambda: len(team.events("begun")) == 1, 30, "it is under way")
        ballast = fill(disk)

        kept = _create_until_refused(team)
        before = team.app.store.health(team.clock.now()).schedules
        assert before == kept + 1, "what was refused left no trace"
        gate.touch()
        eventually(lambda: "the disk is full" in worker.log or "failed" in worker.log, 30, "the worker says so")
        assert worker.exit_code() is None
        ballast.unlink()
        eventually(lambda: team.statuses()["completed"] == 1, 30, "the outcome is recorded")
        eventually(lambda: "the store is available again" in worker.log, 30, "the worker says so")
        team.app.scheduler.create(CALLER, new("again"))
        team.add("mark", ["after"])
        eventually(lambda: team.statuses()["completed"] == 2, 30, "work continues")
        assert team.count("begun") == {"during": 1}
        assert worker.terminate() == 0
        team.check()


def _create_until_refused(team: Crew) -> int:
    """There may be room in pages that are allocated already."""
    for number in range(1000):
        made = attempt(team.app.scheduler.create, CALLER, new(f"s{number}"))
        if isinstance(made, DuetimeError):
            assert made.code == "store_unavailable"
            assert "full" in str(made.message), made
            return number
    raise AssertionError("the disk never was full")


def test_a_new_store_on_a_full_disk_is_refused_clearly(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=64k", "tmpfs") as disk:
        fill(disk)
        with pytest.raises(DuetimeError, match="the disk is full"):
            opened(disk / "store.db")


def test_a_store_on_a_disk_that_is_full_from_the_start_is_refused_clearly(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=4m", "tmpfs") as disk:
        opened(disk / "store.db").close()
        fill(disk)
        with pytest.raises(DuetimeError, match="the disk is full"):
            opened(disk / "store.db")


@pytest.mark.parametrize(("free", "words"), [(0, "the disk is full"), (10**9, "reading or writing failed")])
def test_an_input_error_is_told_where_the_file_systems_of_posix_are_missing(
    free: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "statvfs")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=free))
    with pytest.raises(StoreUnavailable, match=words), error_translation.translated(str(tmp_path / "store.db")):
        raise apsw.IOError


# -- a file that changes under us -----------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["replaced", "removed", "log"])
def test_a_file_that_is_replaced_while_it_is_open_stops_the_worker(tmp_path: Path, change: str) -> None:
    path = tmp_path / "store.db"
    with crew(str(path), tmp_path, lease=2.0) as team:
        (worker,) = team.start(1)
        if change == "replaced":
            opened(tmp_path / "other.db").close()
            (tmp_path / "other.db").rename(path)
        elif change == "removed":
            path.unlink()
        else:
            Path(f"{path}-wal").unlink()
        said = worker.said()
        assert said.startswith("failed"), said
        assert "was replaced or removed while it was open" in said
        assert worker.exit_code(20) == 3
        refused = refusal_of(lambda: team.app.scheduler.create(CALLER, new("late")))
        assert refused.code == "store_unusable"


# -- the interpreter's own SQLite ------------------------------------------------------------------------------------


def test_the_interpreters_sqlite_is_kept_away_from_the_store(tmp_path: Path) -> None:
    sqlite = importlib.import_module("sqlite3")  # by name: the rule against it is what is tested here
    path = tmp_path / "a store.db"
    store = opened(path)
    alias = tmp_path / "alias.db"
    alias.symlink_to(path)
    twin = tmp_path / "twin.db"
    twin.hardlink_to(path)
    for name in (
        path, str(path), os.fsencode(path), f"file:{path}?mode=ro", path.as_uri(), f"file://localhost{path.as_uri()[7:]}",
        alias, twin, os.path.relpath(path),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="sqlite3 must not open a Duetime store in this process"):
            sqlite.connect(name, uri=str(name).startswith("file:"))
    elsewhere = sqlite.connect(tmp_path / "elsewhere.db")
    elsewhere.close()
    sqlite.connect(":memory:").close()
    store.close()


def test_a_store_that_is_locked_for_long_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.stores.sqlite.store.BUSY_SECONDS", 0.05)
    store = opened(tmp_path / "store.db")
    other = apsw.Connection(str(tmp_path / "store.db"))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="is locked by another process"):
        store.prune(store._clock.now(), 1)
    other.close()
    assert store.prune(store._clock.now(), 1) == 0
    store.close()


def test_a_file_that_becomes_read_only_while_it_is_used_is_tried_again(tmp_path: Path) -> None:
    """As a disk does that is mounted read-only after an error, until somebody mends it."""
    store = opened(tmp_path / "store.db")
    try:
        store.create([once()])
        store._writer.execute("PRAGMA query_only = 1")
        with pytest.raises(StoreUnavailable, match="cannot be written any more; check its disk"):
            store.create([once()])
        store._writer.execute("PRAGMA query_only = 0")
        store.create([once()])
    finally:
        store.close()
