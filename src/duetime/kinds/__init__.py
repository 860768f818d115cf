"""The kinds of work, one package each. Kinds never import each other; other packages may add kinds through entry
points."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duetime.engine.errors import InvalidInput
from duetime.kinds import jobs, notifications, prompts, requests
from duetime.service.kind_spec import KindSpec, known_specs, load, register

if TYPE_CHECKING:
    from duetime.settings.kind_settings import KindSettings

ENTRY_POINTS = "duetime.kinds"
"""The group of entry points through which another package adds a kind: each refers to a KindSpec."""

register((jobs.SPEC, prompts.SPEC, notifications.SPEC, requests.SPEC))


@cache
def _register_installed() -> None:
    if not _is_any_installed():
        return
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS):
        named = f"{point.value} (entry point {point.name} of the group {ENTRY_POINTS})"
        try:
            spec = point.load()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise InvalidInput(f"{named} cannot be loaded ({reason}); fix or remove the package that has it") from error
        if known_specs().get(spec.name, spec) is not spec:
            raise InvalidInput(f"{named} has the name {spec.name!r} of another kind; remove that package")
        register([spec])


def _is_any_installed() -> bool:
    """Return whether any package has an entry point of the group, by searching the packages' files, because importing
    the standard parser would delay every command."""
    for folder in sys.path:
        with suppress(OSError):
            for file in Path(folder).glob("*-info/entry_points.txt"):
                if ENTRY_POINTS.encode() in file.read_bytes():
                    return True
    return False


def load_specs() -> Mapping[str, KindSpec]:
    """Return the built-in kinds and those of installed packages."""
    _register_installed()
    return known_specs()


def kind_settings() -> list[KindSettings]:
    """Return what the kinds add to the settings."""
    return [_part(spec, spec.settings) for spec in load_specs().values() if spec.settings]


def _part(spec: KindSpec, path: str) -> Any:
    try:
        return load(path)
    except (ImportError, AttributeError) as error:
        raise InvalidInput(
            f"{path} of the kind {spec.name} cannot be loaded: {error}; fix or remove its package"
        ) from error
