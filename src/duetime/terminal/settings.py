"""Settings of one command: `--config`, and a warning on standard error about a settings file that is ignored."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duetime.engine.errors import InvalidInput
from duetime.terminal.output import clean

if TYPE_CHECKING:
    from duetime.settings import Settings

OPTION = "--config"
VARIABLE = "DUETIME_CONFIG"


def settings_for(flags: Mapping[str, Any] | None = None) -> Settings:
    """Load the settings from the command line, the environment and the settings file."""
    from duetime.settings import load_settings

    settings = load_settings(flags)
    if settings.origin.ignored:
        print(f"duetime: {clean(settings.origin.ignored)}", file=sys.stderr)
    return settings


def take_config(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """Return the other arguments, and the file that `--config FILE` names anywhere before `--`."""
    own = list(arguments)
    end = own.index("--") if "--" in own else len(own)
    for place, word in enumerate(own[:end]):
        if word.startswith(f"{OPTION}="):
            return [*own[:place], *own[place + 1 :]], _named(word.removeprefix(f"{OPTION}="))
        if word == OPTION:
            if place + 1 >= end:
                raise InvalidInput(f"{OPTION}: name a settings file after it")
            return [*own[:place], *own[place + 2 :]], _named(own[place + 1])
    return own, None


def _named(text: str) -> str:
    if not text:
        raise InvalidInput(f"{OPTION}: name a settings file after it")
    return str(Path(text).expanduser().absolute())


class Named:
    """Makes a command and the processes that it starts read the named file, by a variable that is restored on exit."""

    def __init__(self, file: str | None) -> None:
        self._file, self._before = file, os.environ.get(VARIABLE)

    def __enter__(self) -> None:
        if self._file is not None:
            os.environ[VARIABLE] = self._file

    def __exit__(self, *_: object) -> None:
        if self._file is None:
            return
        if self._before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = self._before
