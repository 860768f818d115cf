"""`duetime config` and `trust`: the settings, where they come from, changes to one of them, and trusted folders."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from duetime.engine.errors import InvalidInput
from duetime.engine.redaction import MASK, mask_text
from duetime.service.errors import refuse
from duetime.service.masking import without_password
from duetime.service.text import value_of
from duetime.settings import ENVIRONMENT, FILE, Settings, data_folder, environment_values, local_zone, user_file
from duetime.settings.loading import fit_settings, read_file, values_of
from duetime.settings.locations import TrustedFiles, absolute_paths, find_file, read_file_once
from duetime.settings.settings_file import Key, change_file, load_only, text_of, value_at
from duetime.terminal import output
from duetime.terminal.context import Json, given_text, settings_for
from duetime.terminal.declarations import argument, group, option, single
from duetime.terminal.errors import did_you_mean
from duetime.terminal.output import clean

commands = group("Show and change the settings.")
DEFAULT = "default"
ADDRESSES = ("url", "server", "qstash_url")
"""Settings of which only the host may be shown, because the path and the user of an address may be credentials."""


@commands.command(reads=True)
def path(json_: Json = False) -> None:
    """Print the path of the settings file in use here, or of the one that would be written."""
    settings = settings_for()
    file, exists = _file(settings), bool(settings.origin.file)
    facts = {"file": str(file), "exists": exists, "user_file": str(user_file()), "ignored": settings.origin.ignored}
    output.print_result(json_, facts, clean(file))
    if not exists and not json_:
        output.note("there is no such file yet; `duetime init` or `duetime config set` writes it")


@commands.command(reads=True)
def show(
    name: Annotated[
        str | None, argument("[NAME]", "Setting or table, such as notifications.server; by default all.")
    ] = None,
    all_: Annotated[bool, option("--all", "Include settings with default values.")] = False,
    json_: Json = False,
) -> None:
    """Show the settings in use here and where each comes from. Secrets are masked."""
    settings = settings_for()
    prefix = tuple(name.split(".")) if name else ()
    rows = dict(_rows_of(settings, prefix))
    sources = _sources(settings, rows)
    entries = [(key, value, sources[key]) for key, value in rows.items() if all_ or prefix or sources[key] != DEFAULT]
    if json_:
        listed = {".".join(key): {"value": value, "source": source} for key, value, source in entries}
        output.print_json({"file": settings.origin.file, "ignored": settings.origin.ignored, "settings": listed})
        return
    for key, value, source in entries:
        print(clean(f"{'.'.join(key)} = {json.dumps(value, ensure_ascii=False)}   # {source}"))
    if not entries:
        output.say("Nothing is set: every setting has its default; `duetime config show --all` lists them.")


def _rows_of(settings: Settings, prefix: Key) -> list[tuple[Key, Any]]:
    """Return a setting, or all of a table, with the values to show."""
    rows = list(_rows(settings))
    matches = [(key, value) for key, value in rows if key[: len(prefix)] == prefix]
    if not matches and value_at(settings, prefix) is None:
        name, known = ".".join(prefix), [".".join(key) for key, _ in rows]
        advice = "`duetime config show --all` lists them"
        raise refuse("not_found", f"there is no setting {name}{did_you_mean(name, known) or ';'} {advice}")
    return matches


@commands.command(reads=True, epilog="duetime config get timezone")
def get(
    name: Annotated[str, argument("NAME", "Setting, such as timezone or notifications.server.")], json_: Json = False
) -> None:
    """Print the value of a setting alone, for scripts. Secrets are masked."""
    settings, key = settings_for(), tuple(name.split("."))
    rows = dict(_rows_of(settings, key))
    if key not in rows:
        raise InvalidInput(f"{name} is a table; `duetime config show {name}` shows its settings")
    facts = {"name": name, "value": rows[key], "source": _sources(settings, [key])[key]}
    text = rows[key] if isinstance(rows[key], str) else json.dumps(rows[key], ensure_ascii=False)
    output.print_result(json_, facts, clean(text))


@commands.command(
    name="set",
    epilog="duetime config set timezone Europe/Berlin\nduetime config set notifications.topic reminders",
)
def set_(
    name: Annotated[str, argument("NAME", "Setting, such as timezone, notifications.server or channels.phone.url.")],
    value: Annotated[str, argument("VALUE", "Value; a list is separated by commas or JSON. - reads standard input.")],
    json_: Json = False,
) -> None:
    """Change a setting in the settings file. Comments are kept, and invalid values are refused."""
    key = tuple(name.split("."))
    settings = settings_for()
    file = _file(settings)
    _write(settings, key, _typed(key, given_text(value), file.parent))
    row = next(setting for each, setting in _rows(load_only(file)) if each == key)
    facts = {"file": str(file), "name": name, "value": row}
    text = f"{name} = {json.dumps(row, ensure_ascii=False)} in {file}; a running `duetime serve` needs a restart."
    output.print_result(json_, facts, clean(text))


@commands.command(epilog="duetime config unset notifications.topic\nduetime config unset channels.phone")
def unset(
    name: Annotated[str, argument("NAME", "Setting or table to remove, such as timezone or channels.phone.")],
    json_: Json = False,
) -> None:
    """Remove a setting from the settings file, so that its default applies. Comments are kept."""
    key = tuple(name.split("."))
    try:
        settings = settings_for()
    except InvalidInput:  # such as the table of a kind whose package was removed
        settings = Settings(origin=find_file(os.environ, None)[1])
        if value_at(read_file(_file(settings)) or {}, key) is None:
            raise
    file = _file(settings)
    if not settings.origin.file or value_at(read_file(file), key) is None:
        if value_at(settings, key) is None:
            _rows_of(settings, key)  # names those that are similar
        where = f"`duetime config show {name}` shows where its value comes from"
        raise refuse("not_possible", f"{name} is not set in {file}; {where}")
    _write(settings, key, None)
    facts = {"file": str(file), "name": name}
    text = f"{name} was removed from {file}; a running `duetime serve` needs a restart."
    output.print_result(json_, facts, clean(text))


def _write(settings: Settings, key: Key, value: Any) -> None:
    """Write a setting to the file in use, or remove it if the value is None."""
    file = _file(settings)
    before = _trusted_text(file) if settings.origin.here else text_of(file)
    change_file(file, before, {key: value}, partial(_check, tasks=key == ("tasks",)), trust=settings.origin.here)


def _file(settings: Settings) -> Path:
    """Return the file in use, or the user's own if there is none."""
    return Path(settings.origin.file) if settings.origin.file else user_file()


