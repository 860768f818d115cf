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

from duetime.engine.triggers.event import MISSING, value_at, values_of

_TEMPLATE: Final = re.compile(
    r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*://\S*|\{\{|\}\}|\{([A-Za-z0-9_][A-Za-z0-9_.:/-]*)\}", re.ASCII
)
MAX_INSERTED: Final = 2_000
"""Maximum number of characters of a value within a text."""
MAX_INSERTED_IN_ALL: Final = 1_000_000
"""Maximum number of characters that an event adds to a run: few words can name a long value many times."""


class TooMuchInserted(Exception):
    permanent = True


class Filling:
    """Inserts the values of one event into the texts of one run. Each path is looked up once."""

    def __init__(self, data: object) -> None:
        self._look_up, self._room = values_of(data), MAX_INSERTED_IN_ALL

    def fill(self, value: Any, *, as_text: bool = False) -> Any:
        """Return a JSON value whose texts have the values of the event. A text that is nothing but a path becomes the
        value itself, such as a number, unless only texts are wanted."""
        if isinstance(value, str):
            whole = _TEMPLATE.fullmatch(value)
            named = self._look_up(whole[1]) if whole is not None and whole[1] is not None else None
            if named is None:
                return _TEMPLATE.sub(self._insert, value)
            named_value, text = named
            self._take(text)
            return text if as_text else named_value
        if isinstance(value, Mapping):
            return {name: self.fill(each) for name, each in value.items()}
        return [self.fill(each) for each in value] if isinstance(value, list) else value

    def _insert(self, match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0] if match[0] in ("{{", "}}") else match[0]
        named = self._look_up(match[1])
        return match[0] if named is None else self._take(named[1][:MAX_INSERTED])

    def _take(self, text: str) -> str:
        self._room -= len(text)
        if self._room < 0:
            most = f"{MAX_INSERTED_IN_ALL:,} characters"
            raise TooMuchInserted(f"the values of the event are more than {most} in all; name fewer or shorter ones")
        return text


def unknown_paths(texts: Sequence[object], data: object) -> list[str]:
    """Return the paths in texts, or in JSON values with texts, that the data of an event do not have."""
    paths = dict.fromkeys(_TEMPLATE.findall(json.dumps(texts)))
    return [path for path in paths if path and value_at(data, path) is MISSING]
