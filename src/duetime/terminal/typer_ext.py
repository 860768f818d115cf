"""Extensions of Typer: help, suggestions, values that are parsed without pydantic, options that are declared together.

Typer would import pydantic (a third of the start-up time) to convert every option, given or not. `Plain` is put where
Typer caches its converter; a Typer version that caches it elsewhere falls back to pydantic, and is only slower.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from duetime.terminal.help import Rows, first_sentence, help_text

_NAMES = {int: "a whole number", float: "a number"}


class Plain:
    def __init__(self, type_: type, low: float | None, high: float | None) -> None:
        self._type, self._low, self._high = type_, low, high

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if param.multiple:
            return tuple(value or ())
        if value is None or isinstance(value, self._type):
            return value
        try:
            number = self._type(value)
        except ValueError:
            raise typer.BadParameter(f"{value!r} is not {_NAMES[self._type]}.", ctx=ctx, param=param) from None
        if (self._low is not None and not number >= self._low) or (self._high is not None and not number <= self._high):
            ends = (("at least", self._low), ("at most", self._high))
            allowed = " and ".join(f"{name} {end:g}" for name, end in ends if end is not None)
            raise typer.BadParameter(f"must be {allowed}, not {value}.", ctx=ctx, param=param)
        return number


def _plainly(param: Any) -> Any:
    descriptor = getattr(param, "type_descriptor", None)
    annotation = getattr(descriptor, "annotation", None)
    if descriptor is not None and annotation in (str, int, float, bool, list[str]) and param.nargs == 1:
        info = descriptor.parameter_info
        param._runtime_param = Plain(str if annotation == list[str] else annotation, info.min, info.max)
    return param


class PlainCommand(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return [_plainly(param) for param in super().get_params(ctx)]

    def get_help(self, ctx: Any) -> str:
        return help_text(self, ctx, ())


_MEANT = {
    "create": "add", "new": "add", "rm": "delete", "remove": "delete", "ls": "list", "get": "show", "update": "edit",
    "pause": "change", "resume": "change", "cancel": "change",
    "web": "open", "dashboard": "open", "start": "serve", "logs": "tail", "ps": "top", "check": "doctor",
}  # fmt: skip
"""Commands by the names that they have in other programs."""


class PlainGroup(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return [_plainly(param) for param in super().get_params(ctx)]

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the subcommands, without earlier names that are only kept working."""
        return [name for name in super().list_commands(ctx) if not self.commands[name].hidden]

    def sections(self, ctx: Any) -> Sequence[tuple[str, Rows]]:
        """Return the subcommands with their summaries, by heading."""
        shown = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        return [("Commands", [(name, first_sentence(each.help or "")) for name, each in shown])]

    def get_help(self, ctx: Any) -> str:
        return help_text(self, ctx, self.sections(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            near = self.suggestions(ctx, args[0])
            if near and str(getattr(error, "message", "")).startswith("No such command"):
                named = " or ".join(f"`{ctx.command_path} {each}`" for each in near)
                vars(error)["message"] = f"No such command {args[0]!r}. Did you mean {named}?"
            raise

    def suggestions(self, ctx: Any, given: str) -> list[str]:
        """Return the commands that somebody may have meant."""
        names = self.list_commands(ctx)
        known = {name: name for name in names} | {word: name for word, name in _MEANT.items() if name in names}
        begin = [name for name in names if len(given) > 1 and (name.startswith(given) or given.startswith(name))]
        close = [known[word] for word in difflib.get_close_matches(given, known, n=2, cutoff=0.7)]
        return list(dict.fromkeys([*begin, *close]))[:3]


def single() -> typer.Typer:
    """Return a Typer app for one command. The help is always plain, even if Rich could format it."""
    return typer.Typer(add_completion=False, rich_markup_mode=None)


def group(summary: str, examples: str = "") -> typer.Typer:
    """Return a Typer app for several commands. The examples are command lines."""
    return typer.Typer(
        cls=PlainGroup, no_args_is_help=True, add_completion=False, rich_markup_mode=None, help=summary, epilog=examples
    )


def option(usage: str, help: str, **limits: Any) -> Any:
    """Declare an option by its names and, unless it is a switch, what stands for its value: `--tz ZONE`."""
    *names, last = usage.split()
    if last.startswith("-"):
        metavar = "N" if {"min", "max"} & limits.keys() else None
        return typer.Option(*names, last, metavar=metavar, help=help, **limits)
    return typer.Option(*names, metavar=last, help=help, **limits)


def under(heading: str) -> Callable[..., Any]:
    """Return how options are declared that the help shows under this heading."""
    return functools.partial(option, rich_help_panel=heading)


def argument(metavar: str, help: str, **limits: Any) -> Any:
    """Declare an argument by what stands for it in the help."""
    return typer.Argument(metavar=metavar, help=help, **limits)


# Options that belong together are declared once, as a frozen dataclass, and shared by the commands that take them.


def bundled(function: Callable[..., None]) -> Callable[..., None]:
    """Show Typer the fields of each dataclass parameter as options of the command, which receives the dataclass."""
    bundles: dict[str, type[Any]] = {}
    shown: list[inspect.Parameter] = []
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        annotation = parameter.annotation
        if isinstance(annotation, type) and is_dataclass(annotation):
            bundles[parameter.name] = annotation
            shown += _options(annotation)
        else:
            shown.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(function)
    def call(**given: Any) -> None:
        made = {name: of(**{each.name: given.pop(each.name) for each in fields(of)}) for name, of in bundles.items()}
        function(**given, **made)

    vars(call)["__signature__"] = inspect.Signature(shown)
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return call


@functools.cache
def _options(bundle: type[Any]) -> tuple[inspect.Parameter, ...]:
    hints = get_type_hints(bundle, include_extras=True)
    return tuple(
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in fields(bundle)
    )
