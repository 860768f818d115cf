"""`Tool`: its description, schemas, hints and function; and helpers that build schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from duetime.service.services import Call

Schema = dict[str, Any]
Arguments = dict[str, Any]


class Reply(NamedTuple):
    """Structured content and its text; without `text`, the structured content is sent as text too."""

    structured: Mapping[str, Any]
    text: str | None = None


class ToolProblem(Exception):
    """Returned to the client as a tool error (`isError`) with exactly this text."""


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    title: str
    description: str
    input: Schema
    output: Schema
    answer: Callable[[Call, Arguments], Reply]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    lists_schedules: bool = False
    is_early: Callable[[Call, Arguments], bool] | None = None
    """Returns whether the call must wait before it can be answered; it is checked again until it returns False."""


def object_schema(properties: Mapping[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    """Return the schema of a flat object without unknown properties."""
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
    """Allow null, which means the same as an absent value."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {**schema, "type": [*kinds, "null"]}
