"""Declares commands, their options and arguments, without Typer: importing it takes a fifth of the time of a command.

`DeclaredCommand.read` reads a command line that leaves nothing to say. `typer_ext` makes Typer's commands of the same
declarations, for everything else: help, completion, and a line with an error in it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Container, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from duetime.engine.value_class import NamedTuple

Function = Callable[..., int | None]
"""It may return an exit code."""


class Exit(Exception):
    """Ends a command with an exit code, after it has printed what there is to say."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Parameter(NamedTuple):
    """An option, or an argument, which has no names."""

    names: tuple[str, ...]
    metavar: str | None
    help: str
    more: Mapping[str, Any]
    """Limits, completion and the like, as Typer calls them."""


def option(usage: str, help: str, **more: Any) -> Any:
    """Declare an option by its names and, unless it is a switch, the placeholder of its value: `--tz ZONE`."""
    *names, last = usage.split()
    if last.startswith("-"):
        return Parameter((*names, last), "N" if {"min", "max"} & more.keys() else None, help, more)
    return Parameter(tuple(names), last, help, more)


def under(heading: str) -> Callable[..., Any]:
    """Return the declaration of options that the help shows under this heading."""
    return functools.partial(option, rich_help_panel=heading)


def argument(metavar: str, help: str, **more: Any) -> Any:
    """Declare an argument by its placeholder in the help."""
    return Parameter((), metavar, help, more)


_reads_only: ContextVar[bool] = ContextVar("reads_only", default=True)


def is_reading() -> bool:
    """Return whether nothing but a command that changes nothing is running; completion by the shell is none."""
    return _reads_only.get()


class DeclaredCommand(NamedTuple):
    function: Function
    help: str | None
    epilog: str | None
    hidden: bool
    reads_if: Mapping[str, Any] | None
    """The values of parameters with which it changes nothing; None if it always may change something."""
    former: Mapping[str, str]
    """Earlier names of options, each with the current one: they keep working, but the help does not show them."""
    required: Container[str]
    """Fields of dataclasses that have a default, and that this command requires nevertheless."""

    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """Return the parameters of the command line. Options that belong together are declared once, as a frozen
        dataclass, and shared by the functions that take it; its fields are parameters here."""
        options = (each for own in _parameters_of(self.function) for each in _options_of(own))
        empty = inspect.Parameter.empty
        return {each.name: each.replace(default=empty) if each.name in self.required else each for each in options}

    def call(self, values: Mapping[str, Any]) -> int | None:
        before = _reads_only.set(self.reads_if is not None and self.reads_if.items() <= values.items())
        own = dict(values)
        for parameter in _parameters_of(self.function):
            bundle: type[Any] = parameter.annotation
            if is_dataclass(bundle):
                own[parameter.name] = bundle(**{each.name: own.pop(each.name) for each in fields(bundle)})
        try:
            return self.function(**own)
        finally:
            _reads_only.reset(before)

    def read(self, line: Sequence[str]) -> dict[str, Any] | None:
        """Return the values of the parameters; None if Typer has to parse the line, for whatever reason."""
        parameters = self.parameters()
        types = {name: get_args(each.annotation) for name, each in parameters.items()}
        if any(get_origin(each.annotation) is not Annotated for each in parameters.values()):
            return None
        options = {flag: name for name, (_, each, *_) in types.items() for flag in each.names}
        places = [name for name, (_, each, *_) in types.items() if not each.names]
        values: dict[str, Any] = {}
        words = iter(line)
        for word in words:
            if word.startswith("-"):
                flag, equals, text = word.partition("=")
                name = options.get(self.former.get(flag, flag), "")
                if name and types[name][0] is bool and not equals:
                    values[name] = True
                    continue
                text = text if equals else next(words, "-")
            else:
                name, text = places[0] if places else "", word
                places = places[1:]
            value = None if not name or name in values or text.startswith("-") else _value(text, *types[name])
            if value is None:
                return None
            values[name] = value
        defaults = {name: each.default for name, each in parameters.items() if name not in values}
        is_incomplete = any(each in (inspect.Parameter.empty, ...) for each in defaults.values())
        return None if is_incomplete else values | defaults


def _bare(type_: Any) -> Any:
    """Return a type without the None that means that nothing was given."""
    others = [each for each in get_args(type_) if each is not NoneType]
    return others[0] if get_origin(type_) is UnionType and len(others) == 1 else type_


def _value(text: str, type_: Any, parameter: Parameter, *_: Any) -> Any:
    """Return the value of a parameter; None if it is not as simple as that."""
    type_ = _bare(type_)
    if type_ is str:
        return text
    low, high = parameter.more.get("min"), parameter.more.get("max")
    try:
        number = type_(text) if type_ in (int, float) else None
    except ValueError:
        return None
    is_within = number is not None and (low is None or number >= low) and (high is None or number <= high)
    return number if is_within else None


class CommandSet:
    """The commands of a module: a single one, or those of a group, which has a summary and examples; `usual` is the
    command of it that is meant where none is named."""

    def __init__(self, summary: str | None = None, examples: str = "", usual: str = "") -> None:
        self.summary, self.examples, self.usual = summary, examples, usual
        self.declared: dict[str, DeclaredCommand] = {}

    def command(
        self,
        name: str | None = None,
        *,
        reads: bool = False,
        reads_if: Mapping[str, Any] | None = None,
        former: Mapping[str, str] | None = None,
        help: str | None = None,
        epilog: str | None = None,
        hidden: bool = False,
        required: Container[str] = (),
    ) -> Callable[[Function], Function]:
        """Declare a command by its function, whose docstring is the help unless there is another. With `reads`, or with
        the values of `reads_if`, it changes nothing, so that it works where the settings of the current folder are
        ignored."""

        def declare(function: Function) -> Function:
            own_name = name or function.__name__.strip("_").replace("_", "-")
            reading = {} if reads else reads_if
            self.declared[own_name] = DeclaredCommand(function, help, epilog, hidden, reading, former or {}, required)
            return function

        return declare

    def find(self, words: Sequence[str]) -> tuple[DeclaredCommand | None, Sequence[str]]:
        """Return the command that a line names, and the rest of the line."""
        if self.summary is None:
            return next(iter(self.declared.values())), words
        return (self.declared.get(words[0]) if words else None), words[1:]


single, group = CommandSet, CommandSet


def with_parameters(function: Function, parameters: Sequence[inspect.Parameter]) -> Function:
    """Show Typer these parameters as those of the function, which gets them by name."""
    named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    vars(function)["__signature__"] = inspect.Signature(named)
    function.__annotations__ = {each.name: each.annotation for each in named}
    return function


@functools.cache
def _parameters_of(function: Function) -> Sequence[inspect.Parameter]:
    return tuple(inspect.signature(function, eval_str=True).parameters.values())


def _options_of(parameter: inspect.Parameter) -> Sequence[inspect.Parameter]:
    """Return the fields of a dataclass as parameters, or else the parameter itself."""
    if not is_dataclass(bundle := parameter.annotation):
        return (parameter,)
    hints = get_type_hints(bundle, include_extras=True)
    return [
        parameter.replace(name=each.name, default=each.default, annotation=hints[each.name]) for each in fields(bundle)
    ]
