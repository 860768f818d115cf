"""Ask for what is missing on a command line. Where nobody could answer, nothing is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duetime.engine.errors import InvalidInput
from duetime.service.when import WAYS
from duetime.terminal.questions import ask, somebody_there

_WHEN = 'When, such as "tomorrow 9am" or "every weekday at 8:30"'


def answers_for(error: Exception, arguments: Sequence[str]) -> list[str]:
    """Return what to add to the command line because of an error; nothing if that would not help."""
    options = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    if "--json" in options or "--" in arguments or not somebody_there():
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
    given = ask(f"{name} ({help_})" if help_ else name, "", _required)
    return [f"{name}={given}"] if is_option else [given]


def _required(given: str) -> str | None:
    if given.startswith("-"):
        return "It cannot start with a hyphen here; give it on the command line after --."
    return None if given else "It is required; Ctrl-C leaves."
