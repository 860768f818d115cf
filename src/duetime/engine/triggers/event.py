"""The trigger of a schedule that runs when something happens. It has no occurrences by the clock: an event that arrives
under its name, with the values that it asks for, becomes a run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from duetime.engine.clock import NEVER, Instant
from duetime.engine.errors import InvalidInput, InvalidTrigger
from duetime.engine.model import EVENT_NAME
from duetime.engine.triggers.base import Trigger
from duetime.engine.value_class import dataclass

RESERVED: Final = "~"
"""The first character of names that only the engine gives to events."""
MAX_NAME_LENGTH: Final = 100
AGENTS: Final = "agent."
"""The beginning of the names of events that an agent's run may send."""
MAX_CONDITIONS: Final = 8
MAX_VALUES: Final = 20
MAX_TEXT_LENGTH: Final = 200
"""Maximum number of characters of a path or a value in a condition."""
ANY: Final = "*"
"""As a name, it stands for all names; as a value, for any value that is present."""
_PATTERN: Final = rf"\*|{EVENT_NAME}(?:(?<=\.)\*)?|{RESERVED}{EVENT_NAME}"
"""What a schedule may listen to. Compiled when it is needed, which few processes do."""
Conditions = tuple[tuple[str, tuple[str, ...]], ...]
"""Paths into the data of an event, each with the values that it may have; no values: any that is present."""
MISSING: Final = object()


def check_name(name: object, field: str = "event") -> str:
    """Return the name of an event that somebody sends."""
    if isinstance(name, str) and len(name) <= MAX_NAME_LENGTH and re.fullmatch(EVENT_NAME, name):
        return name
    rule = f"letters, digits and . _ : / -, beginning with a letter, at most {MAX_NAME_LENGTH} characters"
    raise InvalidInput(field=field, problem=f"must be a name such as github.push: {rule}; not {repr(name)[:60]}")


def value_at(data: object, path: str) -> object:
    """Return the value at a dotted path; MISSING if there is none."""
    for part in path.split("."):
        if isinstance(data, Mapping) and part in data:
            data = data[part]
        elif isinstance(data, list) and part.isascii() and part.isdigit() and len(part) < 10 and int(part) < len(data):
            data = data[int(part)]
        else:
            return MISSING
    return data


def text_at(data: object, path: str) -> str | None:
    """Return the value at a path as text: a text as it is, anything else as JSON; None if there is none."""
    value = value_at(data, path)
    return None if value is MISSING else text_of(value)


def text_of(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, kw_only=True)
class EventTrigger(Trigger):
    type: ClassVar[str] = "event"
    event: str
    where: Conditions = ()
    cooldown: int = 0
    """Minimum number of microseconds from the start of one run to that of the next."""
    label: str = ""
    """What people call an event whose name the engine gave it."""

    def _following(self, instant: Instant) -> Instant | None:
        return NEVER if instant < NEVER else None

    def next_after(self, instant: Instant) -> Instant | None:
        return self._following(instant)

    def matches(self, data: object) -> bool:
        """Return whether the data of an event fulfil all conditions."""
        for path, values in self.where:
            text = text_at(data, path)
            if text is None or (values and text not in values):
                return False
        return True

    def to_dict(self) -> dict[str, object]:
        shape = super().to_dict() | {"event": self.event}
        if self.where:
            shape["where"] = {path: list(values) if values else ANY for path, values in self.where}
        if self.cooldown:
            shape["cooldown_us"] = self.cooldown
        if self.label:
            shape["label"] = self.label
        return shape


def check_pattern(name: object) -> str:
    """Return the name of the events to which a schedule listens, which may end in `.*`."""
    if isinstance(name, str) and len(name) <= MAX_NAME_LENGTH and re.fullmatch(_PATTERN, name):
        return name
    problem = f"must be the name of an event, such as github.push or github.*; not {repr(name)[:60]}"
    raise InvalidTrigger(field="event", problem=problem)


def conditions_of(where: object) -> Conditions:
    """Return conditions from a mapping of paths to a value, to several values, or to `*` for any."""
    if where is None:
        return ()
    if not isinstance(where, Mapping) or len(where) > MAX_CONDITIONS:
        problem = f'must be an object of at most {MAX_CONDITIONS} paths, such as {{"ref": "refs/heads/main"}}.'
        raise InvalidTrigger(field="where", problem=problem)
    return tuple(sorted((_path(path), _values(values)) for path, values in where.items()))


def _path(path: object) -> str:
    if isinstance(path, str) and 0 < len(path) <= MAX_TEXT_LENGTH and path.isprintable() and " " not in path:
        return path
    raise InvalidTrigger(field="where", problem=f"{repr(path)[:60]} is no path such as repository.name.")


def _values(values: object) -> tuple[str, ...]:
    if values == ANY:
        return ()
    listed: Sequence[Any] = values if isinstance(values, list | tuple) else [values]
    texts = tuple(text_of(value) if isinstance(value, str | int | float | None) else "" for value in listed)
    if not 0 < len(texts) <= MAX_VALUES or any(len(text) > MAX_TEXT_LENGTH or not text.isprintable() for text in texts):
        problem = f"a value must be a text of at most {MAX_TEXT_LENGTH} characters, a number, true, false or null, or a"
        raise InvalidTrigger(field="where", problem=f"{problem} list of at most {MAX_VALUES} of them.")
    return texts
