"""From the text of a command to a program and its arguments, where no shell is needed to understand it."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from duetime.core.secret_names import is_secret_name

_SPECIAL = {
    "|": "a pipe",
    "&": "& (several commands, or the background)",
    ";": "several commands",
    "<": "a redirection",
    ">": "a redirection",
    "(": "a group of commands",
    ")": "a group of commands",
    "$": "a variable or a substitution",
    "`": "a substitution",
    "*": "a pattern for file names",
    "?": "a pattern for file names",
    "[": "a pattern for file names",
}
_AT_START = {"~": "a home folder", "#": "a comment"}
_BUILT_IN = frozenset({
    ".", ":", "alias", "break", "case", "cd", "continue", "eval", "exec", "exit", "export", "for", "function", "if",
    "read", "return", "set", "shift", "source", "test", "trap", "type", "ulimit", "umask", "unset", "until", "wait",
    "while",
})  # fmt: skip
_THROWN_AWAY = re.compile(r"(\s+(([12]|&)?>>?\s*/dev/null|2>&1))+\s*$")
_LONGEST = 1000
"""Characters of a command whose end is looked at: the pattern takes quadratic time."""
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


class Unusable(Exception):
    """Why a line cannot be scheduled."""


class NeedsShell(Unusable):
    """Only a shell understands it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; --shell has one read it, or put it into a script")


class Plain(NamedTuple):
    argv: list[str]
    env: dict[str, str]
    note: str


def plain_command(command: str) -> Plain:
    """Raises NeedsShell for what only a shell understands, and Unusable for what nobody does."""
    kept = command[:-_LONGEST] + _THROWN_AWAY.sub("", command[-_LONGEST:])
    note = "its output is kept instead of thrown away" if kept != command.rstrip() else ""
    needs = shell_syntax(kept)
    if needs is not None:
        raise NeedsShell(f"it needs a shell for {needs}")
    try:
        words = shlex.split(kept)
    except ValueError:
        raise Unusable("its quotes do not match") from None
    env = {}
    while words and _ASSIGNMENT.match(words[0]):
        name, _, env[name] = words.pop(0).partition("=")
        if is_secret_name(name):
            raise Unusable(f"it holds {name}, and what a job holds can be read; have the command read it from a file")
    if not words:
        raise Unusable("it only sets variables")
    if words[0] in _BUILT_IN:
        raise NeedsShell(f"{words[0]} is a command of the shell")
    return Plain(words, env, note)


def shell_syntax(command: str) -> str | None:
    """What in it a shell would act upon, outside of quotes; None where nothing is."""
    quote, begins = "", True
    characters = iter(command)
    for character in characters:
        if quote == "'":
            quote = "" if character == "'" else quote
        elif character == "\\":
            if next(characters, "") in "$`" and quote:
                return "an escape between quotes"  # which is read otherwise where no shell reads it
        elif quote == '"':
            if character in "$`":
                return _SPECIAL[character]
            quote = "" if character == '"' else quote
        elif character in "'\"":
            quote = character
        elif character in _SPECIAL or (begins and character in _AT_START):
            return _SPECIAL.get(character) or _AT_START[character]
        begins = not quote and character.isspace()
    return None
