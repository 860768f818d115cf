"""`duetime backup`: a consistent copy of a SQLite store, also while workers use it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from duetime.engine.clock import datetime_of
from duetime.engine.errors import InvalidInput
from duetime.engine.result import Err
from duetime.service.errors import Refused
from duetime.terminal import output
from duetime.terminal.application import Application
from duetime.terminal.context import Db, Json, opened
from duetime.terminal.output import clean
from duetime.terminal.typer_ext import PlainCommand, single

commands = single()


@commands.command(cls=PlainCommand)
def backup(
    target: Annotated[
        str | None,
        typer.Argument(metavar="[TARGET]", help="A new file, or a folder; otherwise the folder of the settings."),
    ] = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Copy the store while it is in use. The copy is whole or not there; to use it, name it with --db."""
    with opened(db) as app:
        path = _target(app, target)
        with _private(), output.bar("copying") as told:
            app.store.backup(str(path), told)
    size = path.stat().st_size
    if json_:
        output.print_json({"file": str(path), "bytes": size})
    else:
        print(f"Wrote {clean(path)} ({size / 1_000_000:.1f} MB); only you can read it.")


def _target(app: Application, given: str | None) -> Path:
    folder = app.settings.path_of_backups() if given is None else Path(given).expanduser()
    try:
        if given is None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InvalidInput(f"{folder} cannot be made ({error.strerror}); name another place") from error
    path = _free(folder, f"duetime-{datetime_of(app.clock.now()):%Y%m%dT%H%M%S}") if folder.is_dir() else folder
    if path.exists():
        raise Refused(Err("not_possible", f"{path} is there already; a backup overwrites nothing: name another file"))
    if not path.parent.is_dir():
        raise InvalidInput(f"TARGET: there is no folder {path.parent}; make it first")
    return path


def _free(folder: Path, name: str) -> Path:
    names = (f"{name}{'' if number == 1 else f'-{number}'}.db" for number in count(1))
    return next(folder / each for each in names if not (folder / each).exists())


@contextmanager
def _private() -> Iterator[None]:
    """Make files that are created meanwhile readable only by their owner, because they contain payloads."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
