"""Help texts of all commands: usage, options under headings, subcommands and examples, wrapped between words."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

WIDEST = 100
"""Columns that help uses at most: longer lines are hard to read."""
_NAMES = 26
"""Columns for names at most; the text of a longer name starts on the next line."""
_TEXT = 30
"""Columns that texts beside names need; where they have fewer, they stand below the names."""
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


def first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s", " ".join(text.split()), maxsplit=1)[0]


def _epilog(text: str) -> tuple[list[str], list[str]]:
    """Return the examples, which are lines that start with `duetime`, and the paragraphs after them."""
    lines = text.split("\n")
    examples = [line for line in lines if line.startswith(_EXAMPLE)]
    rest = "\n".join(line for line in lines if not line.startswith(_EXAMPLE)).strip()
    return examples, rest.split("\n\n") if rest else []


def _usage(command: Any, params: Sequence[Any]) -> str:
    given = [_argument(each) + ("..." if each.nargs != 1 else "") for each in _arguments(params)]
    pieces = [name if each.required else f"[{name}]" for name, each in zip(given, _arguments(params), strict=True)]
    return " ".join([*(["COMMAND"] if hasattr(command, "commands") else []), *pieces, "[OPTIONS]"])


def _arguments(params: Sequence[Any]) -> list[Any]:
    return [each for each in params if _is_argument(each)]


def _is_argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _argument(param: Any) -> str:
    return str(param.metavar or param.name.upper()).strip("[].")


def _parameters(params: Sequence[Any]) -> Iterator[tuple[str, Rows]]:
    if arguments := _arguments(params):
        yield "Arguments", [(_argument(each), _meaning(each)) for each in arguments]
    headings: dict[str, list[tuple[str, str]]] = {}
    for each in params:
        if not _is_argument(each) and not each.hidden:
            headings.setdefault(each.rich_help_panel or "Options", []).append((_spelled(each), _meaning(each)))
    general = headings.pop("Options", [])
    yield from headings.items()
    yield "Other options" if headings else "Options", general


def _spelled(option: Any) -> str:
    names = ", ".join(sorted((*option.opts, *option.secondary_opts), key=lambda name: name.startswith("--")))
    return names if option.is_flag else f"{names} {option.metavar or 'VALUE'}"


def _meaning(param: Any) -> str:
    known = [] if _is_argument(param) or not param.required else ["required"]
    default = param.default
    if default not in (None, False, (), []) and param.show_default:
        known.append(f"default: {default:g}" if isinstance(default, float) else f"default: {default}")
    return " ".join([" ".join((param.help or "").split()), *(f"[{each}]" for each in known)])


def _rows(rows: Rows, longest: int) -> Iterator[str]:
    longest = min(longest, _NAMES)
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
    """Yield the lines of an example, which are continued as a shell requires it and never inside quotes."""
    line = " "
    for word in re.findall(_WORD, example):
        if len(line) + len(word) + 3 > width() and line.strip():
            yield f"{line} \\"
            line = "     "
        line += f" {word}"
    yield line
