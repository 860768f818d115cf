"""Credentials that this process holds or gives to an agent, collected so that they can be redacted from texts.

The redaction itself is in `engine.redaction`, because the engine applies it to every outcome.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from duetime.engine.encoding import DEPTH, clean_text
from duetime.engine.redaction import is_secret_name, secrets_in, without_password, without_secrets, without_values

_SHORTEST_PART = 10
"""Minimum length of a part of a URL that may be a credential, because some services put theirs into the path."""
_SHORTEST_AGENT_SECRET = 8
_FOLDERS = ("PWD", "OLDPWD")
"""Variables that contain a folder, which tracebacks name, although their names look like that of a password."""
AGENT_SECRET = re.compile(r"key|token|secret|password|credential|auth", re.IGNORECASE)
"""Name patterns of headers and variables whose values an agent must not repeat. Broader than `is_secret_name`, because
they are few."""


def secrets_of(settings: Any, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the credentials in the settings and the environment of this process."""
    yield from _of_settings(settings)
    for name, value in environment.items():
        if name not in _FOLDERS and (is_secret_name(name) or name.upper().endswith("_KEY")):
            yield value
        elif "://" in value:  # for example a database URL with its password
            yield from secrets_in(value)


def _of_settings(value: Any) -> Iterator[str]:
    """Yield the credentials in settings: the fields that are excluded from `repr` hold them."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _of_settings(inner)
    elif is_dataclass(value):
        for field in fields(value):
            content = getattr(value, field.name)
            yield from _of_settings(content) if field.repr else _of_field(field.name, content)


def _of_field(name: str, value: Any) -> Iterator[str]:
    # Headers, a text with placeholders, or an address of which only the password is a secret.
    if isinstance(value, Mapping) or name in ("body", "db", "address"):
        yield from secrets_in(value)
    elif isinstance(value, str) and value:
        yield value
        yield from secrets_in_address(value) if "://" in value else ()


def secrets_in_address(url: str) -> Iterator[str]:
    """Yield every long part except a plain host.

    Examples: `tgram://TOKEN/CHAT`, `https://hooks.example.org/services/TOKEN`.
    """
    yield from secrets_in(url)
    try:
        address = urlsplit(url)
    except ValueError:
        return
    parts = (*address.path.split("/"), "" if address.scheme in ("http", "https") else address.netloc)
    yield from (unquote(part) for part in parts if len(part) >= _SHORTEST_PART)


def long_enough(values: Iterable[str]) -> list[str]:
    """Return the values that are redacted from an agent's texts: shorter ones occur in any text."""
    return [value for value in values if len(value) >= _SHORTEST_AGENT_SECRET]


class Secrets:
    """Redacts the secret values that an agent was given from everything it wrote."""

    def __init__(self, token: str, *environments: Mapping[str, str]) -> None:
        variables = (item for environment in environments for item in environment.items())
        values = {value for name, value in variables if AGENT_SECRET.search(name) or without_password(value) != value}
        self._values = long_enough((token, *values))

    def without(self, text: str) -> str:
        return clean_text(without_values(text, self._values))

    def in_short(self, text: str) -> str:
        """Return an error, shortened and without anything else that looks like a credential."""
        return without_secrets(self.without(text))

    def cleaned(self, value: Any, depth: int = 0) -> Any:
        """Redact a JSON value; cut what is nested too deeply."""
        if isinstance(value, str):
            return self.without(value)
        if isinstance(value, dict | list) and depth >= DEPTH:
            return "..."
        if isinstance(value, dict):
            return {self.without(str(name)): self.cleaned(inner, depth + 1) for name, inner in value.items()}
        return [self.cleaned(inner, depth + 1) for inner in value] if isinstance(value, list) else value
