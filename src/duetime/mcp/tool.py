"""What a tool is: words, schemas, honest hints, and a function that answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from duetime.engine.kind import Caller
from duetime.engine.scheduler import Scheduler
from duetime.service.services import Services

Schema = dict[str, Any]
Arguments = dict[str, Any]


class Call(NamedTuple):
    """One call: on whose behalf, in which zone, with what."""

    desk: Services
    caller: Caller
    zone: str

    @property
    def scheduler(self) -> Scheduler:
        return self.desk.scheduler


class Reply(NamedTuple):
    """Structured content, and the text beside it; without text, the structured content is the text."""

    structured: Mapping[str, Any]
    text: str | None = None


class ToolProblem(Exception):
    """Answered as a tool error (`isError`) with just this text."""


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    family: str
    title: str
    description: str
    input: Schema
    output: Schema
    answer: Callable[[Call, Arguments], Reply]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    is_early: Callable[[Call, Arguments], bool] | None = None
    """Whether the call has to wait a moment before it can be answered; asked again until it has not."""


def object_schema(properties: Mapping[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    """Flat arguments; unknown ones are refused."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def result_schema(properties: Mapping[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def number(description: str, **more: Any) -> Schema:
    return {"type": "integer", "description": description, **more}


def optional(schema: Schema) -> Schema:
    """Null is as good as absent."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {**schema, "type": [*kinds, "null"]}
