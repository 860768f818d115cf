"""`duetime connect`: add Duetime to the configuration file of an MCP client, or remove it again."""

from __future__ import annotations

import difflib
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from duetime.cli.setup import client_files
from duetime.cli.setup.client_files import ConnectTarget, read_text
from duetime.cli.setup.json_edit import UnreadableFile
from duetime.engine.errors import InvalidInput
from duetime.service.client_configs import CLIENTS, Client, Entry, Machine, Reach, known_client
from duetime.service.masking import redacted, without_password
from duetime.settings import PREFIX, Settings, environment_names, user_file
from duetime.settings.locations import make_folder, store_file
from duetime.settings.own_commands import stdio_command
from duetime.settings.settings_file import change_file, load_only
from duetime.terminal import output
from duetime.terminal.completion import one_of
from duetime.terminal.context import Db, Json, Tasks, Tools, program, settings_for
from duetime.terminal.declarations import argument, option, single
from duetime.terminal.input import agreed
from duetime.terminal.output import clean

commands = single()
_NAMES = f"{', '.join(CLIENTS)}; without it, all are listed."
_NAMED = frozenset(f"{PREFIX}{name}" for name in ("DB", "TASKS", "TOOLS", "CONFIG"))
"""Settings of the environment that the command line of the entry includes."""


@commands.command(
    epilog="duetime connect claude-code\nduetime connect codex --print\nduetime connect cursor --remove",
)
def connect(
    client: Annotated[str | None, argument("CLIENT", _NAMES, **one_of(*CLIENTS))] = None,
    file: Annotated[
        str | None, option("--file FILE", "Configuration file of the client, if it is not in the usual place.")
    ] = None,
    remove: Annotated[bool, option("--remove", "Remove Duetime from the client's file.")] = False,
    print_: Annotated[bool, option("--print", "Print what to paste, and change nothing.")] = False,
    db: Db = None,
    tasks: Tasks = None,
    tools: Tools = None,
    yes: Annotated[bool, option("--yes", "Do not ask.")] = False,
    json_: Json = False,
) -> None:
    """Add Duetime to the configuration file of an MCP client, which then starts `duetime mcp` by itself. The change is
    shown first, the file is backed up, and everything else in it stays as it is."""
    if client is None:
        _list(json_)
        return
    target = ConnectTarget(client, known_client(client), _path(client, file))
    settings = settings_for({"db": db, "tasks": tasks, "tools": tools})
    if not print_:
        settings = _with_file(settings)
    entry = target.client.stdio_entry(Reach("", None, stdio_command(settings)))
    if print_:
        text = target.client.text(entry)
        output.print_result(json_, {"client": client, "file": str(target.path), "entry": entry}, text)
        return
    if json_ and not yes:
        raise InvalidInput("--json asks nothing; add --yes to change the file, or --print to see what would be added")
    if remove:
        _change(target, None, yes=yes, json_=json_)
        return
    _refuse_password(settings)
    if _change(target, entry, yes=yes, json_=json_, settings=settings) and not json_:
        print(target.client.after)


def _change(
    target: ConnectTarget, entry: Entry | None, *, yes: bool, json_: bool, settings: Settings | None = None
) -> bool:
    """Show the change and make it once the user agrees; return whether it was made."""
    before = read_text(target.path)
    after = client_files.change(target, before, entry)
    facts = {"client": target.name, "file": str(target.path), "connected": entry is not None}
    warnings = _environment_warning() if settings is not None else []
    if after == (before or ""):
        state = "is connected already" if entry is not None else "is not connected"
        text = clean(f"{target.client.title} {state} ({target.path}).")
        output.print_result(json_, {**facts, "changed": False, "backup": None, "warnings": warnings}, text)
        return False
    client_files.check_writable(target.path)
    if not json_:
        _show(target.path, before, after)
        output.warn(warnings)
        if not yes and not agreed("\nWrite this?"):
            return False
    if settings is not None:
        _make_what_is_named(settings)
    backup = client_files.write(target.path, before, after)
    about_backup = f" The previous version is kept in {backup}." if backup else ""
    done = "is connected" if entry is not None else "is no longer connected"
    text = clean(f"{target.client.title} {done} ({target.path}).{about_backup}")
    result = {**facts, "changed": True, "backup": str(backup) if backup else None, "warnings": warnings}
    output.print_result(json_, result, text)
    return True


def _show(path: Path, before: str | None, after: str) -> None:
    """Print the change as a diff, without credentials in the lines around it."""
    old = [] if before is None else before.splitlines()
    name = f"{path} (new)" if before is None else str(path)
    for line in difflib.unified_diff(old, after.splitlines(), name, name, lineterm="", n=2):
        print(clean(redacted(line)))


def _path(name: str, file: str | None) -> Path:
    """Return the named file, otherwise the client's first file that exists, otherwise the one to create."""
    if file is not None:
        return Path(file).expanduser().absolute()
    machine = Machine(Path.home(), sys.platform, os.environ)
    paths = [Path(path) for path in CLIENTS[name].files(machine)]
    return next((path for path in paths if path.exists()), paths[0])


def _with_file(settings: Settings) -> Settings:
    """Return the settings with an absolute settings file: the one in use, otherwise the user's own, which is
    created."""
    file = settings.origin.file or str(user_file().absolute())
    return replace(settings, origin=settings.origin._replace(file=file))


def _make_what_is_named(settings: Settings) -> None:
    """Create the settings file if there is none, so that later changes to it reach the client; also create the folder
    of the store, because the server creates no folder for a store that is named."""
    file, store = Path(settings.origin.file), store_file(settings.path_of_db())
    if not file.exists():
        change_file(file, "", {})
    if store is not None:
        make_folder(store.absolute().parent)


def _refuse_password(settings: Settings) -> None:
    """Refuse a database password that is not in the settings file, because it would be readable in the client's
    configuration."""
    file = Path(settings.origin.file)
    if without_password(settings.db) == settings.db or (file.exists() and load_only(file).db == settings.db):
        return
    how = program("config", "set", "db", without_password(settings.db))
    raise InvalidInput(f"the password of the database is not written to the client's file; keep it in {file}: {how}")


def _environment_warning() -> list[str]:
    """Return a warning if settings of this environment are not in any file that the client's server reads."""
    names = sorted(name for name in environment_names() - _NAMED if os.environ.get(name))
    if not names:
        return []
    return [f"the client will not see {', '.join(names)} of this environment; save it with `duetime config set`"]


def _list(json_: bool) -> None:
    paths = {name: _path(name, None) for name in CLIENTS}
    rows = [(name, _state(CLIENTS[name], path), str(path)) for name, path in paths.items()]
    if json_:
        output.print_json([{"client": name, "file": file, "state": state} for name, state, file in rows])
        return
    output.table(("CLIENT", "STATE", "FILE"), rows, whole=2)
    print(f"\nTo connect one: {program('connect', next(iter(CLIENTS)))}")


def _state(client: Client, path: Path) -> str:
    try:
        text = read_text(path)
        if text is None:
            return "no file"
        return "connected" if client_files.has_entry(client, text) else "not connected"
    except (InvalidInput, UnreadableFile):
        return "cannot be read"
