"""Editing of single values in a TOML text that leaves every other line, comments included, unchanged."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from tomlkit.container import Container

Path: TypeAlias = tuple[str, ...]


class CannotChange(Exception):
    """Raised for a text that is not edited, such as one with inline tables."""


def with_values(text: str, changes: Mapping[Path, Any]) -> str:
    """Return the text with these values, each named by its tables and its key. The result is parsed and verified."""
    import tomlkit

    wanted, document = tomllib.loads(text), tomlkit.parse(text)
    if any(_without_header(document, path[:-1]) for path in changes):
        raise CannotChange
    for path, value in changes.items():
        _put(wanted, path, value, dict)
        _put(document, path, value, tomlkit.table)
    made = tomlkit.dumps(document).strip("\n") + "\n"
    if tomllib.loads(made) != wanted:  # values of tables that are written partly in dotted keys can be misplaced
        raise CannotChange
    return made


def _put(document: Any, path: Path, value: Any, table: Callable[[], Any]) -> None:
    for name in path[:-1]:
        document = document.setdefault(name, table())
    document[path[-1]] = value


def _without_header(container: Container, tables: Path) -> bool:
    """Check whether a table is written as `name = {…}` or `name.key = …`, where a value has no line of its own."""
    from tomlkit.items import InlineTable, Table

    return any(
        isinstance(item, InlineTable)
        or (key.is_dotted() and len(tables) == 1)
        or (isinstance(item, Table) and _without_header(item.value, tables[1:]))
        for key, item in container.body
        if key is not None and tables[:1] == (key.key,)
    )
