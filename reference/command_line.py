"""The page of the command line, from its own tree of commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from duetime.cli.root import EPILOG, command
from duetime.service.errors import ERRORS, FAILED
from reference.markdown import code, page, table

SHARED = 4
"""An option that this many commands have, with the same text, is described once."""
_FAILURES = """\
With `--json` a failure is one document on standard output, `{"error": {"code": …, "message": …}}`; otherwise it is one
line on standard error."""


class Command(NamedTuple):
    path: str
    help: str
    arguments: Sequence[tuple[str, str]]
    options: Sequence[tuple[str, str]]


def command_line_page() -> str:
    root: Any = command()
    commands = list(_commands(root, root.make_context("duetime", [], resilient_parsing=True)))
    known = Counter(option for each in commands for option in each.options)
    shared = [option for option, times in known.items() if times >= SHARED]
    parts = [
        str(root.help),
        EPILOG,
        _FAILURES,
        table(["exit code", "codes of errors"], _exits()),
        "## Options that many commands have",
        table(["option", "meaning"], ((code(name), said) for name, said in shared)),
        "## Commands",
    ]
    for each in commands:
        parts += _described(each, shared)
    return page("Command line", *parts)


def _commands(group: Any, context: Any) -> Iterator[Command]:
    """Yield the commands that do something, without the groups that contain them."""
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        inner = type(context)(found, info_name=name, parent=context)
        if hasattr(found, "commands"):
            yield from _commands(found, inner)
        else:
            yield _read(found, inner)


def _read(found: Any, context: Any) -> Command:
    arguments = [each for each in found.params if each.param_type_name == "argument"]
    options = [each for each in found.params if each.param_type_name == "option"]
    return Command(
        context.command_path,
        " ".join(found.help.split()),
        [(str(each.metavar or each.name.upper()), str(each.help or "")) for each in arguments],
        [(_spelled(each), _meaning(each)) for each in options],
    )


def _spelled(option: Any) -> str:
    value = "" if option.is_flag else f" {option.metavar or option.name.upper()}"
    return ", ".join([*option.opts, *option.secondary_opts]) + value


def _meaning(option: Any) -> str:
    shown = None if option.is_flag or option.default in (None, (), []) else option.default
    required = " Required." if option.required else ""
    return f"{option.help}{required}" + ("" if shown is None else f" Default: {code(shown)}.")


def _described(each: Command, shared: Iterable[tuple[str, str]]) -> list[str]:
    usage = " ".join([each.path, *(name for name, _ in each.arguments)])
    own = [option for option in each.options if option not in shared]
    also = [name.split(" ")[0].rstrip(",") for name, _ in each.options if (name, _) not in own]
    return [
        f"### {usage}",
        each.help,
        table(["", "meaning"], ((code(name), said) for name, said in (*each.arguments, *own))),
        f"Also: {', '.join(code(name) for name in also)}." if also else "",
    ]


def _exits() -> Iterator[tuple[str, str]]:
    for status in sorted({shown.exit for shown in ERRORS.values()} - {FAILED}):
        yield str(status), ", ".join(code(name) for name, shown in ERRORS.items() if shown.exit == status)
