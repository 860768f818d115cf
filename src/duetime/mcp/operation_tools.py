"""The arguments of tools, built from the requests of the operations that they carry out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_origin

from duetime.mcp.definitions import Arguments, Schema
from duetime.mcp.schemas import JSON_TYPES
from duetime.service.operations.declaration import Argument, ScheduleReference, Time, arguments_of

R = TypeVar("R")
_TYPES: dict[Any, str | list[str]] = {**JSON_TYPES, Time: "string", ScheduleReference: ["string", "integer"]}


def inputs_of(request: type, *without: str) -> dict[str, Schema]:
    """Return the schemas of the arguments of an operation."""
    return {each.name: _schema(each) for each in arguments_of(request) if each.name not in without}


def request_of(request: type[R], arguments: Arguments, **further: Any) -> R:
    """Return the request that the arguments of a tool make."""
    names = {each.name: each.attribute for each in arguments_of(request)}
    return request(**{names[name]: value for name, value in arguments.items() if name in names}, **further)


def _schema(argument: Argument) -> Schema:
    field, type_ = argument.field, argument.type
    choices = list(field.choices) or None
    bounds = {"enum": choices, "minimum": field.minimum, "maximum": field.maximum, "maxItems": field.max_items}
    schema: Schema = {name: bound for name, bound in bounds.items() if bound is not None}
    description = field.brief or field.description
    container = "object" if get_origin(type_) is Mapping else "array"
    return {"type": "string" if choices else _TYPES.get(type_, container), "description": description, **schema}