def _trusted_text(file: Path) -> str:
    """Return the content of a folder's file, which must be trusted as it is read, because the changed file will be
    trusted."""
    settings_file = read_file_once(file)
    refusal = "is gone" if settings_file is None else TrustedFiles(data_folder()).refusal(settings_file)
    if settings_file is None or settings_file.content is None or refusal:
        raise refuse("not_possible", f"{file} {refusal}, so nothing was done; run `duetime trust` in its folder")
    return settings_file.content.decode()


def _typed(key: Key, value: str, folder: Path) -> Any:
    """Return the value in the type of the setting. Relative paths refer to the current folder, where they were
    typed."""
    document: Any = value_of(value) if value.startswith("[") else value
    for part in reversed(key):
        document = {part: document}
    setting = value_at(fit_settings(Settings(), document, "the command line"), key)
    if setting is None or is_dataclass(setting) or isinstance(setting, Mapping):
        raise InvalidInput(f"{'.'.join(key)} is a table; set one of its values, such as {'.'.join(key)}.url")
    setting = list(setting) if isinstance(setting, tuple) else setting
    if folder == Path.cwd():
        return setting
    for part in reversed(key):
        setting = {part: setting}
    return value_at(absolute_paths(setting, Path.cwd()), key)


def _check(settings: Settings, *, tasks: bool) -> None:
    """Refuse settings that no command could use, such as an unknown zone, a default agent that does not exist or, with
    `tasks`, a module that cannot be imported."""
    from duetime.app import build

    local_zone(settings)
    with closing(build(replace(settings, db=":memory:"), tasks=tasks)):
        pass


