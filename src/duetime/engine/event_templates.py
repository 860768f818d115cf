"""`{path}` in the texts of a schedule that waits for an event: it stands for a value in the data of the event.

Values are inserted once and as they are: what an event contains is never read as a template. `{{` is a brace, and a
path that the data do not have stays as it is written. So does an address, with all that it contains: otherwise, whoever
sends an event could choose where something is fetched or sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from duetime.engine.triggers.event import MISSING, text_of, value_at

_TEMPLATE: Final = re.compile(
    r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*://\S*|\{\{|\}\}|\{([A-Za-z0-9_][A-Za-z0-9_.:/-]*)\}", re.ASCII
)
MAX_INSERTED: Final = 2_000
"""Maximum number of characters of a value within a text."""


def filled_text(text: str, data: object) -> str:
    """Return a text with the values of an event."""

    def insert(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0] if match[0] in ("{{", "}}") else match[0]
        value = value_at(data, match[1])
        return match[0] if value is MISSING else text_of(value)[:MAX_INSERTED]

    return _TEMPLATE.sub(insert, text)


def filled(value: Any, data: object, *, as_text: bool = False) -> Any:
    """Return a JSON value whose texts have the values of an event. A text that is nothing but a path becomes the value
    itself, such as a number, unless only texts are wanted."""
    if isinstance(value, str):
        whole = _TEMPLATE.fullmatch(value)
        inner = value_at(data, whole[1]) if whole is not None and whole[1] is not None else MISSING
        return filled_text(value, data) if inner is MISSING else text_of(inner) if as_text else inner
    if isinstance(value, Mapping):
        return {name: filled(each, data) for name, each in value.items()}
    return [filled(each, data) for each in value] if isinstance(value, list) else value


def unknown_paths(texts: Sequence[object], data: object) -> list[str]:
    """Return the paths in texts, or in JSON values with texts, that the data of an event do not have."""
    paths = dict.fromkeys(_TEMPLATE.findall(json.dumps(texts)))
    return [path for path in paths if path and value_at(data, path) is MISSING]
