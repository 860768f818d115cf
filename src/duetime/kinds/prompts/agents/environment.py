"""The environment variables that a program may see, and the redaction of their secrets in its output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from duetime.engine.encoding import DEPTH, clean_text
from duetime.engine.redaction import without_password, without_secrets

ALWAYS = ("PATH", "HOME", "LANG", "USER")
_ALWAYS_BY_PREFIX = ("LC_", "SSL_CERT_")
_IS_SECRET = re.compile(r"key|token|secret|password|credential|auth", re.IGNORECASE)
_SHORTEST_SECRET = 8


def visible(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the allowed variables: those not known to be harmless have to be named by the operator."""
    wanted = {*ALWAYS, *names}
    shown = {name: value for name, value in environment.items() if name in wanted or name.startswith(_ALWAYS_BY_PREFIX)}
    return {**shown, "TERM": "dumb", "NO_COLOR": "1"}


def _is_secret(name: str, value: str) -> bool:
    return _IS_SECRET.search(name) is not None or without_password(value) != value


class Secrets:
    """Redacts the secret values that an agent was given from whatever it said."""

    def __init__(self, token: str, *environments: Mapping[str, str]) -> None:
        found = {token}
        for environment in environments:
            found |= {value for name, value in environment.items() if _is_secret(name, value)}
        # The longest first: one may be the beginning of another.
        self._values = sorted((value for value in found if len(value) >= _SHORTEST_SECRET), key=len, reverse=True)

    def without(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, "***")
        return clean_text(text)

    def in_short(self, text: str) -> str:
        """Return an error shortened, and without anything else that looks like a credential."""
        return without_secrets(self.without(text))

    def cleaned(self, value: Any, depth: int = 0) -> Any:
        """Redact a JSON value; what is nested too deeply is cut."""
        if isinstance(value, str):
            return self.without(value)
        if isinstance(value, dict | list) and depth >= DEPTH:
            return "..."
        if isinstance(value, dict):
            return {self.without(str(name)): self.cleaned(inner, depth + 1) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.cleaned(inner, depth + 1) for inner in value]
        return value
