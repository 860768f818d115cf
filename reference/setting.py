"""The page of the settings, from their dataclasses and the docstring below each field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from duetime.settings import (
    AgentSettings,
    ChannelSettings,
    ExecutorSettings,
    HeartbeatSettings,
    McpServerSettings,
    NotificationSettings,
    Settings,
)
from duetime.settings.loading import names_of
from reference.docstrings import class_docs, field_docs
from reference.markdown import code, page, table

_ABOUT = """\
[Settings](../how-to/settings.md) explains where settings come from, with examples. Unknown names and invalid values
are refused, with the name of their source.

In the environment, a setting is `DUETIME_` plus its name in capitals, with its table in front:
`DUETIME_HEARTBEAT_EVERY`. Lists are separated by commas. `[channels.NAME]`, `[agents.NAME]`, `[mcp_servers.NAME]` and
`[executors.NAME]` can only be set in the file."""
_TABLES: Mapping[str, type] = {
    "notifications": NotificationSettings,
    "channels.NAME": ChannelSettings,
    "agents.NAME": AgentSettings,
    "mcp_servers.NAME": McpServerSettings,
    "executors.NAME": ExecutorSettings,
    "heartbeat": HeartbeatSettings,
}
_VARIABLES = (
    ("DUETIME_CONFIG", "The settings file to use, like `--config`."),
    ("DUETIME_SECRET", "Signs tokens instead of the secret in the data folder; at least 64 bytes."),
    ("XDG_CONFIG_HOME", "Contains your personal settings file, `duetime/duetime.toml`; default: `~/.config`."),
    ("XDG_DATA_HOME", "Contains the data folder `duetime`; default: `~/.local/share`."),
    ("QSTASH_TOKEN, QSTASH_URL", "Used if `[notifications]` sets no `qstash_token` or `qstash_url`."),
)
_KINDS = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def settings_page() -> str:
    top = [name for name in names_of(Settings) if name not in {table.split(".")[0] for table in _TABLES}]
    parts = [_ABOUT, class_docs(Settings), _table(Settings, top)]
    for heading, of in _TABLES.items():
        parts += [f"## [{heading}]", class_docs(of), _table(of, names_of(of))]
    variables = table(["variable", "meaning"], ((_codes(names), said) for names, said in _VARIABLES))
    return page("Settings", *parts, "## Other variables", variables)


def undescribed() -> list[str]:
    """Return the settings that have no description."""
    tables = {table.split(".")[0] for table in _TABLES}
    return [
        f"{of.__name__}.{name}"
        for of in (Settings, *_TABLES.values())
        for name in names_of(of)
        if name not in field_docs(of) and not (of is Settings and name in tables)
    ]


def _table(of: type, names: list[str]) -> str:
    said, hints = field_docs(of), get_type_hints(of)
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
