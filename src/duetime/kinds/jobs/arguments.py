"""Arguments of a task, read from its signature; they are checked when a job is created, and described to agents."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Container, Mapping, Sequence
from inspect import Parameter
from typing import Any, NamedTuple

from duetime.engine.encoding import error_text
from duetime.engine.errors import InvalidInput
from duetime.kinds.jobs.context import TaskContext
from duetime.service.json_types import JsonType, json_type_of
from duetime.service.text import value_of

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_WORDS = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict, "None": None}


class TaskArgument(NamedTuple):
    name: str
    kind: Any
    default: Any
    shape: JsonType

    @property
    def required(self) -> bool:
        return self.default is Parameter.empty

    def accepts(self, value: Any) -> bool:
        try:
            self.shape.check(self.name, value)
        except InvalidInput:
            return False
        return True


class ContextPlace(NamedTuple):
    """Where a task takes its context: by name, or at a position that the caller's arguments leave free."""

    name: str
    position: int | None


class Arguments:
    def __init__(self, function: Callable[..., Any], hidden: Container[str] = ()) -> None:
        """`hidden`: parameters that callers neither see nor set."""
        parameters = [parameter for parameter in _parameters(function) if parameter.name not in hidden]
        self.context = find_context(parameters)
        own = [p for p in parameters if self.context is None or p.name != self.context.name]
        listed = [TaskArgument(p.name, p.kind, p.default, json_type_of(p.annotation)) for p in own]
        self.positional = [a for a in listed if a.kind in _POSITIONAL]
        self.named = {a.name: a for a in listed if a.kind in _NAMED}
        self.listed = [a for a in listed if a.kind in _POSITIONAL or a.kind in _NAMED]
        self.rest = next((a for a in listed if a.kind is Parameter.VAR_POSITIONAL), None)
        self.others = next((a for a in listed if a.kind is Parameter.VAR_KEYWORD), None)
        self._converts = any(a.shape.convert is not None for a in listed)
        self.direct = self.context is None and not self._converts
        """True if the function can be called with the JSON values unchanged."""
        self._requires = any(a.required for a in self.listed)

    def check(self, task: str, args: Sequence[Any], kwargs: Mapping[str, Any], *, piped: bool = False) -> None:
        """Raise InvalidInput that names the argument. With `piped`, the previous step supplies the first argument at
        run time."""
        if not (args or kwargs or piped or self._requires):
            return
        try:
            self._check(task, args, kwargs, piped)
        except InvalidInput as error:
            raise (told_as_piped(error, task) if piped else error) from None

    def _check(self, task: str, args: Sequence[Any], kwargs: Mapping[str, Any], piped: bool) -> None:
        names = self._check_positional(task, args, piped)
        for name, value in kwargs.items():
            self._argument(task, name, names).shape.check(name, value)
        for argument in self.listed:
            if argument.required and argument.name not in names and argument.name not in kwargs:
                raise InvalidInput(field=argument.name, problem=f"missing; the task {task} needs it")

    def typed(self, args: Sequence[str], kwargs: Mapping[str, str]) -> tuple[list[Any], dict[str, Any]]:
        """Return the values of arguments that a person typed: JSON, or the text itself where only that fits; items of
        lists and objects likewise."""
        positional = [_typed(self._at(index), text) for index, text in enumerate(args)]
        return positional, {name: _typed(self._called(name), text) for name, text in kwargs.items()}

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
            if piped and not self.positional:
                message = f"{task} takes no argument"
                raise InvalidInput(field="task", problem=message)
            message = f"the task {task} takes at most {len(self.positional)} by position, not {count}"
            raise InvalidInput(field="args", problem=message)
        for index, value in enumerate(args, start=int(piped)):
            argument = self._at(index)
            assert argument is not None  # the count was checked above
            argument.shape.check(argument.name, value)
        return {argument.name for argument in self.positional[:count]}

    def _argument(self, task: str, name: str, taken: set[str]) -> TaskArgument:
        if name in self.named and name in taken:
            raise InvalidInput(field=name, problem="given twice, by position and by name")
        argument = self._called(name)
        if argument is None or (self.context is not None and name == self.context.name):
            known = ", ".join(self.named) or "none"
            message = f"the task {task} has no such argument; by name it takes {known}"
            raise InvalidInput(field=name, problem=message)
        return argument

    def _at(self, index: int) -> TaskArgument | None:
        return self.positional[index] if index < len(self.positional) else self.rest

    def _called(self, name: str) -> TaskArgument | None:
        return self.named.get(name, self.others)


def told_as_piped(error: InvalidInput, task: str) -> InvalidInput:
    """Return the error for a later step of a pipeline, whose first argument is not written in the pipeline."""
    piped = f"the first argument of {task} is the result of the step before it, unless you write and instead of |"
    return InvalidInput(field=error.field, problem=f"{error.problem.rstrip('.')}; {piped}")


def find_context(parameters: Sequence[Parameter]) -> ContextPlace | None:
    for index, parameter in enumerate(parameters):
        if _wants_context(parameter) and parameter.kind in (*_POSITIONAL, Parameter.KEYWORD_ONLY):
            return ContextPlace(parameter.name, index if parameter.kind in _POSITIONAL else None)
    return None


def _wants_context(parameter: Parameter) -> bool:
    """Return whether a parameter is annotated with TaskContext, or is named `context` and not annotated as something
    else."""
    annotation = parameter.annotation
    if isinstance(annotation, str):  # a name that could not be resolved
        annotation = TaskContext if annotation.rpartition(".")[2] == "TaskContext" else annotation
    if annotation is TaskContext or TaskContext in typing.get_args(annotation):
        return True
    return parameter.name == "context" and annotation in (Parameter.empty, Any)


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters with annotations resolved. Types that are imported only for type checkers are not
    checked."""
    try:
        return list(inspect.signature(function, eval_str=True).parameters.values())
    except Exception:  # resolving an annotation can raise anything
        return [_partly_resolved(p) for p in inspect.signature(function).parameters.values()]


def _partly_resolved(parameter: Parameter) -> Parameter:
    annotation = parameter.annotation
    if not isinstance(annotation, str) or annotation.rpartition(".")[2] == "TaskContext":
        return parameter
    return parameter.replace(annotation=_WORDS.get(annotation, Parameter.empty))


def _typed(argument: TaskArgument | None, text: str) -> Any:
    value = value_of(text)
    if argument is None or argument.accepts(value):
        return value
    return text if argument.accepts(text) else argument.shape.read_typed(text)


def _convert(argument: TaskArgument | None, value: Any) -> Any:
    return value if argument is None else argument.shape.convert_value(argument.name, value)


def _property(argument: TaskArgument) -> dict[str, Any]:
    if argument.required:
        return argument.shape.schema
    try:
        json.dumps(argument.default, allow_nan=False)
    except (TypeError, ValueError):
        return argument.shape.schema
    return argument.shape.schema | {"default": argument.default}


def as_json(field: str, value: Any, type_: type[Any]) -> Any:
    """Return the value after a JSON round trip, so that the checked value is the one that the task receives."""
    value = list(value) if isinstance(value, tuple) else value
    if not isinstance(value, type_):
        words = "a list" if type_ is list else "an object"
        raise InvalidInput(field=field, problem=f"must be {words}, not {type(value).__name__}")
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        message = f"must hold JSON values only ({error_text(error)})"
        raise InvalidInput(field=field, problem=message) from error
