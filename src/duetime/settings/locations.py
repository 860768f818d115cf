"""Locations of settings files and data, the origin of the settings in use, and the settings files that are trusted.

A folder may come from anybody: a cloned repository, an archive, a shared disk. Its settings name code to import and
programs to start, so they apply only after `duetime trust`, which keeps the path and the content and has to be repeated
after every change.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from duetime.engine.errors import DuetimeError, StoreUnusable
from duetime.engine.value_class import NamedTuple
from duetime.settings.sections import STANDING

FILE = "duetime.toml"
MEMORY = ":memory:"
_MAX_FILE_BYTES = 1024 * 1024
_WORLD_WRITABLE = stat.S_IWOTH
CHANGED = "has changed since it was trusted"
_TRUST = "look at it, then run `duetime trust` in its folder to use it"
_MEAN = "name what you mean with --config FILE or --db URL"


class CannotTrust(DuetimeError):
    """Others could change this settings file."""

    code = "not_possible"


class SettingsFile(NamedTuple):
    """A settings file, with its content if that was already read, so that what was checked is what is used."""

    path: Path
    content: bytes | None = None
    problem: str = ""
    """The reason why it must not be trusted; empty if there is none."""


class Trusted(NamedTuple):
    """The record of one trusted file."""

    path: Path
    digest: str
    text: str | None
    """The content; None in a record of an earlier version, which kept only the hash."""


def read_file_once(path: Path) -> SettingsFile | None:
    """Read a folder's settings file once, with symbolic links resolved; None if there is none."""
    try:
        real = path.resolve(strict=True)
        descriptor = os.open(real, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, RuntimeError):
        return SettingsFile(path, None, "cannot be read")
    with os.fdopen(descriptor, "rb") as file:
        seen = os.fstat(file.fileno())
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > _MAX_FILE_BYTES:
            return SettingsFile(real, None, "is not a settings file")
        return SettingsFile(real, file.read(_MAX_FILE_BYTES + 1), _problem(seen, real.parent.stat()))


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
    """The records in the data folder, one small file per settings file."""

    def __init__(self, data: Path) -> None:
        self._folder = data / "trusted"

    def refusal(self, file: SettingsFile) -> str:
        """Return the reason why a file is not used, as the predicate of a sentence; empty if it is trusted with this
        content."""
        if file.content is None or file.problem:
            return file.problem or "cannot be read"
        record = self._record(self._place(file.path))
        if record is None or record.path != file.path:
            return "is not trusted"
        return "" if record.digest == _digest(file.content) else CHANGED

    def lines_to_review(self, file: SettingsFile) -> list[str]:
        """Return what trusting this file adds: its difference from the trusted content, or all of it if there is no
        such content."""
        record, lines = self._record(self._place(file.path)), _text(file).splitlines()
        if record is None or record.text is None:
            return lines
        from difflib import unified_diff

        return list(unified_diff(record.text.splitlines(), lines, "trusted", "now", lineterm="", n=2))

    def add(self, file: SettingsFile) -> None:
        from duetime.security.private_files import make_private, replace_private

        if file.content is None or file.problem:
            raise CannotTrust(
                f"{file.path} {file.problem or 'cannot be read'}, so it cannot be trusted; move it to a place that "
                f"only you can write to, or name it each time with --config"
            )
        record = {"path": str(file.path), "sha256": _digest(file.content), "text": _text(file)}
        make_private(self._folder.parent)
        make_private(self._folder)
        replace_private(self._place(file.path), json.dumps(record) + "\n")

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
        return self._folder / f"{_digest(os.fsencode(path))[:32]}.json"

    def _record(self, place: Path) -> Trusted | None:
        """Return a record; None if it cannot be read, so that nothing is trusted by mistake."""
        try:
            document = json.loads(place.read_text(encoding="utf-8"))
            return Trusted(Path(document["path"]), str(document["sha256"]), document.get("text"))
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _digest(content: bytes) -> str:
    import hashlib  # most commands read no file that has to be trusted

    return hashlib.sha256(content).hexdigest()


def _text(file: SettingsFile) -> str:
    return (file.content or b"").decode(errors="backslashreplace")


CONFIG = "DUETIME_CONFIG"


def data_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return the default folder for this user's data."""
    env = os.environ if environment is None else environment
    home = env.get("XDG_DATA_HOME") or (Path.home() / ".local" / "share")
    return Path(home) / "duetime"


