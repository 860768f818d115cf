"""The commands that start this installation of Duetime again, from any folder and at any later time."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from duetime.engine.errors import DuetimeError
from duetime.engine.redaction import without_password
from duetime.settings import CONFIG, PREFIX, Settings, load_settings, user_file
from duetime.settings.locations import store_file

RUN_TOKEN = f"{PREFIX}RUN_TOKEN"
"""Environment variable with the token of the run that a stdio server serves."""
RUN_FOLDER = f"{PREFIX}RUN_FOLDER"
"""Environment variable with the folder in which the worker searches for task modules by name; absent if it searches in
none, because the folder in which it was started is not trusted."""
_UV_CACHE = ("archive-v0", "environments-v2")
"""Folders of uv's cache in which `uvx` creates environments, which a later cache cleanup removes."""
_EXTRAS = {
    "agent": "pydantic_ai", "celery": "celery", "channels": "apprise", "dask": "distributed", "postgres": "psycopg",
    "qstash": "qstash", "ray": "ray",
}  # fmt: skip
"""A module of each extra."""


def stdio_server(settings: Settings) -> tuple[list[str], dict[str, str]]:
    """Return the command of a stdio server for a run, and its environment. The store is named in the environment,
    because everybody can read the command lines of all processes and a URL may contain a password."""
    environment = {f"{PREFIX}DB": _absolute(settings.path_of_db())}
    if settings.tasks and settings.origin.modules is not None:
        environment[RUN_FOLDER] = str(Path(settings.origin.modules).resolve())
    if settings.origin.file:
        environment[CONFIG] = settings.origin.file  # the same file, even if it was changed and not trusted again
    return [sys.executable, "-P", "-m", "duetime", "mcp", *_options(settings)], environment


def stdio_command(settings: Settings) -> list[str]:
    """Return a command that does the same in every folder: relative paths are made absolute, and the settings file is
    named, because a server that is started elsewhere would find another one or none."""
    db, file = _absolute(settings.path_of_db()), settings.origin.file
    address = without_password(db) if "://" in db else db
    store = [] if file and address != db else ["--db", address]  # a password is only read from the file
    named = ["--config", file] if file else []
    return [*this_program(), "mcp", *named, *store, *_options(settings, _found_anywhere)]


def header_command(settings: Settings) -> list[str]:
    """Return the command that prints the header with this machine's token, from any folder."""
    file = (settings.path_of_keys() / "local.token").absolute()
    return [*this_program(), "token", "header", "--file", str(file)]


def store_options(settings: Settings) -> list[str]:
    """Return the option that a command on a terminal needs to reach this store; empty if the command finds the store
    without it. A terminal has the user's own settings file, but neither the environment nor the folder of this
    process."""
    db = _absolute(settings.path_of_db())
    try:
        usual = _absolute(load_settings(environment={}, folder=user_file().parent).path_of_db())
    except (DuetimeError, OSError, RuntimeError):  # it cannot be read, or there is no home folder
        usual = ""
    return [] if db == usual else ["--db", without_password(db) if "://" in db else db]


def _absolute(db: str) -> str:
    file = store_file(db)
    return db if file is None else str(file.resolve())


def _absolute_file(task: str) -> str:
    return str(Path(task).resolve()) if task.endswith(".py") else task


def _found_anywhere(task: str) -> str:
    """Return the path of a module in this folder, which a server that is started elsewhere cannot find by name."""
    beside = Path(f"{task}.py").resolve()
    return str(beside) if beside.is_file() else _absolute_file(task)


def _options(settings: Settings, shorten: Callable[[str], str] = _absolute_file) -> list[str]:
    """Return the options from command line and environment; the started server reads the settings file itself."""
    tasks = () if settings.origin.file and settings.origin.tasks == settings.origin.file else settings.tasks
    named = [part for each in tasks for part in ("--tasks", shorten(each))]
    tools = ["--tools", ",".join(settings.tools)] if settings.tools else []
    return [*named, *tools]


def this_program(
    executable: str = sys.executable, environment: Mapping[str, str] | None = None, prefix: str = sys.prefix
) -> list[str]:
    """Return the start of a command line, with absolute paths. The interpreter of an environment of pip, pipx or `uv
    tool install` stays in place; that of `uvx` does not, so uv is started with the same package instead. -P keeps the
    folder in which it is started off the import path."""
    env = os.environ if environment is None else environment
    uv = env.get("UV", "")
    if uv and any(part in _UV_CACHE for part in Path(prefix).parts):
        return [str(Path(uv).absolute()), "tool", "run", "--from", _requirement(), "duetime"]
    return [executable, "-P", "-m", "duetime"]


def _requirement() -> str:
    """Return the requirement that installs this version from its original source, with the extras that are installed
    here."""
    from importlib.metadata import distribution

    package = distribution("duetime")
    extras = ",".join(name for name, module in _EXTRAS.items() if find_spec(module) is not None)
    name = f"duetime[{extras}]" if extras else "duetime"
    origin = package.read_text("direct_url.json")
    return f"{name} @ {json.loads(origin)['url']}" if origin else f"{name}=={package.version}"
