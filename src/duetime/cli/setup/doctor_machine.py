"""Checks that need no store: the machine, the packages, the file system, the task modules."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from duetime.engine.clock import SystemClock
from duetime.engine.errors import DuetimeError
from duetime.engine.times import format_local
from duetime.kinds.jobs.builtin import TASKS, fetch_task
from duetime.kinds.jobs.loading import load, load_entry_points
from duetime.kinds.jobs.registry import Registry, default_registry
from duetime.settings import Settings, local_zone
from duetime.terminal.application import Check
from duetime.terminal.context import program, store_file
from duetime.terminal.output import clean

PACKAGES = ("apsw", "cronsim", "pydantic", "rich", "typer", "tzdata", "tzlocal")
SAFE_SQLITE = (3, 51, 3)
"""First version of SQLite without the rare loss of commits when a WAL file is reset under several connections."""
NETWORK = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "fuse.sshfs",
    "fuse.s3fs",
    "afs",
    "ceph",
    "glusterfs",
    "vboxsf",
}
OPERATOR_TASKS = frozenset({"backup_database", "prune_history"})
"""Tasks that every worker registers itself once it has a store."""
LITTLE_SPACE = 100 * 1024 * 1024


def machine_checks(settings: Settings) -> Iterator[Check]:
    yield Check("ok", "python", f"{sys.version.split()[0]} at {sys.executable}")
    yield _packages()
    yield _sqlite()
    yield _zone(settings)


def _packages() -> Check:
    found, missing = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return Check("fail", "packages", f"missing: {', '.join(missing)}; install Duetime again, with its dependencies")
    try:
        found.append(f"psycopg {version('psycopg')}")
    except PackageNotFoundError:
        found.append("no psycopg (PostgreSQL needs duetime[postgres])")
    return Check("ok", "packages", ", ".join(found))


def _sqlite() -> Check:
    import apsw

    shown = apsw.sqlite_lib_version()
    if tuple(map(int, shown.split("."))) < SAFE_SQLITE:
        return Check("warn", "sqlite", f"{shown} may lose commits in rare cases; install a newer apsw")
    return Check("ok", "sqlite", f"{shown}, Duetime's own")


def _zone(settings: Settings) -> Check:
    try:
        zone = local_zone(settings)
    except DuetimeError as error:
        return Check("fail", "zone", error.message)
    now = SystemClock().now()
    if zone in ("UTC", "Etc/UTC") and not settings.timezone:
        advice = (
            'times without a zone are read in UTC; if you live elsewhere, set timezone = "Europe/Berlin" or the like'
        )
        return Check("ok", "zone", f"{zone}, the machine's: {advice}")
    whose = "as set" if settings.timezone else "the machine's"
    return Check("ok", "zone", f"{zone}, {whose}; it is now {format_local(now, zone)}")


def task_checks(settings: Settings) -> tuple[Registry, list[Check]]:
    """Return the tasks that can be loaded, and a check for each module."""
    checks = []
    for module in settings.tasks:
        try:
            load([module], settings.origin.modules)
            checks.append(Check("ok", "tasks", f"{module} is imported"))
        except DuetimeError as error:
            checks.append(Check("fail", "tasks", error.message))
    try:
        announced = load_entry_points()
    except DuetimeError as error:
        announced = []
        checks.append(Check("fail", "tasks", error.message))
    registry = Registry((*TASKS, fetch_task(settings)), base=default_registry)
    if announced:
        checks.append(Check("ok", "tasks", f"announced by packages: {', '.join(announced)}"))
    names = ", ".join(sorted({task.name for task in registry} | OPERATOR_TASKS))
    more = "" if settings.tasks or announced else "; name your own with --tasks, or in duetime.toml"
    return registry, [*checks, Check("ok", "tasks", f"known: {names}{more}")]


def store_file_checks(url: str) -> Iterator[Check]:
    """Check for SQLite whether the file exists, and whether its disk is reliable (no network) and has free space."""
    path = store_file(url)
    if path is None:
        return
    place = next((folder for folder in (path.resolve(), *path.resolve().parents) if folder.exists()), Path("/"))
    if not path.exists():
        yield Check(
            "warn",
            "store",
            f"there is no {clean(path)} yet; the first job or worker makes it: {program('job', 'add', '--help')}",
        )
    kind = file_system(place)
    if kind in NETWORK:
        yield Check(
            "fail",
            "disk",
            f"{clean(place)} is on {kind}, where SQLite's locks do not hold; use a local disk, or PostgreSQL",
        )
    free = shutil.disk_usage(place).free
    if free < LITTLE_SPACE:
        yield Check("warn", "disk", f"only {free // 2**20} MB are left at {clean(place)}; make room")
    elif kind not in NETWORK:
        yield Check("ok", "disk", f"{kind or 'local'}, {free / 2**30:.1f} GB free")


def file_system(place: Path, mounts: Path = Path("/proc/self/mounts")) -> str | None:
    """Return the type of the file system, or None if the machine does not tell."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    best: tuple[int, str | None] = (0, None)
    for line in lines:
        _, target, kind, *_ = line.split(" ")
        target = target.encode("latin-1", "replace").decode("unicode_escape")  # a space is written \040
        if place == Path(target) or Path(target) in place.parents:
            best = max(best, (len(target), kind), key=lambda found: found[0])
    return best[1]
