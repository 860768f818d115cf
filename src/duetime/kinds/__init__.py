"""The kinds of work, one package each. Kinds never import each other; other packages may add kinds by entry points."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from duetime.kinds import jobs, notifications, prompts, requests
from duetime.service.kind_spec import KindSpec, known_specs, register

ENTRY_POINTS = "duetime.kinds"
"""The group of entry points by which another package brings a kind: each refers to a KindSpec."""

register((jobs.SPEC, prompts.SPEC, notifications.SPEC, requests.SPEC))


@cache
def _register_installed() -> None:
    from importlib.metadata import entry_points

    register(point.load() for point in entry_points(group=ENTRY_POINTS))


def load_specs() -> Mapping[str, KindSpec]:
    """Return the built-in kinds and those of installed packages."""
    _register_installed()
    return known_specs()
