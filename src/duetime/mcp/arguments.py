"""Validation of tool arguments against the tool's schema. Strings are never converted to other types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from duetime.mcp.tool import Arguments, Schema, ToolProblem

_FITS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: type(value) is int or (type(value) is float and value.is_integer()),
    "number": lambda value: type(value) in (int, float),
    "boolean": lambda value: type(value) is bool,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}
_BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("at least", lambda value, bound: value >= bound),
    "maximum": ("at most", lambda value, bound: value <= bound),
}


def checked(schema: Schema, given: Mapping[str, Any] | None) -> Arguments:
    """Return the valid arguments without nulls, or raise a ToolProblem that names the argument."""
    arguments = dict(given or {})
    properties: dict[str, Schema] = schema["properties"]
    for name in arguments:
        if name not in properties:
            known = ", ".join(properties) or "none"
            raise ToolProblem(f"Unknown argument: {name[:100]}. This tool takes: {known}.")
    for name in schema["required"]:
        if name not in arguments:
            raise ToolProblem(f"Missing argument: {name} is required ({_wanted(properties[name])}).")
    return {
        name: _fitted(name, value, properties[name])
        for name, value in arguments.items()
        if _present(name, value, properties[name])
    }


def _present(name: str, value: Any, schema: Schema) -> bool:
    return value is not None or "null" not in _types(schema)


def _types(schema: Schema) -> list[str]:
    kinds = schema["type"]
    return kinds if isinstance(kinds, list) else [kinds]


def _fitted(name: str, value: Any, schema: Schema) -> Any:
    kind = next((kind for kind in _types(schema) if _FITS[kind](value)), None)
    if kind is None:
        raise ToolProblem(f"Invalid argument: {name} must be {_wanted(schema)}.")
    if kind == "string":
        _check_text(name, value)
    for bound, (phrase, holds) in _BOUNDS.items():
        if bound in schema and not holds(value, schema[bound]):
            raise ToolProblem(f"Invalid argument: {name} must be {phrase} {schema[bound]}.")
    return int(value) if kind == "integer" else value


def _check_text(name: str, value: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolProblem(f"Invalid argument: {name} holds lone surrogates, which are no text.") from error
    if "\x00" in value:
        raise ToolProblem(f"Invalid argument: {name} holds a NUL character, which is no text.")


def _wanted(schema: Schema) -> str:
    kinds = [kind for kind in _types(schema) if kind != "null"]
    return " or ".join(f"an {kind}" if kind[0] in "aeiou" else f"a {kind}" for kind in kinds)
