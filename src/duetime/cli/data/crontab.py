"""A crontab parser that follows cron: comments, variables, @daily, `%`, and the user column of a system crontab."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from duetime.engine.redaction import is_secret_name

# Splits a command into a program and its arguments, if no shell is needed.

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
"""Characters at the end of a command that are searched, because the pattern takes quadratic time."""
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


class Unusable(Exception):
    """Raised with the reason why a line cannot be scheduled."""


class NeedsShell(Unusable):
    """Raised for a command that only a shell can interpret."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; --shell has one read it, or put it into a script")


class Plain(NamedTuple):
    argv: list[str]
    env: dict[str, str]
    note: str


def plain_command(command: str) -> Plain:
    """Split a command. Raise NeedsShell if only a shell can interpret it, and Unusable if it cannot run at all."""
    rest = command[:-_LONGEST] + _THROWN_AWAY.sub("", command[-_LONGEST:])
    note = "its output is kept instead of thrown away" if rest != command.rstrip() else ""
    needs = shell_syntax(rest)
    if needs is not None:
        raise NeedsShell(f"it needs a shell for {needs}")
    try:
        argv = shlex.split(rest)
    except ValueError:
        raise Unusable("its quotes do not match") from None
    env = {}
    while argv and _ASSIGNMENT.match(argv[0]):
        name, _, env[name] = argv.pop(0).partition("=")
        if is_secret_name(name):
            raise Unusable(f"it holds {name}, and what a job holds can be read; have the command read it from a file")
    if not argv:
        raise Unusable("it only sets variables")
    if argv[0] in _BUILT_IN:
        raise NeedsShell(f"{argv[0]} is a command of the shell")
    return Plain(argv, env, note)


def shell_syntax(command: str) -> str | None:
    """Describe the first syntax in the command that a shell would interpret, or return None."""
    quote, begins = "", True
    characters = iter(command)
    for character in characters:
        if quote == "'":
            quote = "" if character == "'" else quote
        elif character == "\\":
            if next(characters, "") in "$`" and quote:
                return "an escape between quotes"  # which shlex reads differently from a shell
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


FIELDS = 5
_VARIABLE = re.compile(r"""\s*(["']?)([A-Za-z_][A-Za-z0-9_]*)\1\s*=\s*(.*?)\s*""")
_ZONE = "CRON_TZ"
_UNUSED = {
    "MAILTO": "no mail is sent: --deliver-to names a topic that receives failures",
    "MAILFROM": "no mail is sent",
    "CONTENT_TYPE": "no mail is sent",
    "RANDOM_DELAY": "it is not carried over",
    "START_HOURS_RANGE": "it is not carried over",
}


class Entry(NamedTuple):
    """A line that can be scheduled."""

    line: int
    text: str
    expression: str
    zone: str | None
    command: str
    """The text up to the first unescaped %."""
    argv: tuple[str, ...]
    stdin: str
    env: Mapping[str, str]
    note: str = ""


class Remark(NamedTuple):
    """A line that cannot be scheduled or needs a note, with the reason."""

    line: int
    text: str
    reason: str


class Crontab(NamedTuple):
    entries: list[Entry]
    problems: list[Remark]
    notes: list[Remark]


class Way(NamedTuple):
    """Options for reading lines."""

    system: bool = False
    """A user name precedes the command."""
    user: str = ""
    """The user whose lines of a system crontab are imported."""
    shell: bool = False
    """Let a shell run the commands that only a shell can interpret."""


def read_crontab(text: str, way: Way) -> Crontab:
    crontab = Crontab([], [], [])
    env: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        variable = _VARIABLE.fullmatch(line)
        if variable is not None:
            name, value = variable[2], variable[3]
            if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
                value = value[1:-1]
            crontab.notes.extend(_about_variable(number, stripped, name, value, env))
            continue
        try:
            crontab.entries.append(_entry(number, stripped, env, way))
        except Unusable as reason:
            crontab.problems.append(Remark(number, stripped, str(reason)))
    return crontab


def _about_variable(number: int, line: str, name: str, value: str, env: dict[str, str]) -> Iterator[Remark]:
    """Store a variable for the lines that follow, and yield notes about it."""
    if name in _UNUSED:
        yield Remark(number, name, _UNUSED[name])
    elif is_secret_name(name):
        reason = "it is not carried over, since what a job holds can be read; have the command read it from a file"
        yield Remark(number, name, reason)
    else:
        env[name] = value
    if name == "TZ":
        reason = f"it is the zone of the commands; the times are read in {_ZONE}, --tz or the zone of the settings"
        yield Remark(number, line, reason)


def _entry(number: int, line: str, env: Mapping[str, str], way: Way) -> Entry:
    expression, rest = _times(line)
    if way.system:
        user, *after = rest.split(maxsplit=1)
        if user != way.user:
            raise Unusable(f"it is for {user}; --user {user} takes the lines of that user")
        rest = "".join(after)
    # The first unescaped % ends the command; its standard input follows, where each further % starts a line.
    command, *lines = (piece.replace("\\%", "%") for piece in re.split(r"(?<!\\)%", rest))
    command, stdin = command.strip(), "".join(f"{line}\n" for line in lines)
    if not command:
        raise Unusable("there is no command" + ("" if way.system else "; is it a system crontab? Then say --system"))
    own = {name: value for name, value in env.items() if name not in (_ZONE, "SHELL")}
    try:
        plain = plain_command(command)
    except NeedsShell:
        if not way.shell:
            raise
        plain = Plain([env.get("SHELL", "/bin/sh"), "-c", command], {}, "a shell reads it")
    argv, own = tuple(plain.argv), {**own, **plain.env}
    return Entry(number, line, expression, env.get(_ZONE), command, argv, stdin, own, plain.note)


def _times(line: str) -> tuple[str, str]:
    parts = re.split(r"[ \t]+", line, maxsplit=1 if line.startswith("@") else FIELDS)
    if parts[0].lower() == "@reboot":
        raise Unusable("@reboot has no time; start it with the machine, such as by a service")
    number = 1 if line.startswith("@") else FIELDS
    if len(parts) <= number:
        raise Unusable("it must have times (five fields, or a name such as @daily) and then a command")
    expression = " ".join(parts[:number])
    if "~" in expression:
        raise Unusable("~ (a random time) is not known; give one time")
    return expression, parts[number].strip()
