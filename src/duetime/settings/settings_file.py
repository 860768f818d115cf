"""Changes a settings file and keeps its comments. An unusable file never replaces a usable one."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from duetime.engine.errors import InvalidInput
from duetime.settings import CONFIG, Settings, data_folder, load_settings
from duetime.settings.loading import values_of
from duetime.settings.locations import TrustedFiles, read_file_once

if TYPE_CHECKING:
    from tomlkit.container import Container

Key: TypeAlias = tuple[str, ...]
"""The name of a setting: the names of its tables, then its own."""
HEADING = "# Settings of Duetime. It may hold tokens, so it is readable by its owner alone.\n"


class CannotChange(Exception):
    """Raised for a text that cannot be edited, such as one with inline tables."""


def text_of(path: Path) -> str:
    """Return the content of a settings file; empty if there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error


def load_only(path: Path) -> Settings:
    """Load this file alone, so that values from the environment are not mistaken for values from the file."""
    return load_settings(environment={CONFIG: str(path.absolute())})


def change_file(
    path: Path,
    before: str,
    changes: Mapping[Key, Any],
    check: Callable[[Settings], None] = lambda settings: None,
    *,
    trust: bool = False,
) -> None:
    """Write a new file beside the old one, load and check it there, and replace the old one. `trust`: the file belongs
    to a folder, and is trusted with its new content; its old content has to be trusted already."""
    draft = path.with_name(f"{path.name}.new")
    try:
        text = with_values(before or HEADING, changes)
        draft.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft.unlink(missing_ok=True)
        draft.touch(mode=0o600)
        draft.write_text(text, encoding="utf-8")
        check(_load(draft, path))
        if trust:  # before it is moved: in a folder where that is impossible, nothing is written
            file = read_file_once(draft)
            assert file is not None  # it was written a moment ago
            TrustedFiles(data_folder()).add(file._replace(path=path.resolve()))
        draft.replace(path)
    except CannotChange:
        names = ", ".join(".".join(name) for name in changes)
        raise InvalidInput(
            f"{path} uses a notation that cannot be edited automatically; change {names} in it yourself"
        ) from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written ({error.strerror}); name another file with --config") from error
    finally:
        with suppress(OSError):  # a read-only file system refuses to remove even a file that does not exist
            draft.unlink(missing_ok=True)


def _load(draft: Path, path: Path) -> Settings:
    try:
        return load_only(draft)
    except InvalidInput as error:  # the user knows the file by its own name
        text = error.message.replace(str(draft.absolute()), str(path.absolute()))
        raise InvalidInput(text, field=error.field) from None


def value_at(source: Any, path: Key) -> Any:
    """Return a value of the settings, or of the document from which they are read; None if there is none."""
    for name in path:
        if isinstance(source, Mapping):
            source = source.get(name)
        else:
            source = values_of(source).get(name) if is_dataclass(source) else None
    return source


def with_values(text: str, changes: Mapping[Key, Any]) -> str:
    """Return the text with these values, each named by its tables and its key, and without those that are None. The
    result is parsed and verified."""
    import tomlkit

    expected, document = tomllib.loads(text), tomlkit.parse(text)
    if any(_without_header(document, path[:-1]) for path in changes):
        raise CannotChange
    for path, value in changes.items():
        _put(expected, path, value, dict)
        _put(document, path, value, tomlkit.table)
    changed = tomlkit.dumps(document).strip("\n") + "\n"
    # Values of tables that are partly written with dotted keys can be misplaced.
    if without_empty(tomllib.loads(changed)) != without_empty(expected):
        raise CannotChange
    return changed


def without_empty(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without empty tables, whose headings may disappear with their last value."""
    tables = {name: without_empty(value) if isinstance(value, Mapping) else value for name, value in document.items()}
    return {name: value for name, value in tables.items() if value != {}}


def _put(document: Any, path: Key, value: Any, table: Callable[[], Any]) -> None:
    for name in path[:-1]:
        document = document.setdefault(name, table())
    if value is None:
        document.pop(path[-1], None)
    else:
        document[path[-1]] = value


def _without_header(container: Container, tables: Key) -> bool:
    """Return whether a table is written as `name = {…}` or `name.key = …`, where a value has no line of its own."""
    from tomlkit.items import InlineTable, Table

    return any(
        isinstance(item, InlineTable)
        or (key.is_dotted() and len(tables) == 1)
        or (isinstance(item, Table) and _without_header(item.value, tables[1:]))
        for key, item in container.body
        if key is not None and tables[:1] == (key.key,)
    )
