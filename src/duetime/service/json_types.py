"""JSON types of Python annotations: schema, strict check, and conversion to the annotated type.

Common annotations become schemas here, because pydantic is slow to import and its schemas carry titles.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Annotated, Any, Literal, Union

from duetime.engine.errors import InvalidInput
from duetime.engine.value_class import dataclass
from duetime.service.text import value_of

TYPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "string": ("a text", lambda value: isinstance(value, str)),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "integer": ("a whole number", lambda value: type(value) is int),
    "number": ("a number", lambda value: type(value) in (int, float)),
    "null": ("null", lambda value: value is None),
    "array": ("a list", lambda value: isinstance(value, list)),
    "object": ("an object", lambda value: isinstance(value, dict)),
}
"""Name and check of each type of JSON."""
_NAMES: dict[Any, str] = {
    str: "string", bool: "boolean", int: "integer", float: "number", None: "null", types.NoneType: "null",
    list: "array", dict: "object",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class JsonType:
    """Rule for a JSON value. `convert` is None if the function takes the JSON value as it is."""

    schema: dict[str, Any]
    convert: Callable[[Any], Any] | None = None

    def check(self, name: str, value: Any) -> None:
        """Raise InvalidInput that names the argument if the value does not fit."""
        if self.convert is not None:
            self.convert_value(name, value)
        elif not _fits(self.schema, value):
            misfit = _describe_misfit(self.schema, value)
            raise InvalidInput(field=name, problem=f"must be {_describe(self.schema)}, not {misfit}")

    def read_typed(self, text: str) -> Any:
        """Return the JSON value of a text that somebody typed, with items of the types that are wanted where they can
        be read so."""
        return _read_typed(self.schema, value_of(text, read_number=_Number))

    def convert_value(self, name: str, value: Any) -> Any:
        if self.convert is None:
            return value
        try:
            return self.convert(value)
        except ValueError as error:
            raise InvalidInput(field=name, problem=f"{_first_problem(error)}") from error


def json_type_of(annotation: Any) -> JsonType:
    """Return the rule for an annotation; an annotation that cannot be interpreted accepts any value."""
    schema = _plain(annotation)
    return JsonType(schema) if schema is not None else _read_type(annotation)


def _plain(annotation: Any) -> dict[str, Any] | None:
    """Return the schema of a type that JSON has; None leaves the annotation to pydantic."""
    if annotation is Any or annotation is object or annotation is Parameter.empty:
        return {}
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return {"enum": list(inner)} if all(isinstance(choice, str | int) for choice in inner) else None
    if origin in (Union, types.UnionType):
        parts = [_plain(part) for part in inner]
        return None if None in parts else {"anyOf": parts}
    if origin is Annotated:  # strings beside the type describe the argument
        schema = _plain(inner[0]) if all(isinstance(note, str) for note in inner[1:]) else None
        return None if schema is None else {**schema, "description": " ".join(inner[1:])}
    if inner and (origin is list or (origin is dict and inner[0] is str)):
        schema = _plain(inner[-1])
        key = "items" if origin is list else "additionalProperties"
        return None if schema is None else {"type": _NAMES[origin], key: schema}
    name = _NAMES.get(annotation) if isinstance(annotation, type | None) else None
    return None if name is None else {"type": name}


def _fits(schema: Mapping[str, Any], value: Any) -> bool:
    if "anyOf" in schema:
        return any(_fits(part, value) for part in schema["anyOf"])
    if "enum" in schema:
        return (type(value), value) in [(type(choice), choice) for choice in schema["enum"]]
    if "type" not in schema:
        return True
    inner = schema.get("items") or schema.get("additionalProperties") or {}
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return TYPES[schema["type"]][1](value) and (not inner or all(_fits(inner, each) for each in values))


class _Number(str):
    """A number as it was typed."""


def _read_typed(schema: Mapping[str, Any], value: Any) -> Any:
    if isinstance(value, list | dict):
        inner = schema.get("items") or schema.get("additionalProperties") or {}
        for part in schema.get("anyOf", ()):
            if _fits(part, reading := _read_typed(part, value)):
                return reading
        if isinstance(value, list):
            return [_read_typed(inner, each) for each in value]
        return {name: _read_typed(inner, each) for name, each in value.items()}
    text = value if isinstance(value, str) else json.dumps(value)
    reading = {"True": True, "False": False}.get(text, value_of(text))
    readings = (reading if isinstance(value, _Number) else value, reading, str(text))
    return next((each for each in readings if _fits(schema, each)), readings[0])


def _describe(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(map(_describe, schema["anyOf"]))
    if "enum" in schema:
        return "one of " + ", ".join(map(json.dumps, schema["enum"]))
    text = TYPES[schema["type"]][0] if "type" in schema else "anything"
    if "items" in schema:
        return f"{text}, each item {_describe(schema['items'])}"
    inner = schema.get("additionalProperties")
    return text if inner is None else f"{text}, each value {_describe(inner)}"


def _read_type(annotation: Any) -> JsonType:
    """Return the rule for dates, models, enums and the like: JSON is validated strictly and converted to that type."""
    from pydantic import TypeAdapter

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        schema = adapter.json_schema()
    except Exception:  # pydantic does not know the class, so only the task can check the value
        return JsonType({})

    def convert(value: Any) -> Any:
        try:
            text = json.dumps(value)
        except TypeError:  # a value that the previous step passed on within this process
            return adapter.validate_python(value, strict=True)
        return adapter.validate_json(text, strict=True)

    return JsonType(schema, convert)


def _first_problem(error: ValueError) -> str:
    listed = getattr(error, "errors", None)
    if listed is None:
        return str(error)
    first = listed(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    message: str = first["msg"]
    return f"{where}: {message}" if where else message


def _describe_misfit(schema: Mapping[str, Any], value: Any) -> str:
    """Describe a value and, if only an item of it does not fit, that item."""
    for part in schema.get("anyOf", [schema]):
        inner = part.get("items") or part.get("additionalProperties")
        if inner and TYPES[part["type"]][1](value):
            items = value.values() if isinstance(value, dict) else value
            item = next(each for each in items if not _fits(inner, each))
            return f"{_describe_value(value)} with {_describe_misfit(inner, item)}"
    return _describe_value(value)


def _describe_value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return f"the number {value}"[:60]
    return next((name for name, fits in TYPES.values() if fits(value)), type(value).__name__)
