"""The command that starts this installation of Duetime again, from any folder and at any later time."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

_UV_CACHE = ("archive-v0", "environments-v2")
"""Folders of uv's cache in which `uvx` makes environments, which a later cleaning of the cache removes."""
_EXTRAS = {"agent": "pydantic_ai", "channels": "apprise", "postgres": "psycopg", "qstash": "qstash"}
"""A module of each extra."""


def this_program(
    executable: str = sys.executable, environment: Mapping[str, str] | None = None, prefix: str = sys.prefix
) -> list[str]:
    """Return the start of a command line, with absolute paths.

    The interpreter of an environment of pip, pipx or `uv tool install` stays where it is; that of `uvx` does not, so
    there uv is started with the same package. -P keeps the folder that it is started in off the import path.
    """
    env = os.environ if environment is None else environment
    uv = env.get("UV", "")
    if uv and any(part in _UV_CACHE for part in Path(prefix).parts):
        return [str(Path(uv).absolute()), "tool", "run", "--from", _requirement(), "duetime"]
    return [executable, "-P", "-m", "duetime"]


def _requirement() -> str:
    """Return the requirement that installs this version from where it came from, with the extras that are here."""
    from importlib.metadata import distribution

    found = distribution("duetime")
    extras = ",".join(name for name, module in _EXTRAS.items() if find_spec(module) is not None)
    name = f"duetime[{extras}]" if extras else "duetime"
    origin = found.read_text("direct_url.json")
    return f"{name} @ {json.loads(origin)['url']}" if origin else f"{name}=={found.version}"
