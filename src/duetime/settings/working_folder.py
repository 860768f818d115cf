"""The working folder of a process that runs what is due, because its children inherit it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from duetime.engine.errors import DuetimeError
from duetime.settings import CONFIG, Settings
from duetime.settings.locations import absolute_paths, config_folder, data_folder, make_folder


def leave_folder(settings: Settings) -> Settings:
    """Change to the folder of the settings file, or to the data folder if there is none: in the folder where a client
    or a person happens to be, which may come from anybody, `python -m`, `npx` or `make` would run its files. Return the
    settings with absolute paths, by which no module is searched for in the folder that was left."""
    left, place = Path.cwd(), _place(settings.origin.file)
    if place == left:
        return settings
    stated = {"db": settings.db, "backup_folder": settings.backup_folder, "tasks": [*settings.tasks]}
    paths = absolute_paths(stated, left)
    instructions = str(config_folder().absolute() / settings.heartbeat.instructions)  # an absolute path stays as it is
    for name in (CONFIG, "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        if os.environ.get(name):
            os.environ[name] = str(Path(os.environ[name]).absolute())
    os.chdir(place)
    if Path(__file__).parents[2] != left:  # if Duetime itself was found there, so are the packages that it needs
        sys.path[:] = [each for each in sys.path if each != str(left)]
    heartbeat, origin = replace(settings.heartbeat, instructions=instructions), settings.origin
    origin = origin._replace(modules=None) if origin.modules == str(left) else origin
    return replace(settings, **{**paths, "tasks": tuple(paths["tasks"])}, heartbeat=heartbeat, origin=origin)


def _place(file: str) -> Path:
    if file:
        return Path(file).parent
    with suppress(DuetimeError, RuntimeError):  # there may be no home folder, or none that can be written to
        folder = data_folder().absolute()
        make_folder(folder)
        return folder
    return Path(Path.cwd().anchor)
