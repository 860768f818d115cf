"""Locations of settings files and data, and the origin of the settings in use."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from duetime.settings.sections import STANDING
from duetime.settings.trust import FILE, Found, TrustedFiles, read_found

CONFIG = "DUETIME_CONFIG"


def data_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return the default folder for this user's data."""
    env = os.environ if environment is None else environment
    home = env.get("XDG_DATA_HOME") or (Path.home() / ".local" / "share")
    return Path(home) / "duetime"


def config_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the user's own settings file, by the conventions of the platform."""
    env = os.environ if environment is None else environment
    if env.get("XDG_CONFIG_HOME"):
        return Path(env["XDG_CONFIG_HOME"]) / "duetime"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "duetime"
    if sys.platform == "win32":
        return Path(env.get("APPDATA") or Path.home() / "AppData" / "Roaming") / "duetime"
    return Path.home() / ".config" / "duetime"


def user_file(environment: Mapping[str, str] | None = None) -> Path:
    """Return the user's own settings file, which applies in every folder."""
    return config_folder(environment) / FILE


class Origin(NamedTuple):
    """The origin of the settings in use."""

    file: str = ""
    """The absolute path of the settings file in use; empty where there is none."""
    ignored: str = ""
    """A sentence about a settings file in the current folder that is not used; empty where there is none."""
    tasks: str = ""
    """The source that named the task modules."""
    modules: str | None = "."
    """The folder in which named task modules are looked for, besides those that are installed; None means nowhere."""
    here: bool = False
    """Whether the file is the one of the current folder; it is trusted in that case."""


def find_file(env: Mapping[str, str]) -> tuple[Found | None, Origin]:
    """Return the file in use: the one that is named, else the folder's if it is trusted, else the user's own."""
    if CONFIG in env:
        path = Path(env[CONFIG]).absolute()
        return Found(path), Origin(str(path))
    ignored = ""
    if (here := read_found(Path.cwd() / FILE)) is not None:
        refusal = TrustedFiles(data_folder(env)).refusal(here)
        if not refusal:
            return here, Origin(str(here.path), here=True)
        ignored = f"{here.path} {refusal}"
    own = _own_file(env)
    return (None, Origin(ignored=ignored)) if own is None else (Found(own), Origin(str(own), ignored))


def _own_file(env: Mapping[str, str]) -> Path | None:
    """Return the user's own file; None also if the user has no home folder, or may not read it."""
    try:
        own = user_file(env).absolute()
        return own if own.exists() else None
    except (OSError, RuntimeError):
        return None


def file_of(folder: Path) -> tuple[Found | None, Origin]:
    """Return the file of a folder that a caller named."""
    path = folder.absolute() / FILE
    return (Found(path), Origin(str(path))) if path.exists() else (None, Origin())


def with_absolute_paths(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Resolve relative paths against the folder of the settings file, wherever the command was started."""
    if folder == Path.cwd():
        return dict(values)
    fixed = dict(values)
    if isinstance(db := values.get("db"), str):
        fixed["db"] = _absolute_db(db, folder)
    if isinstance(tasks := values.get("tasks"), list):
        fixed["tasks"] = [_joined(folder, each) if str(each).endswith(".py") else each for each in tasks]
    if isinstance(backups := values.get("backup_folder"), str):
        fixed["backup_folder"] = _joined(folder, backups)
    if isinstance(agents := values.get("agents"), Mapping):
        fixed["agents"] = {name: _with_path(each, "folder", folder) for name, each in agents.items()}
    if isinstance(heartbeat := values.get("heartbeat"), Mapping):
        fixed["heartbeat"] = _with_path({"instructions": STANDING, **heartbeat}, "instructions", folder)
    return fixed


def _with_path(table: Any, name: str, folder: Path) -> Any:
    if not isinstance(table, Mapping) or not isinstance(table.get(name), str):
        return table
    return {**table, name: _joined(folder, table[name])}


def _joined(folder: Path, path: Any) -> Any:
    if not isinstance(path, str) or not path:
        return path
    return str(folder / Path(path).expanduser())


def _absolute_db(db: str, folder: Path) -> str:
    if not db or db == ":memory:" or "://" in db:
        return db
    return _joined(folder, db)  # type: ignore[no-any-return]  # a str stays a str
