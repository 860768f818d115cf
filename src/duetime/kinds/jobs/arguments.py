"""Arguments of a task, read from its signature: checked when a job is created, and described to agents."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Annotated, Any, Literal, NamedTuple, Union

from duetime.engine.errors import InvalidInput
from duetime.kinds.jobs.context import TaskContext

# Annotations as rules for JSON values. Common ones are handled here, because pydantic is slow to import.


@dataclass(frozen=True, slots=True)
class Shape:
    """Rule for a JSON value. `convert` is None if the function takes the JSON value as it is."""

    words: str
    fits: Callable[[Any], bool]
    schema: dict[str, Any] = field(default_factory=dict)
    convert: Callable[[Any], Any] | None = None

    def check(self, name: str, value: Any) -> None:
        """Raise InvalidInput that names the argument if the value does not fit."""
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
    """Return the rule for an annotation; one that cannot be interpreted accepts anything."""
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
    """Use strings beside the type as the argument's description; leave other metadata to pydantic."""
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
    """Return the rule for dates, models, enums and the like: JSON is validated strictly and converted to that type."""
    from pydantic import TypeAdapter

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        schema = adapter.json_schema()
    except Exception:  # pydantic does not know the class, so only the task can check the value
        return ANYTHING

    def convert(value: Any) -> Any:
        try:
            text = json.dumps(value)
        except TypeError:  # passed on by the previous step within this process
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


_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_WORDS = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict, "None": None}


class Argument(NamedTuple):
    name: str
    kind: Any
    default: Any
    shape: Shape

    @property
    def required(self) -> bool:
        return self.default is Parameter.empty


class ContextPlace(NamedTuple):
    """Where a task takes its context: by name, or at a position that the caller's arguments leave free."""

    name: str
    position: int | None


class Arguments:
    def __init__(self, function: Callable[..., Any], hidden: Container[str] = ()) -> None:
        """`hidden`: parameters that callers neither see nor set."""
        parameters = [parameter for parameter in _parameters(function) if parameter.name not in hidden]
        self.context = find_context(parameters)
        given = [p for p in parameters if self.context is None or p.name != self.context.name]
        listed = [Argument(p.name, p.kind, p.default, shape_of(p.annotation)) for p in given]
        self.positional = [a for a in listed if a.kind in _POSITIONAL]
        self.named = {a.name: a for a in listed if a.kind in _NAMED}
        self.listed = [a for a in listed if a.kind in _POSITIONAL or a.kind in _NAMED]
        self.rest = next((a for a in listed if a.kind is Parameter.VAR_POSITIONAL), None)
        self.others = next((a for a in listed if a.kind is Parameter.VAR_KEYWORD), None)
        self._converts = any(a.shape.convert is not None for a in listed)
        self.direct = self.context is None and not self._converts
        """True if the function can be called with the JSON values as they are."""

    def check(self, task: str, args: Sequence[Any], kwargs: Mapping[str, Any], *, piped: bool = False) -> None:
        """Raise InvalidInput that names the argument. `piped`: the previous step supplies the first one at run time."""
        names = self._check_positional(task, args, piped)
        for name, value in kwargs.items():
            self._argument(task, name, names).shape.check(name, value)
        for argument in self.listed:
            if argument.required and argument.name not in names and argument.name not in kwargs:
                raise InvalidInput(f"{argument.name}: missing; the task {task} needs it", field=argument.name)

    def adapt(
        self, args: Sequence[Any], kwargs: dict[str, Any], context: Callable[[], TaskContext]
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return the arguments for the call: converted values, plus the context if the function takes one."""
        if self._converts:
            args = [_convert(self._at(index), value) for index, value in enumerate(args)]
            kwargs = {name: _convert(self._called(name), value) for name, value in kwargs.items()}
        if self.context is None:
            return args, kwargs
        place = self.context.position
        if place is not None and len(args) >= place:
            return [*args[:place], context(), *args[place:]], kwargs
        return args, {**kwargs, self.context.name: context()}

    def schema(self) -> dict[str, Any]:
        """Return a JSON Schema. `furtherPositional` describes what `args` may hold beyond the named ones."""
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {a.name: _property(a) for a in self.listed},
            "required": [a.name for a in self.listed if a.required],
            "additionalProperties": self.others.shape.schema if self.others is not None else False,
        }
        if self.rest is not None:
            schema["furtherPositional"] = self.rest.shape.schema
        return schema

    def _check_positional(self, task: str, args: Sequence[Any], piped: bool) -> set[str]:
        count = len(args) + piped
        if count > len(self.positional) and self.rest is None:
            raise self._surplus(task, count, piped)
        for index, value in enumerate(args, start=int(piped)):
            argument = self._at(index)
            assert argument is not None  # the count was checked above
            argument.shape.check(argument.name, value)
        return {argument.name for argument in self.positional[:count]}

    def _surplus(self, task: str, count: int, piped: bool) -> InvalidInput:
        if piped and not self.positional:
            message = f"task: {task} takes no argument, but the step before it passes its result on"
            return InvalidInput(message, field="task")
        most = len(self.positional)
        message = f"args: the task {task} takes at most {most} by position, not {count}"
        return InvalidInput(message, field="args")

    def _argument(self, task: str, name: str, taken: set[str]) -> Argument:
        if name in self.named and name in taken:
            raise InvalidInput(f"{name}: given twice, by position and by name", field=name)
        argument = self._called(name)
        if argument is None or (self.context is not None and name == self.context.name):
            known = ", ".join(self.named) or "none"
            message = f"{name}: the task {task} has no such argument; by name it takes {known}"
            raise InvalidInput(message, field=name)
        return argument

    def _at(self, index: int) -> Argument | None:
        return self.positional[index] if index < len(self.positional) else self.rest

    def _called(self, name: str) -> Argument | None:
        return self.named.get(name, self.others)


def find_context(parameters: Sequence[Parameter]) -> ContextPlace | None:
    for index, parameter in enumerate(parameters):
        if _wants_context(parameter) and parameter.kind in (*_POSITIONAL, Parameter.KEYWORD_ONLY):
            return ContextPlace(parameter.name, index if parameter.kind in _POSITIONAL else None)
    return None


def _wants_context(parameter: Parameter) -> bool:
    """Whether it is annotated with TaskContext, or is named `context` and not annotated as something else."""
    annotation = parameter.annotation
    if isinstance(annotation, str):  # a name that could not be resolved
        annotation = TaskContext if annotation.rpartition(".")[2] == "TaskContext" else annotation
    if annotation is TaskContext or TaskContext in typing.get_args(annotation):
        return True
    return parameter.name == "context" and annotation in (Parameter.empty, Any)


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters with annotations resolved. Those imported for type checkers only are not checked."""
    try:
        return list(inspect.signature(function, eval_str=True).parameters.values())
    except Exception:  # resolving an annotation can raise anything
        return [_partly_resolved(p) for p in inspect.signature(function).parameters.values()]


def _partly_resolved(parameter: Parameter) -> Parameter:
    annotation = parameter.annotation
    if not isinstance(annotation, str) or annotation.rpartition(".")[2] == "TaskContext":
        return parameter
    return parameter.replace(annotation=_WORDS.get(annotation, Parameter.empty))


def _convert(argument: Argument | None, value: Any) -> Any:
    return value if argument is None else argument.shape.converted(argument.name, value)


def _property(argument: Argument) -> dict[str, Any]:
    if argument.required:
        return argument.shape.schema
    try:
        json.dumps(argument.default, allow_nan=False)
    except (TypeError, ValueError):
        return argument.shape.schema
    return argument.shape.schema | {"default": argument.default}
