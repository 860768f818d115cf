"""The configuration file of an MCP client: read, change one entry as text, back up and replace."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import NamedTuple

from duetime.cli.setup import json_edit, toml_edit
from duetime.cli.setup.json_edit import UnreadableFile
from duetime.engine.errors import InvalidInput
from duetime.security.private_files import replace_private
from duetime.service.client_configs import NAME, Client, Entry

OF_HTTP = ("url", "httpUrl", "serverUrl", "headers", "headersHelper", "http_headers", "bearer_token_env_var")
"""Keys of an entry over HTTP, which a client would not accept beside a command."""
BOM = "\ufeff"


def read_text(path: Path) -> str | None:
    """Return the content of a file, with its own line breaks; None if there is none."""
    try:
        return path.read_bytes().decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 text, so it is not changed; save it as UTF-8 first") from error
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read ({error.strerror}); name another file with --file") from error


class ConnectTarget(NamedTuple):
    name: str
    client: Client
    path: Path


def change(target: ConnectTarget, before: str | None, entry: Entry | None) -> str:
    """Return the text of the file with this entry, or without any if it is None."""
    name, client, path = target
    mark, text = _split(before or "")
    try:
        if entry is None:
            return mark + _without(client, text)
        add = toml_edit.with_entry if client.toml else json_edit.with_entry
        return mark + add(text, (client.table, NAME), entry, OF_HTTP)
    except UnreadableFile as error:
        advice = f"correct it and try again, or edit it yourself: `duetime connect {name} --print` shows the entry"
        raise InvalidInput(f"{path} is not changed, because {error}; {advice}") from None


def has_entry(client: Client, text: str) -> bool:
    _, text = _split(text)
    return _without(client, text) != text


def _without(client: Client, text: str) -> str:
    remove = toml_edit.without_entry if client.toml else json_edit.without_entry
    return remove(text, (client.table, NAME))


def check_writable(path: Path) -> None:
    """Refuse a file that is protected against changes, although a new file could replace it."""
    try:
        protected = not path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(
            path, os.W_OK
        )
    except OSError:
        return  # the file does not exist; writing will report what is wrong
    if protected:
        advice = "make it writable, or change what makes it, and try again"
        raise InvalidInput(f"{path} is read-only, so it is not changed; {advice}")


def write(path: Path, before: str | None, after: str) -> Path | None:
    """Replace the file, which may be the target of a symbolic link, and return the path of the backup made before."""
    real = Path(os.path.realpath(path))
    if read_text(real) != before:
        raise InvalidInput(f"{path} was changed by another program in the meantime; try again")
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        if before is None:
            replace_private(real, after)
            return None
        backup, mode = _backup(real), stat.S_IMODE(real.stat().st_mode)
        replace_private(real, after)
        real.chmod(mode)
        return backup
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written ({error.strerror}); nothing was changed") from error


def _backup(path: Path) -> Path:
    """Copy the file to the first free name beside it."""
    number = 1
    while True:
        backup = path.with_name(f"{path.name}.duetime-backup{'' if number == 1 else f'-{number}'}")
        if not backup.exists():
            with os.fdopen(os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(path.read_bytes())  # private from the start: it may contain tokens
            shutil.copystat(path, backup)
            return backup
        if backup.read_bytes() == path.read_bytes():
            return backup
        number += 1


def _split(text: str) -> tuple[str, str]:
    """Return the byte order mark, if there is one, and the rest."""
    return (BOM, text.removeprefix(BOM)) if text.startswith(BOM) else ("", text)
