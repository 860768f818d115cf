"""What an annotation says about a JSON value. The common ones are read here, because pydantic is slow to import."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Union

from duetime.core.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Shape:
    """`convert` is None where the JSON value is already what the function wants."""

    words: str
    fits: Callable[[Any], bool]
    schema: dict[str, Any] = field(default_factory=dict)
    convert: Callable[[Any], Any] | None = None

    def check(self, name: str, value: Any) -> None:
        """Raises InvalidInput that names the argument."""
        if self.convert is not None:
            self.converted(name, value)
        elif not self.fits(value):
            raise InvalidInput(f"{name}: must be {self.words}, not {_words_for(value)}", field=name)

    def converted(self, name: str, value: Any) -> Any:
        if self.convert is None:
            return value
        try:
            return self.convert(value)
        except ValueError as error:
            raise InvalidInput(f"{name}: {_first_problem(error)}", field=name) from error


ANYTHING = Shape("anything", lambda value: True)

_SCALARS: dict[Any, Shape] = {
    str: Shape("a text", lambda value: isinstance(value, str), {"type": "string"}),
    bool: Shape("true or false", lambda value: isinstance(value, bool), {"type": "boolean"}),
    int: Shape("a whole number", lambda value: type(value) is int, {"type": "integer"}),
    float: Shape("a number", lambda value: type(value) in (int, float), {"type": "number"}),
    None: Shape("null", lambda value: value is None, {"type": "null"}),
    type(None): Shape("null", lambda value: value is None, {"type": "null"}),
    list: Shape("a list", lambda value: isinstance(value, list), {"type": "array"}),
    dict: Shape("an object", lambda value: isinstance(value, dict), {"type": "object"}),
    Any: ANYTHING,
    object: ANYTHING,
    inspect.Parameter.empty: ANYTHING,
}


def shape_of(annotation: Any) -> Shape:
    """What the annotation asks for; one that nobody can read asks for nothing."""
    plain = _plain(annotation)
    return plain if plain is not None else _typed(annotation)


def _plain(annotation: Any) -> Shape | None:
    try:
        if annotation in _SCALARS:
            return _SCALARS[annotation]
    except TypeError:  # an annotation that cannot be hashed
        return None
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _annotated(inner[0], inner[1:])
    if origin is Literal:
        return _choice(inner)
    if origin in (Union, types.UnionType):
        return _union([_plain(part) for part in inner])
    if origin is list:
        return _list(_plain(inner[0]))
    if origin is dict and inner[0] is str:
        return _object(_plain(inner[1]))
    return None


def _annotated(annotation: Any, notes: tuple[Any, ...]) -> Shape | None:
    """A text beside the type describes the argument; anything else is for pydantic."""
    shape = _plain(annotation)
    if shape is None or not all(isinstance(note, str) for note in notes):
        return None
    return Shape(shape.words, shape.fits, shape.schema | {"description": " ".join(notes)})


def _choice(choices: tuple[Any, ...]) -> Shape | None:
    if not all(isinstance(choice, str | int) for choice in choices):
        return None
    allowed = {(type(choice), choice) for choice in choices}
    words = "one of " + ", ".join(json.dumps(choice) for choice in choices)
    return Shape(words, lambda value: _hashable(value) in allowed, {"enum": list(choices)})


def _hashable(value: Any) -> tuple[type, Any]:
    return (type(value), value) if isinstance(value, str | int) else (type(value), None)


def _union(parts: list[Shape | None]) -> Shape | None:
    shapes = [part for part in parts if part is not None]
    if len(shapes) < len(parts):
        return None
    words = " or ".join(shape.words for shape in shapes)
    schema = {"anyOf": [shape.schema for shape in shapes]}
    return Shape(words, lambda value: any(shape.fits(value) for shape in shapes), schema)


def _list(item: Shape | None) -> Shape | None:
    if item is None:
        return None
    return Shape(
        f"a list, each item {item.words}",
        lambda value: isinstance(value, list) and all(map(item.fits, value)),
        {"type": "array", "items": item.schema},
    )


def _object(item: Shape | None) -> Shape | None:
    if item is None:
        return None
    return Shape(
        f"an object, each value {item.words}",
        lambda value: isinstance(value, dict) and all(map(item.fits, value.values())),
        {"type": "object", "additionalProperties": item.schema},
    )


def _typed(annotation: Any) -> Shape:
    """Dates, models, enumerations and the like: JSON is read strictly, and the function gets the real thing."""
    from pydantic import TypeAdapter

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        schema = adapter.json_schema()
    except Exception:  # a class that pydantic knows nothing about is the business of the task alone
        return ANYTHING

    def convert(value: Any) -> Any:
        try:
            text = json.dumps(value)
        except TypeError:  # handed on by the step before, inside this process
            return adapter.validate_python(value, strict=True)
        return adapter.validate_json(text, strict=True)

    return Shape(str(annotation), lambda value: True, schema, convert)


def _first_problem(error: ValueError) -> str:
    listed = getattr(error, "errors", None)
    if listed is None:
        return str(error)
    first = listed(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    message: str = first["msg"]
    return f"{where}: {message}" if where else message


def _words_for(value: Any) -> str:
    if isinstance(value, str):
        return "a text"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return f"the number {value}"[:60]
    if isinstance(value, list):
        return "a list"
    return "an object" if isinstance(value, dict) else type(value).__name__