def _sources(settings: Settings, keys: Iterable[Key]) -> dict[Key, str]:
    """Return where each setting comes from."""
    file = settings.origin.file
    sources = [(ENVIRONMENT, environment_values()), (file, read_file(Path(file)) if file else None)]
    return {key: next((name for name, values in sources if value_at(values, key) is not None), DEFAULT) for key in keys}


def _rows(value: Any, key: Key = (), *, secret: bool = False) -> Iterator[tuple[Key, Any]]:
    """Yield every setting with its value. Settings that are excluded from `repr` contain secrets and are masked."""
    if is_dataclass(value):
        secrets = {each.name for each in fields(value) if not each.repr}
        for name, each in values_of(value).items():
            yield from _rows(each, (*key, name), secret=name in secrets)
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from [((*key, name), MASK)] if secret else _rows(each, (*key, name))
    else:
        yield key, _mask(key[-1], value, secret)


def _mask(name: str, value: Any, secret: bool) -> Any:
    if name in ("db", "address"):
        return without_password(value)
    if secret and value:
        scheme, separator, _ = str(value).partition("://")
        return f"{scheme}{separator}{MASK}" if separator and name in ADDRESSES else MASK
    if isinstance(value, str):
        return mask_text(value)
    return [mask_text(each) for each in value] if isinstance(value, tuple) else value


# `duetime trust`: trust the settings file of a folder with its present content.

trust_commands = single()


@trust_commands.command()
def trust(
    path: Annotated[str | None, argument("[FOLDER]", "Folder, or its duetime.toml; by default this folder.")] = None,
    remove: Annotated[bool, option("--remove", "Stop trusting it.")] = False,
    list_: Annotated[bool, option("--list", "List the trusted files.")] = False,
    json_: Json = False,
) -> None:
    """Trust the duetime.toml of a folder, and show what is in it, or what has changed in it. It can import code and
    start programs, so read it first. A file that changes has to be trusted again."""
    if list_:
        _list(json_)
        return
    place = Path(path or ".").expanduser()
    file = place / FILE if place.is_dir() else place
    if file.name != FILE:
        raise InvalidInput(f"only a {FILE} is found by its folder; any other file is named with --config")
    (_remove if remove else _add)(file, json_)


def _add(file: Path, json_: bool) -> None:
    settings_file = read_file_once(file)
    if settings_file is None:
        raise InvalidInput(f"there is no {file}, so there is nothing to trust; name the folder that has it")
    load_only(settings_file.path)  # refuses a file that no command could use, before anything is recorded
    files = TrustedFiles(data_folder())
    review = "\n".join(map(clean, files.lines_to_review(settings_file))) or "Nothing in it has changed."
    files.add(settings_file)
    text = f"{review}\n\n{clean(settings_file.path)} is now trusted."
    output.print_result(json_, {"file": str(settings_file.path), "trusted": True}, text)


def _remove(file: Path, json_: bool) -> None:
    path = file.resolve()
    if not TrustedFiles(data_folder()).remove(path):
        raise refuse("not_found", f"{path} is not trusted; `duetime trust --list` shows what is")
    output.print_result(json_, {"file": str(path), "trusted": False}, clean(f"{path} is no longer trusted."))


def _list(json_: bool) -> None:
    files = TrustedFiles(data_folder())
    rows = []
    for record in files.all():
        settings_file = read_file_once(record.path)
        state = "missing" if settings_file is None else "changed" if files.refusal(settings_file) else "trusted"
        rows.append((record.path, state))
    text = "\n".join(clean(f"{state:<9} {path}") for path, state in rows) or "No folder's settings are trusted."
    output.print_result(json_, {"files": [{"file": str(path), "state": state} for path, state in rows]}, text)
