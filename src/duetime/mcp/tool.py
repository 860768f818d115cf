"""`Tool`: its description, schemas, hints and function; and helpers that build schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from duetime.engine.errors import StoreUnavailable
from duetime.engine.result import Err
from duetime.service.errors import STORE_ERRORS
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


def errors_as_results(answer: Callable[[Call, Arguments], Reply]) -> Callable[[Call, Arguments], Reply]:
    """Return a ToolProblem, such as an unknown time zone, as a normal result with the key `error`."""

    def answered(call: Call, given: Arguments) -> Reply:
        try:
            return answer(call, given)
        except ToolProblem as problem:
            return Reply({"error": str(problem)})

    return answered


def error_result(err: Err) -> Reply:
    """Return an error as a result; raise store errors, whose messages may name files, for the operator's log."""
    if err.code in STORE_ERRORS:
        raise StoreUnavailable(err.message)
    if err.details.get("field") == "timeout":  # the engine uses microseconds and another name
        return Reply({"error": "timeout_seconds: must be more than 0 and at most 2592000, such as 60"})
    return Reply({"error": err.message})


def object_schema(properties: Mapping[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    """Return the schema of a flat object without unknown properties. What is not required may be null, too."""
    return {
        "type": "object",
        "properties": {name: each if name in required else optional(each) for name, each in properties.items()},
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
    return schema if "null" in kinds else {**schema, "type": [*kinds, "null"]}
