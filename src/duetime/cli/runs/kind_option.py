"""The option `--kind` of the commands for several kinds."""

from __future__ import annotations

from typing import Annotated

from duetime.engine.errors import InvalidInput, unknown
from duetime.kinds import load_specs
from duetime.service.kind_spec import known_specs
from duetime.terminal.completion import completed_by
from duetime.terminal.declarations import option

*_FIRST, _LAST = known_specs()
KIND_NAMES = f"{', '.join(_FIRST)} or {_LAST}"
"""The names of the built-in kinds, for the help."""
KINDS = completed_by(lambda incomplete: list(load_specs()))
Kind = Annotated[str | None, option("--kind KIND", f"Only this kind: {KIND_NAMES}.", **KINDS)]


def known_kind(kind: str | None) -> str | None:
    if kind is not None and kind not in known_specs() and kind not in load_specs():
        raise InvalidInput(unknown("kind", kind, load_specs()))
    return kind
