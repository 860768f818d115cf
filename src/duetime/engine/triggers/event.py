"""The trigger of a schedule that runs when something happens. It has no occurrences by the clock: an event that arrives
under its name, with the values that it asks for, becomes a run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, ClassVar, Final

from duetime.engine.clock import NEVER, Instant
from duetime.engine.encoding import parse_json
from duetime.engine.errors import InvalidInput, InvalidTrigger
from duetime.engine.model import EVENT_NAME, MAX_EVENT_NAME_LENGTH, RunStatus
from duetime.engine.triggers.base import Trigger
from duetime.engine.value_class import dataclass, pattern

AGENTS: Final = "agent."
"""The beginning of the names of events that an agent's run may send."""
MAX_CONDITIONS: Final = 8
MAX_VALUES: Final = 20
MAX_TEXT_LENGTH: Final = 200
"""Maximum number of characters of a path or a value in a condition."""
ANY: Final = "*"
"""As a name, it stands for all names; as a value, for any value that is present."""
_INDEX: Final = pattern(r"0|[1-9][0-9]{0,8}")
"""An index has one form, so that a value is not looked up under many paths."""
COMPARISON: Final = pattern(r"(?:[<>]=?|!=|at least|at most|over|above|below|under|[a-z]{4,7} than) *-?\d[\d.,]*")
"""A value that its author means as a comparison, which would never be equal to anything."""
OWN_TASK: Final = "to compare otherwise, let a task of your own decide in only_if: event('total') | is_large()"
_PATTERN: Final = rf"\*|{EVENT_NAME}(?:(?<=\.)\*)?|~{EVENT_NAME}"
"""What a schedule may listen to; only the engine gives names that begin with ~. Compiled when it is needed, which few
processes do."""
Conditions = tuple[tuple[str, tuple[str, ...]], ...]
"""Paths into the data of an event, each with the values that it may have; no values: any that is present."""
OUTCOMES: Final[Mapping[str, tuple[str, ...]]] = {
    "succeeds": (RunStatus.COMPLETED,),
    "fails": (RunStatus.FAILED, RunStatus.LOST),
    "ends": (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.LOST),
}
"""The statuses of runs after which a schedule follows another. Skipped, missed and cancelled runs are no end."""
MISSING: Final = object()
ValueAt = Callable[[str], tuple[Any, str] | None]
"""Returns the value at a dotted path of the data of an event, and its text; None if there is nothing."""


def check_name(name: object, *, listens: bool = False) -> str:
    """Return the name of an event that somebody sends, or to which a schedule listens, which may end in `.*`."""
    text = name if isinstance(name, str) and len(name) <= MAX_EVENT_NAME_LENGTH else ""
    if re.fullmatch(_PATTERN, text) if listens else re.fullmatch(EVENT_NAME, text):
        return text
    rule = f"letters, digits and . _ : / -, beginning with a letter, at most {MAX_EVENT_NAME_LENGTH} characters"
    also = " or github.*" if listens else ""
    problem = f"must be a name such as github.push{also}: {rule}; not {repr(name)[:60]}"
    raise InvalidTrigger(field="event", problem=problem) if also else InvalidInput(field="event", problem=problem)


def value_at(data: object, path: str) -> object:
    """Return the value at a dotted path; MISSING if there is none."""
    for part in path.split("."):
        if isinstance(data, Mapping) and part in data:
            data = data[part]
        elif isinstance(data, list) and _INDEX.fullmatch(part) and int(part) < len(data):
            data = data[int(part)]
        else:
            return MISSING
    return data


def text_of(value: object) -> str:
    """Return a value as text: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def values_of(data: object) -> ValueAt:
    """Return a function that looks up values in some data: each path once, however many schedules ask for it."""

    @cache
    def look_up(path: str) -> tuple[Any, str] | None:
        value = value_at(data, path)
        return None if value is MISSING else (value, text_of(value))

    return look_up


@lru_cache(maxsize=1000)
def _number(text: str) -> float | None:
    value = parse_json(text)
    return value if type(value) in (int, float) else None


def _is_one_of(value: object, text: str, expected: Sequence[str]) -> bool:
    """Return whether a value is equal to an expected one: a text as it is written, a number in any form, as senders
    write 500, 500.0 and 5e2 for the same."""
    return text in expected or (type(value) in (int, float) and any(value == _number(each) for each in expected))


@dataclass(frozen=True, kw_only=True)
class EventTrigger(Trigger):
    type: ClassVar[str] = "event"
    event: str
    where: Conditions = ()
    cooldown: int = 0
    """Minimum number of microseconds from the start of one run to that of the next."""
    id: str = ""
    label: str = ""
    outcome: str = ""
    """The id and the name of a schedule that this one follows, and after which outcome: the end of a run of that one is
    an event. Its name has the number of that schedule, so that a rename changes nothing."""

    def next_after(self, instant: Instant) -> Instant | None:
        return NEVER if instant < NEVER else None

    _following = next_after

    def matches(self, look_up: ValueAt) -> bool:
        """Return whether the data of an event, in which `values_of` looks up values, fulfil all conditions."""
        for path, expected in self.where:
            value = look_up(path)
            if value is None or (expected and not _is_one_of(*value, expected)):
                return False
        return True

    def to_dict(self) -> dict[str, object]:
        where = {path: list(values) if values else ANY for path, values in self.where}
        rest = {"where": where, "cooldown_us": self.cooldown}
        rest |= {"label": self.label, "id": self.id, "outcome": self.outcome}
        return super().to_dict() | {"event": self.event} | {name: value for name, value in rest.items() if value}


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
    texts = tuple(text_of(value) for value in listed[: MAX_VALUES + 1] if isinstance(value, str | int | float | None))
    is_readable = all(len(text) <= MAX_TEXT_LENGTH and text.isprintable() for text in texts)
    if not (0 < len(texts) == len(listed) <= MAX_VALUES and is_readable):
        problem = f"a value must be a text of at most {MAX_TEXT_LENGTH} characters, a number, true, false or null, or a"
        raise InvalidTrigger(field="where", problem=f"{problem} list of at most {MAX_VALUES} of them.")
    return texts