def config_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the user's own settings file, according to the conventions of the platform."""
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
    refusal: str = ""
    """The answer to whoever would write then, because that file may name another store; empty if a store is named."""
    changed: bool = False
    """Whether the ignored file was trusted with another content."""
    tasks: str = ""
    """The source that named the task modules."""
    modules: str | None = "."
    """The folder in which named task modules are searched for if none is installed; None means nowhere."""
    here: bool = False
    """Whether the file is that of the current folder; if so, it is trusted."""


def find_file(env: Mapping[str, str], folder: Path | None) -> tuple[SettingsFile | None, Origin]:
    """Return the file in use: the one that is named, otherwise that of the given folder, otherwise that of the current
    folder if it is trusted, otherwise the user's own."""
    if CONFIG in env:
        path = Path(env[CONFIG]).absolute()
        return SettingsFile(path), Origin(str(path))
    if folder is not None:
        path = folder.absolute() / FILE
        return (SettingsFile(path), Origin(str(path))) if path.exists() else (None, Origin())
    origin = Origin()
    if (here := read_file_once(Path.cwd() / FILE)) is not None:
        reason = TrustedFiles(data_folder(env)).refusal(here)
        if not reason:
            return here, Origin(str(here.path), here=True)
        advice = "" if here.content is None or here.problem else _TRUST
        ignored = f"{here.path} {reason}, so it is ignored; {advice or _MEAN}"
        refusal = f"{here.path} {reason}, so nothing was done; {advice and f'{advice}, or '}{_MEAN}"
        origin = Origin(ignored=ignored, refusal=refusal, changed=reason == CHANGED)
    own = _own_file(env)
    return (None, origin) if own is None else (SettingsFile(own), origin._replace(file=str(own)))


def _own_file(env: Mapping[str, str]) -> Path | None:
    """Return the user's own file; None also if the user has no home folder or may not read it."""
    try:
        own = user_file(env).absolute()
        return own if own.exists() else None
    except (OSError, RuntimeError):
        return None


def with_absolute_paths(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Resolve relative paths against the folder of the settings file, wherever the command was started. MCP servers
    that are commands start in that folder, unless they name another one."""
    if isinstance(servers := values.get("mcp_servers"), Mapping):
        values = {**values, "mcp_servers": {name: _with_folder(each, folder) for name, each in servers.items()}}
    if folder == Path.cwd():
        return dict(values)
    if isinstance(heartbeat := values.get("heartbeat"), Mapping):
        values = {**values, "heartbeat": {"instructions": STANDING, **heartbeat}}
    return absolute_paths(values, folder)


def store_file(url: str) -> Path | None:
    """Return the path of a SQLite store; None for any other store, and for one in memory."""
    path = url.removeprefix("sqlite:///").removeprefix("sqlite://")
    return None if "://" in path or path in ("", MEMORY) else Path(path).expanduser()


def absolute_paths(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Resolve the relative paths among these values against a folder."""
    fixed = dict(values)
    if isinstance(db := values.get("db"), str):
        file = store_file(db)
        fixed["db"] = db if file is None else str(folder / file)
    if "backup_folder" in values:
        fixed["backup_folder"] = _absolute(folder, values["backup_folder"])
    if isinstance(tasks := values.get("tasks"), list):
        fixed["tasks"] = [_absolute(folder, each) if str(each).endswith(".py") else each for each in tasks]
    if isinstance(agents := values.get("agents"), Mapping):
        fixed["agents"] = {name: _agent_paths(each, folder) for name, each in agents.items()}
    if isinstance(servers := values.get("mcp_servers"), Mapping):
        fixed["mcp_servers"] = {name: _with_path(each, "folder", folder) for name, each in servers.items()}
    if isinstance(heartbeat := values.get("heartbeat"), Mapping):
        fixed["heartbeat"] = _with_path(heartbeat, "instructions", folder)
    return fixed


def _agent_paths(table: Any, folder: Path) -> Any:
    fixed = _with_path(table, "folder", folder)
    if isinstance(fixed, Mapping) and isinstance(skills := fixed.get("skills"), list):
        fixed = {**fixed, "skills": [_absolute(folder, each) for each in skills]}
    return fixed


def _with_folder(server: Any, folder: Path) -> Any:
    is_command = isinstance(server, Mapping) and server.get("command")
    return {**server, "folder": server.get("folder") or str(folder)} if is_command else server


def _with_path(table: Any, name: str, folder: Path) -> Any:
    return {**table, name: _absolute(folder, table[name])} if isinstance(table, Mapping) and name in table else table


def _absolute(folder: Path, path: Any) -> Any:
    """Return an absolute path. A value that is not text is refused later, and an empty one means the default."""
    return str(folder / Path(path).expanduser()) if isinstance(path, str) and path else path


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreUnusable(f"{folder} cannot be created ({error.strerror}); choose another place with --db") from error
