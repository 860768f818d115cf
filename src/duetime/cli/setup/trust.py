"""`duetime trust`: trust the settings file of a folder with its present content."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Annotated

from duetime.engine.errors import InvalidInput
from duetime.service.errors import refuse
from duetime.settings import FILE, Settings, data_folder, load_settings
from duetime.settings.locations import TrustedFiles, read_found
from duetime.terminal import output
from duetime.terminal.context import Json
from duetime.terminal.output import clean
from duetime.terminal.typer_ext import PlainCommand, argument, option, single

commands = single()


@commands.command(cls=PlainCommand)
def trust(
    path: Annotated[str | None, argument("[FOLDER]", "Folder, or its duetime.toml; by default this folder.")] = None,
    remove: Annotated[bool, option("--remove", "Stop trusting it.")] = False,
    list_: Annotated[bool, option("--list", "List the trusted files.")] = False,
    json_: Json = False,
) -> None:
    """Trust the duetime.toml of a folder. It can import code and start programs, so read it first. A file that changes
    has to be trusted again."""
    if list_:
        _list(json_)
        return
    given = Path(path or ".").expanduser()
    file = given / FILE if given.is_dir() else given
    if file.name != FILE:
        raise InvalidInput(f"only a {FILE} is found by its folder; any other file is named with --config")
    (_remove if remove else _add)(file, json_)


def _add(file: Path, json_: bool) -> None:
    found = read_found(file)
    if found is None:
        raise InvalidInput(f"there is no {file}, so there is nothing to trust; name the folder that has it")
    # Loading refuses a file that no command could use, before anything is recorded.
    names = _powers(load_settings(environment={"DUETIME_CONFIG": str(found.path)}))
    TrustedFiles(data_folder()).add(found)
    sets = f" It sets {', '.join(names)}." if names else ""
    text = clean(f"{found.path} is now trusted.{sets}")
    output.print_result(json_, {"file": str(found.path), "trusted": True, "sets": names}, text)


def _powers(settings: Settings) -> list[str]:
    """Return the settings to review before trusting a file: where data goes, and what is run."""
    powers = ("tasks", "db", "agents", "channels", "heartbeat.every", "notifications.server", "allowed_hosts")
    return [name.removesuffix(".every") for name in powers if attrgetter(name)(settings)]


def _remove(file: Path, json_: bool) -> None:
    path = file.resolve()
    if not TrustedFiles(data_folder()).remove(path):
        raise refuse("not_found", f"{path} is not trusted; `duetime trust --list` shows what is")
    output.print_result(json_, {"file": str(path), "trusted": False}, clean(f"{path} is no longer trusted."))


def _list(json_: bool) -> None:
    files = TrustedFiles(data_folder())
    rows = []
    for record in files.all():
        found = read_found(record.path)
        state = "missing" if found is None else "changed" if files.refusal(found) else "trusted"
        rows.append((record.path, state))
    text = "\n".join(clean(f"{state:<9} {path}") for path, state in rows) or "No folder's settings are trusted."
    output.print_result(json_, {"files": [{"file": str(path), "state": state} for path, state in rows]}, text)
