"""`duetime trust`: trust the settings file of a folder with its present content."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.settings import FILE, Settings, data_folder, load_settings
from duetime.settings.trust import Found, TrustedFiles, read_found
from duetime.terminal import output
from duetime.terminal.context import Json
from duetime.terminal.output import clean
from duetime.terminal.typer_ext import PlainCommand, single

commands = single()


class NotTrusted(DuetimeError):
    """There is nothing to remove."""

    code = "not_found"


@commands.command(cls=PlainCommand)
def trust(
    path: Annotated[str | None, typer.Argument(help="A folder, or its duetime.toml; otherwise this folder.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Use it no longer.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="Show the files that are trusted.")] = False,
    json_: Json = False,
) -> None:
    """Use the duetime.toml of a folder. It may import code and start programs, so read it first. A changed file has to
    be trusted again."""
    if list_:
        _list(json_)
    elif remove:
        _remove(_file_of(path), json_)
    else:
        _add(_file_of(path), json_)


def _file_of(path: str | None) -> Path:
    given = Path(path or ".").expanduser()
    file = given / FILE if given.is_dir() else given
    if file.name != FILE:
        raise InvalidInput(f"only a {FILE} is found by its folder; any other file is named with --config")
    return file


def _add(file: Path, json_: bool) -> None:
    found = read_found(file)
    if found is None:
        raise InvalidInput(f"there is no {file}; `duetime init` writes one")
    names = _powers(_settings_of(found))
    TrustedFiles(data_folder()).add(found)
    if json_:
        output.print_json({"file": str(found.path), "trusted": True, "sets": names})
        return
    said = f" It sets {', '.join(names)}." if names else ""
    print(clean(f"{found.path} is trusted as it stands now.{said}"))


def _settings_of(found: Found) -> Settings:
    """Refuse a file that no command could use, before anything is recorded."""
    return load_settings(environment={"DUETIME_CONFIG": str(found.path)})


def _powers(settings: Settings) -> list[str]:
    """Return the settings to review before trusting a file: where data goes, and what is run."""
    notified = settings.notifications
    said: list[tuple[str, Any]] = [
        ("tasks", settings.tasks),
        ("db", settings.db),
        ("agents", settings.agents),
        ("channels", settings.channels),
        ("heartbeat", settings.heartbeat.every),
        ("notifications.server", notified.server),
        ("allowed_hosts", settings.allowed_hosts),
    ]
    return [name for name, value in said if value]


def _remove(file: Path, json_: bool) -> None:
    path = file.resolve()
    if not TrustedFiles(data_folder()).remove(path):
        raise NotTrusted(f"{path} is not trusted; `duetime trust --list` shows what is")
    if json_:
        output.print_json({"file": str(path), "trusted": False})
    else:
        print(clean(f"{path} is not trusted any more."))


def _list(json_: bool) -> None:
    files = TrustedFiles(data_folder())
    rows = [(record.path, _state(files, record.path)) for record in files.all()]
    if json_:
        output.print_json({"files": [{"file": str(path), "state": state} for path, state in rows]})
    elif not rows:
        print("No folder's settings are trusted.")
    for path, state in () if json_ else rows:
        print(clean(f"{state:<9} {path}"))


def _state(files: TrustedFiles, path: Path) -> str:
    found = read_found(path)
    if found is None:
        return "missing"
    return "changed" if files.refusal(found) else "trusted"
