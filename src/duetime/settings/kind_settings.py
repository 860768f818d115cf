"""What the kinds of work add to the settings: tables of the settings file, and checks of their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module

from duetime.engine.errors import InvalidInput
from duetime.engine.value_class import NamedTuple
from duetime.settings.model import Settings

_KINDS = "duetime.kinds"
"""The package that knows all kinds. It is above this one, so that it is named, as a spec names the parts of a kind."""


class KindSettings(NamedTuple):
    """The settings of a kind. The tables of the built-in kinds are fields of `Settings`."""

    problems: Callable[[Settings], Iterable[tuple[str, str]]] = lambda settings: ()
    """Returns the settings that cannot be used, each as the name of its table and the problem."""
    needs_variable: Callable[[Settings, str], bool | None] = lambda settings, name: None
    """Returns whether a server that an agent starts needs this environment variable; None for other variables."""
    tables: Mapping[str, type] = {}
    """Further tables by their names, each a frozen dataclass of texts, numbers, booleans and tuples of one of
    these, with defaults. A field with `repr=False` holds a secret. `Settings.table` returns the table of a class."""


def kind_settings() -> Sequence[KindSettings]:
    """Return the settings of all kinds, also of those from other packages."""
    settings: Sequence[KindSettings] = import_module(_KINDS).kind_settings()
    return settings


def kind_tables() -> dict[str, type]:
    """Return the tables of kinds from other packages."""
    tables: dict[str, type] = {}
    for each in kind_settings():
        for name, model in each.tables.items():
            if name in Settings.__dataclass_fields__ or name in tables:
                raise InvalidInput(f"{model.__module__} names its settings {name!r}, which is taken; rename its table")
            tables[name] = model
    return tables
