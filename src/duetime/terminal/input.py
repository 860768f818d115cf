"""Input at the terminal: answers to questions, also about what is missing on a command line, and single keys.

If nobody can answer, no answer is assumed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from duetime.engine.errors import InvalidInput
from duetime.service.when import WAYS
from duetime.terminal.output import clean, say

ENDED = "the input ended, so nothing was changed"
_WHEN = 'When, such as "tomorrow 9am" or "every weekday at 8:30"'


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def agreed(question: str, instead: str = "pass --yes") -> bool:
    """Ask a yes-or-no question. Unless the answer is yes, say that nothing was changed."""
    if not sys.stdin.isatty():
        raise InvalidInput(f"{question.strip()} Not a terminal; {instead}")
    if _answer(f"{question} [y/N] ").lower() in ("y", "yes"):
        return True
    print("Nothing was changed.")
    return False


def choose(question: str, options: Mapping[str, str], default: str) -> str:
    """Ask for one of the options, by its number or its name."""
    names = list(options)
    say(f"\n{question}")
    for number, name in enumerate(names, 1):
        say(f"  {number}  {clean(options[name])}")
    while True:
        answer = _answer(f"Number [{names.index(default) + 1}]: ") or default
        if answer in options:
            return answer
        if answer.isdecimal() and 1 <= int(answer) <= len(names):
            return names[int(answer) - 1]
        print(f"  Give a number from 1 to {len(names)}.")


def ask(question: str, default: str, problem: Callable[[str], str | None]) -> str:
    """Ask for a text until `problem` finds nothing wrong with it."""
    proposal = f" [{clean(default)}]" if default else ""
    while True:
        answer = _answer(f"{question}{proposal}: ") or default
        wrong = problem(answer)
        if wrong is None:
            return answer
        say(f"  {clean(wrong)}")


def ask_secret(question: str) -> str:
    """Ask for a secret without echoing it. The answer may be empty."""
    import getpass

    try:
        return getpass.getpass(f"{question}: ").strip()
    except EOFError:
        raise InvalidInput(ENDED) from None


def _answer(words: str) -> str:
    try:
        return input(words).strip()
    except EOFError:
        print()
        raise InvalidInput(ENDED) from None


def answers_for(error: Exception, arguments: Sequence[str]) -> list[str]:
    """Return what to add to the command line because of an error; nothing if that would not help."""
    options = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    if "--json" in options or "--" in arguments or not is_interactive():
        return []
    param = getattr(error, "param", None)
    if type(error).__name__ == "MissingParameter" and param is not None:
        return _of_parameter(param)
    without_time = not options & {f"--{way}" for way in WAYS}
    if isinstance(error, InvalidInput) and error.field == "when" and without_time and "add" in arguments[:2]:
        return ["--when", ask(_WHEN, "", _required)]
    return []


def _of_parameter(param: Any) -> list[str]:
    help_ = " ".join((param.help or "").split()).partition("; - ")[0].rstrip(".")
    is_option = param.param_type_name == "option"
    name = param.opts[0] if is_option else str(param.metavar or param.name).strip("[].")
    answer = ask(f"{name} ({help_})" if help_ else name, "", _required)
    return [f"{name}={answer}"] if is_option else [answer]


def _required(answer: str) -> str | None:
    if answer.startswith("-"):
        return "It cannot start with a hyphen here; give it on the command line after --."
    return None if answer else "It is required; Ctrl-C leaves."


# Single keys, read without Enter. Without a terminal, or one that supports modes, there are none.

UP, DOWN, ENTER, ESCAPE, BACKSPACE = "up", "down", "enter", "escape", "backspace"
_NAMED = {
    "\x1b[A": UP, "\x1bOA": UP, "\x1b[B": DOWN, "\x1bOB": DOWN, "\r": ENTER, "\n": ENTER, "\x1b": ESCAPE,
    "\x7f": BACKSPACE, "\b": BACKSPACE,
}  # fmt: skip
_KEY = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)


class Keys:
    """The keyboard, as a context: on exit the terminal is as it was before. Ctrl-C still interrupts."""

    def __init__(self) -> None:
        self._before: Any = None
        self.descriptor: int | None = None
        """The descriptor to wait for; None if there is no keyboard."""

    def __enter__(self) -> Keys:
        try:
            import termios
            import tty
        except ImportError:  # not on Windows
            return self
        if sys.stdin.isatty():
            self.descriptor = sys.stdin.fileno()
            self._before = termios.tcgetattr(self.descriptor)
            tty.setcbreak(self.descriptor)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self.descriptor is not None:
            import termios

            termios.tcsetattr(self.descriptor, termios.TCSADRAIN, self._before)

    def pressed(self) -> Sequence[str]:
        """Return the keys that were pressed: characters, and the names above. This waits until there is one."""
        if self.descriptor is None:
            return ()
        text = os.read(self.descriptor, 1024).decode(errors="ignore")
        return [_NAMED.get(key, key) for key in _KEY.findall(text)]
