"""Extensions of Typer, by subclasses alone: declared commands, help, suggestions, and values that are parsed without
pydantic."""

from __future__ import annotations

import difflib
import functools
import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple, get_args, get_origin

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from duetime.service.text import first_sentence
from duetime.terminal.declarations import CommandSet, DeclaredCommand, Function, with_parameters

_NAMES = {int: "a whole number", float: "a number"}


class PlainValues(NamedTuple):
    """Converts the values of a parameter. Typer would import pydantic for it, a third of the start-up time."""

    descriptor: Any

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        type_, info = self.descriptor.annotation, self.descriptor.parameter_info
        low, high = info.min, info.max
        if type_ == list[str]:
            return tuple(value or ())
        if value is None or isinstance(value, type_):
            return value
        try:
            number = type_(value)
        except ValueError:
            raise typer.BadParameter(f"{value!r} is not {_NAMES[type_]}.", ctx=ctx, param=param) from None
        if (low is not None and not number >= low) or (high is not None and not number <= high):
            ends = (("at least", low), ("at most", high))
            allowed = " and ".join(f"{name} {end:g}" for name, end in ends if end is not None)
            raise typer.BadParameter(f"must be {allowed}, not {value}.", ctx=ctx, param=param)
        return number


def _plain(params: list[Any]) -> list[Any]:
    """Return the parameters, those of the usual types with plain values; Typer converts those of the others."""
    for param in params:
        descriptor = getattr(param, "type_descriptor", None)
        if getattr(descriptor, "annotation", None) in (str, int, float, bool, list[str]):
            param.get_runtime_param = functools.partial(PlainValues, descriptor)
    return params


class TypedCommand(TyperCommand):
    """A declared command, as Typer calls it."""

    declared: ClassVar[DeclaredCommand | None] = None

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words, former = (word.partition("=") for word in args), self.declared.former if self.declared else {}
        return super().parse_args(ctx, [former.get(name, name) + equals + value for name, equals, value in words])

    def get_help(self, ctx: Any) -> str:
        return help_text(self, ctx, ())


MEANT = {
    "create": "add", "new": "add", "rm": "delete", "remove": "delete", "ls": "list", "get": "show", "update": "edit",
    "web": "open", "dashboard": "open", "start": "serve", "logs": "tail", "ps": "top", "check": "doctor",
}  # fmt: skip
"""Commands by the names that they have in other programs."""


