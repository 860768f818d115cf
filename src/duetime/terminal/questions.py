"""Questions to the user at the terminal. Without a user, no answer is assumed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from duetime.engine.errors import InvalidInput
from duetime.terminal.output import clean, say

ENDED = "the input ended, so nothing was changed"


def somebody_there() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def agreed(question: str, instead: str = "pass --yes") -> bool:
    if not sys.stdin.isatty():
        raise InvalidInput(f"{question.strip()} Not a terminal; {instead}")
    return _answer(f"{question} [y/N] ").lower() in ("y", "yes")


def choose(question: str, options: Mapping[str, str], default: str) -> str:
    """Ask for one of the options, by its number or its name."""
    names = list(options)
    say(f"\n{question}")
    for number, name in enumerate(names, 1):
        say(f"  {number}  {clean(options[name])}")
    while True:
        given = _answer(f"Number [{names.index(default) + 1}]: ") or default
        if given in options:
            return given
        if given.isdecimal() and 1 <= int(given) <= len(names):
            return names[int(given) - 1]
        print(f"  Give a number from 1 to {len(names)}.")


def ask(question: str, default: str, problem: Callable[[str], str | None]) -> str:
    """Ask for a text until `problem` finds nothing wrong with it."""
    shown = f" [{clean(default)}]" if default else ""
    while True:
        given = _answer(f"{question}{shown}: ") or default
        wrong = problem(given)
        if wrong is None:
            return given
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
