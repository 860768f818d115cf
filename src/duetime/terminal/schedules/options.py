"""Options for the times and the policy of schedules of any kind, from `service.options`, and their conversion for the
engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from duetime.engine.errors import InvalidInput
from duetime.service.options import PolicyOption, TimeOptions, policy_options, time_options
from duetime.terminal.completion import TOPICS, ZONES, one_of
from duetime.terminal.declarations import option, under

Key = Annotated[str | None, option("--key TEXT", "Idempotency key: adding twice with the same key adds once.")]
Name = Annotated[str | None, option("--name NAME", "Name of the schedule.")]

_Bundle = TypeVar("_Bundle")
_when, _policy, _outcome = under("When it runs"), under("Retries and limits"), under("Outcome")
_PLACEHOLDERS = {"choice": "HOW", "count": "N", "duration": "SPAN", "topic": "TOPIC", "address": "URL", "gate": "TASKS"}
_TIMES = {"at": "TIME", "start": "TIME", "end": "TIME"}
_FLAGS = {"timezone": "--tz"}


def flag_of(name: str) -> str:
    """Return the command-line option for an option of times or of the policy."""
    return _FLAGS.get(name) or "--" + name.replace("_", "-")


def _having(options: Mapping[str, Any]) -> Callable[[type[_Bundle]], type[_Bundle]]:
    """Make a class a dataclass whose fields are these options, by name; none of them is required."""

    def add_fields(bundle: type[_Bundle]) -> type[_Bundle]:
        bundle.__annotations__ = dict(options)
        for name in options:
            setattr(bundle, name, None)
        return dataclass(frozen=True)(bundle)

    return add_fields


def _time_option(name: str) -> Any:
    texts = time_options()[name]
    usage = f"{flag_of(name)} {texts.placeholder or _TIMES.get(name, 'SPAN')}"
    return Annotated[str | None, _when(usage, texts.sentence, **(ZONES if name == "timezone" else {}))]


def _policy_option(each: PolicyOption) -> Any:
    declare = _outcome if each.texts.is_outcome else _policy
    flag, rule = flag_of(each.name), each.rule
    help_ = re.sub(r"`(\w+)`", lambda name: flag_of(name[1]), each.texts.sentence)
    if rule.type == "flag":
        return Annotated[bool | None, declare(f"{flag}/--no-{flag[2:]}", help_)]
    more: dict[str, Any] = TOPICS if rule.type == "topic" else {}
    if rule.type == "choice":
        *others, last = rule.choices
        usual = each.texts.usual or each.default
        help_ += f" HOW is {', '.join(others)} or {last}; default: {usual}."
        more = one_of(*rule.choices)
    elif rule.type == "duration":
        help_ = f"{help_[:-1]}, such as {each.texts.example}."
    if each.default is None:
        help_ = f"{help_[:-1]}; none removes it."
    return Annotated[str | None, declare(f"{flag} {each.texts.placeholder or _PLACEHOLDERS[rule.type]}", help_, **more)]


@_having({name: _time_option(name) for name in TimeOptions.__annotations__})
class TriggerOptions:
    """The times of a schedule."""

    def values(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in TimeOptions.__annotations__ if vars(self)[name] is not None}


@dataclass(frozen=True)
class EditCommandOptions(TriggerOptions):
    """Options of an edit. A recurring schedule keeps its rule if only a time is given: its next run is moved."""

    starting: Annotated[
        str | None, _when("--starting TIME", "When the new rule replaces the old one; by default now.")
    ] = None


@_having({each.name: _policy_option(each) for each in policy_options().values()})
class PolicyCommandOptions:
    """The policy of a schedule. `none`, and `--no-` before the name of a switch, restore the default."""

    def values(self) -> dict[str, Any]:
        from duetime.service.when import NONE

        policy: dict[str, Any] = {name: value for name, value in vars(self).items() if value is not None}
        for name, value in policy.items():
            type_ = policy_options()[name].rule.type
            if value is False or (value is not True and value.lower() == NONE):
                policy[name] = None
            elif type_ == "duration" and value == "0":
                policy[name] = 0
            elif type_ == "count":
                policy[name] = _number(value, flag_of(name))
        return policy


def _number(text: str, flag: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"{flag}: {text[:40]!r} is not a whole number") from None