class PlainGroup(TyperGroup):
    usual: ClassVar[str] = ""
    """The command that is meant where none is named, if there is one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_named = bool(args) and (not args[0].startswith("-") or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, [self.usual, *args] if self.usual and not is_named else args)

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the subcommands, without earlier names that are only kept working."""
        return [name for name in super().list_commands(ctx) if not self.commands[name].hidden]

    def sections(self, ctx: Any) -> Sequence[tuple[str, Rows]]:
        """Return the subcommands with their summaries, by heading."""
        commands = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        return [("Commands", [(name, first_sentence(each.help or "")) for name, each in commands])]

    def get_help(self, ctx: Any) -> str:
        return help_text(self, ctx, self.sections(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            near = self.suggestions(ctx, args[0])
            if not near or not str(getattr(error, "message", "")).startswith("No such command"):
                raise
            named = " or ".join(f"`{ctx.command_path} {each}`" for each in near)
            ctx.fail(f"No such command {args[0]!r}. Did you mean {named}?")

    def suggestions(self, ctx: Any, attempt: str) -> list[str]:
        """Return the commands that the user may have meant."""
        names = list(dict.fromkeys([*self.list_commands(ctx), *self.commands]))
        known = {name: name for name in names} | {word: name for word, name in MEANT.items() if name in names}
        begin = [name for name in names if len(attempt) > 1 and (name.startswith(attempt) or attempt.startswith(name))]
        close = [known[word] for word in difflib.get_close_matches(attempt, known, n=2, cutoff=0.7)]
        return list(dict.fromkeys([*begin, *close]))[:3]


def typer_app(commands: CommandSet) -> typer.Typer:
    """Return declared commands as a Typer app. The help is always plain, even if Rich could format it."""
    plain: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None}
    if commands.summary is not None:
        cls = type("UsualGroup", (PlainGroup,), {"usual": commands.usual})
        plain |= {"cls": cls, "no_args_is_help": True, "help": commands.summary, "epilog": commands.examples}
    app = typer.Typer(**plain)
    for name, each in commands.declared.items():
        cls = type("Command", (TypedCommand,), {"declared": each})
        app.command(name, cls=cls, help=each.help, epilog=each.epilog, hidden=each.hidden)(_typed(each))
    return app


def _typed(command: DeclaredCommand) -> Function:
    @functools.wraps(command.function)
    def call(**values: Any) -> int | None:
        return command.call(values)

    return with_parameters(
        call, [each.replace(annotation=_typer_annotation(each.annotation)) for each in command.parameters().values()]
    )


def _typer_annotation(annotation: Any) -> Any:
    if get_origin(annotation) is not Annotated:
        return annotation
    type_, each = get_args(annotation)[:2]
    declare = functools.partial(typer.Option, *each.names) if each.names else typer.Argument
    return Annotated[type_, declare(metavar=each.metavar, help=each.help, **each.more)]


# Help texts of all commands: usage, options under headings, subcommands and examples, wrapped between words.

WIDEST = 100
"""Maximum number of columns that the help uses, because longer lines are hard to read."""
_NAME_COLUMNS = 26
"""Maximum number of columns for names; the text of a longer name starts on the next line."""
_TEXT = 30
"""Minimum number of columns for texts beside names; with fewer, the texts are below the names."""
_EXAMPLE = "duetime "
_WORD = r"""(?:[^\s"']|"[^"]*"|'[^']*')+"""

Rows = Sequence[tuple[str, str]]


def width() -> int:
    return max(30, min(shutil.get_terminal_size().columns, WIDEST) - 1)


def help_text(command: Any, context: Any, sections: Sequence[tuple[str, Rows]]) -> str:
    """Return the help of a command. `sections` are its subcommands, by heading."""
    params = command.get_params(context)
    lines = _wrapped(f"Usage: {context.command_path} {_usage(command, params)}", "", "    ")
    for paragraph in (command.help or "").split("\n\n"):
        lines += ["", *_wrapped(paragraph, "  ", "  ")]
    examples, remarks = _epilog(command.epilog or "")
    aligned = max((len(name) for _, rows in sections for name, _ in rows), default=0)
    for heading, rows in sections:
        lines += ["", f"{heading}:", *_rows(rows, aligned)]
    for heading, rows in _parameters(params):
        lines += ["", f"{heading}:", *_rows(rows, max(len(name) for name, _ in rows))]
    if examples:
        lines += ["", "Examples:"]
        lines += [line for example in examples for line in _command_line(example)]
    for paragraph in remarks:
        lines += ["", *_wrapped(paragraph, "", "")]
    return "\n".join(lines)


def _epilog(text: str) -> tuple[list[str], list[str]]:
    """Return the examples, which are lines that start with `duetime`, and the paragraphs after them."""
    lines = text.split("\n")
    examples = [line for line in lines if line.startswith(_EXAMPLE)]
    rest = "\n".join(line for line in lines if not line.startswith(_EXAMPLE)).strip()
    return examples, rest.split("\n\n") if rest else []


def _usage(command: Any, params: Sequence[Any]) -> str:
    named = [(each, _argument(each) + ("..." if each.nargs != 1 else "")) for each in _arguments(params)]
    pieces = [name if each.required else f"[{name}]" for each, name in named]
    return " ".join([*(["COMMAND"] if hasattr(command, "commands") else []), *pieces, "[OPTIONS]"])


def _arguments(params: Sequence[Any]) -> list[Any]:
    return [each for each in params if isinstance(each, TyperArgument)]


def _argument(param: Any) -> str:
    return str(param.metavar or param.name.upper()).strip("[].")


def _parameters(params: Sequence[Any]) -> Iterator[tuple[str, Rows]]:
    if arguments := _arguments(params):
        yield "Arguments", [(_argument(each), _meaning(each)) for each in arguments]
    headings: dict[str, list[tuple[str, str]]] = {}
    for each in params:
        if not isinstance(each, TyperArgument) and not each.hidden:
            headings.setdefault(each.rich_help_panel or "Options", []).append((_spelled(each), _meaning(each)))
    general = headings.pop("Options", [])
    yield from headings.items()
    yield "Other options" if headings else "Options", general


def _spelled(option: Any) -> str:
    names = ", ".join(sorted((*option.opts, *option.secondary_opts), key=lambda name: name.startswith("--")))
    return names if option.is_flag else f"{names} {option.metavar or 'VALUE'}"


def _meaning(param: Any) -> str:
    known = [] if isinstance(param, TyperArgument) or not param.required else ["required"]
    default = param.default
    if default not in (None, False, (), []) and param.show_default:
        known.append(f"default: {default:g}" if isinstance(default, float) else f"default: {default}")
    return " ".join([" ".join((param.help or "").split()), *(f"[{each}]" for each in known)])


def _rows(rows: Rows, longest: int) -> Iterator[str]:
    longest = min(longest, _NAME_COLUMNS)
    narrow = width() - longest - 4 < _TEXT
    indent = " " * (6 if narrow else longest + 4)
    for name, text in rows:
        below = narrow or len(name) > longest
        if below:
            yield f"  {name}"
        yield from _wrapped(text, indent if below else f"  {name:<{longest}}  ", indent)


def _wrapped(text: str, first: str, other: str) -> list[str]:
    return textwrap.wrap(
        text, width(), initial_indent=first, subsequent_indent=other, break_long_words=False, break_on_hyphens=False
    )


def _command_line(example: str) -> Iterator[str]:
    """Yield the lines of an example, continued as a shell requires and never broken inside quotes."""
    line = " "
    for word in re.findall(_WORD, example):
        if len(line) + len(word) + 3 > width() and line.strip():
            yield f"{line} \\"
            line = "     "
        line += f" {word}"
    yield line
