"""Arguments of a task, read from its signature: checked when a job is created, and described to agents."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Annotated, Any, Literal, NamedTuple, Union

from duetime.engine.errors import InvalidInput
from duetime.kinds.jobs.context import TaskContext

# Common annotations become JSON Schemas here, because pydantic is slow to import and its schemas carry titles.

_TYPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "string": ("a text", lambda value: isinstance(value, str)),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "integer": ("a whole number", lambda value: type(value) is int),
    "number": ("a number", lambda value: type(value) in (int, float)),
    "null": ("null", lambda value: value is None),
    "array": ("a list", lambda value: isinstance(value, list)),
    "object": ("an object", lambda value: isinstance(value, dict)),
}
_NAMES: dict[Any, str] = {
    str: "string", bool: "boolean", int: "integer", float: "number", None: "null", types.NoneType: "null",
    list: "array", dict: "object",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shape:
    """Rule for a JSON value. `convert` is None if the function takes the JSON value as it is."""

    schema: dict[str, Any]
    convert: Callable[[Any], Any] | None = None

    def check(self, name: str, value: Any) -> None:
        """Raise InvalidInput that names the argument if the value does not fit."""
        if self.convert is not None:
            self.converted(name, value)
        elif not _fits(self.schema, value):
            raise InvalidInput(f"{name}: must be {_words(self.schema)}, not {_words_for(value)}", field=name)

    def converted(self, name: str, value: Any) -> Any:
        if self.convert is None:
            return value
        try:
            return self.convert(value)
        except ValueError as error:
            raise InvalidInput(f"{name}: {_first_problem(error)}", field=name) from error


def shape_of(annotation: Any) -> Shape:
    """Return the rule for an annotation; one that cannot be interpreted accepts anything."""
    schema = _plain(annotation)
    return Shape(schema) if schema is not None else _typed(annotation)


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
    return _TYPES[schema["type"]][1](value) and (not inner or all(_fits(inner, each) for each in values))


def _words(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(map(_words, schema["anyOf"]))
    if "enum" in schema:
        return "one of " + ", ".join(map(json.dumps, schema["enum"]))
    words = _TYPES[schema["type"]][0] if "type" in schema else "anything"
    if "items" in schema:
        return f"{words}, each item {_words(schema['items'])}"
    inner = schema.get("additionalProperties")
    return words if inner is None else f"{words}, each value {_words(inner)}"


def _typed(annotation: Any) -> Shape:
    """Return the rule for dates, models, enums and the like: JSON is validated strictly and converted to that type."""
    from pydantic import TypeAdapter

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        schema = adapter.json_schema()
    except Exception:  # pydantic does not know the class, so only the task can check the value
        return Shape({})

    def convert(value: Any) -> Any:
        try:
            text = json.dumps(value)
        except TypeError:  # passed on by the previous step within this process
            return adapter.validate_python(value, strict=True)
        return adapter.validate_json(text, strict=True)

    return Shape(schema, convert)


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
