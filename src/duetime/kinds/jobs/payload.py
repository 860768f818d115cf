"""The payload of a job, with the options that the command has for it. The kind checks it against the task."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from duetime.engine.errors import InvalidInput
from duetime.engine.value_class import dataclass
from duetime.service.payload_fields import About
from duetime.service.text import value_of

_what = partial(About, heading="What it runs")


def name_and_text(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidInput(f"--kwarg: write it as name=value, not {text[:60]!r}")
    return name.strip(), value


def _named_argument(text: str) -> tuple[str, Any]:
    name, value = name_and_text(text)
    return name, value_of(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCall:
    """A call of a registered task."""

    task: Annotated[
        str,
        _what(
            "Registered task, or several: echo('hi') | shorten(words=5) pipes the result, a() and b() not.",
            option="--task TASK",
        ),
    ]
    args: Annotated[
        list[Any] | None,
        _what(
            "Argument of the task: plain text, or JSON if the task takes that.",
            brief="Positional arguments.",
            option="--arg VALUE",
            read_item=value_of,
        ),
    ] = None
    kwargs: Annotated[
        dict[str, Any] | None,
        _what(
            "Named argument of the task.",
            brief="Keyword arguments.",
            option="--kwarg NAME=VALUE",
            read_item=_named_argument,
        ),
    ] = None
