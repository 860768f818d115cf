"""The credentials of this process: what its settings and its environment hold of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from duetime.core.redaction import secrets_in
from duetime.core.secret_names import is_secret_name
from duetime.settings import Settings

_SHORTEST_PART = 10
"""Characters of a part of an address that may be a credential: services put theirs into the path."""


def secrets_of(settings: Settings, environment: Mapping[str, str]) -> Iterator[str]:
    yield from _of_settings(settings)
    yield from secrets_in([settings.db])
    for name, value in environment.items():
        if is_secret_name(name) or name.upper().endswith("_KEY"):
            yield value
        elif "://" in value:  # the address of a database with its password
            yield from secrets_in(value)


def _of_settings(value: Any) -> Iterator[str]:
    """Fields that are kept out of `repr` are those that hold credentials."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _of_settings(inner)
    elif is_dataclass(value):
        for each in fields(value):
            held = getattr(value, each.name)
            yield from _of_settings(held) if each.repr else _of_field(each.name, held)


def _of_field(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):  # headers
        yield from secrets_in({"headers": dict(value)})
    elif not isinstance(value, str) or not value:
        return
    elif name == "body":
        yield from secrets_in(value)
    elif "://" in value:
        yield from _of_address(value)
    else:
        yield value


def _of_address(url: str) -> Iterator[str]:
    """The whole, and every part but a plain host: `tgram://TOKEN/CHAT`, `https://hooks.example.org/services/TOKEN`."""
    yield from (url, *secrets_in(url))
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    found = parts.path.split("/")
    if parts.scheme not in ("http", "https"):
        found.append(parts.netloc)
    yield from (unquote(each) for each in found if len(each) >= _SHORTEST_PART)
