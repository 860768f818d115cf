"""The page of the settings, from their dataclasses and the docstring below each field."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from itertools import pairwise
from typing import Any, get_args, get_origin, get_type_hints

from duetime.settings import (
    AgentSettings,
    ChannelSettings,
    HeartbeatSettings,
    McpServerSettings,
    NotificationSettings,
    Settings,
)
from duetime.settings.loading import names_of
from reference.markdown import code, page, table

_ABOUT = """\
Where settings come from, with examples, is told in [settings](../how-to/settings.md). Unknown names and values that do
not fit are refused with the name of their source.

In the environment a setting is `DUETIME_` and its name in capitals, or with its table `DUETIME_HEARTBEAT_EVERY`; lists
are separated by commas. `[channels.NAME]`, `[agents.NAME]` and `[mcp_servers.NAME]` stand in the file alone."""
_TABLES: Mapping[str, type] = {
    "notifications": NotificationSettings,
    "channels.NAME": ChannelSettings,
    "agents.NAME": AgentSettings,
    "mcp_servers.NAME": McpServerSettings,
    "heartbeat": HeartbeatSettings,
}
_VARIABLES = (
    ("DUETIME_CONFIG", "The settings file, as with `--config`."),
    ("DUETIME_SECRET", "Signs tokens in place of the secret that is kept in the data folder; at least 64 bytes."),
    ("XDG_CONFIG_HOME", "Where your own settings file `duetime/duetime.toml` is; `~/.config` if absent."),
    ("XDG_DATA_HOME", "Where the data folder `duetime` is; `~/.local/share` if absent."),
    ("QSTASH_TOKEN, QSTASH_URL", "Serve where `[notifications]` sets no `qstash_token` and `qstash_url`."),
)
_KINDS = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def settings_page() -> str:
    top = [name for name in names_of(Settings) if name not in {table.split(".")[0] for table in _TABLES}]
    parts = [_ABOUT, _class_words(Settings), _table(Settings, top)]
    for heading, of in _TABLES.items():
        parts += [f"## [{heading}]", _class_words(of), _table(of, names_of(of))]
    variables = table(["variable", "meaning"], ((_codes(names), said) for names, said in _VARIABLES))
    return page("Settings", *parts, "## Other variables", variables)


def undescribed() -> list[str]:
    """Return the settings that have no description."""
    tables = {table.split(".")[0] for table in _TABLES}
    return [
        f"{of.__name__}.{name}"
        for of in (Settings, *_TABLES.values())
        for name in names_of(of)
        if name not in _words_of(of) and not (of is Settings and name in tables)
    ]


def _class_words(of: type) -> str:
    """Return the docstring of a class, but not the signature that dataclasses put in its place."""
    said = inspect.cleandoc(of.__doc__ or "")
    return "" if said.startswith(f"{of.__name__}(") else said


def _table(of: type, names: list[str]) -> str:
    said, hints = _words_of(of), get_type_hints(of)
    known: dict[str, Field[Any]] = {each.name: each for each in fields(of)} if is_dataclass(of) else {}
    rows = ((code(name), _kind(hints[name]), _default(known[name]), said.get(name, "")) for name in names)
    return table(["name", "type", "default", "meaning"], rows)


def _kind(hint: Any) -> str:
    origin = get_origin(hint)
    if origin is tuple:
        return "list of texts"
    if origin is not None and issubclass(origin, Mapping):
        return f"table of {_KINDS[get_args(hint)[1]]}s"
    return _KINDS[hint]


def _default(field: Field[Any]) -> str:
    if field.default is MISSING or field.default in ("", ()):
        return ""
    return code(json.dumps(field.default) if isinstance(field.default, tuple) else field.default)


def _codes(names: str) -> str:
    return ", ".join(code(name) for name in names.split(", "))


def _words_of(of: type) -> dict[str, str]:
    """Return the docstrings below the fields, from the source, since Python does not keep them."""
    [made] = ast.parse(inspect.cleandoc(inspect.getsource(of))).body
    assert isinstance(made, ast.ClassDef)
    return dict(_pairs(made.body))


def _pairs(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, after in pairwise(body):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                yield name, inspect.cleandoc(said)
            case _:
                pass
