"""The options of a policy in the words of the form, for the page of a schedule."""

from __future__ import annotations

from typing import Any

from duetime.engine.clock import MINUTE, SECOND
from duetime.engine.value_class import NamedTuple
from duetime.service.options import PolicyOption, policy_options
from duetime.service.presenters import View
from duetime.service.text import span


class PolicyFact(NamedTuple):
    label: str
    value: str
    unusual: bool
    """Whether it differs from the default of its kind."""


def duration(seconds: float) -> str:
    """Format seconds that somebody chose: `5 s`, `0.25 s`, `1 h 30 min`."""
    microseconds = round(seconds * SECOND)
    return f"{seconds:g} s" if SECOND // 1000 <= microseconds < MINUTE else span(microseconds)


def policy_facts(shape: View, usual: View) -> list[PolicyFact]:
    options = {option.argument: option for option in policy_options().values()}
    return [
        PolicyFact(options[name].fact.label, option_words(options[name], value), value != usual.get(name))
        for name, value in shape.items()
    ]


def option_words(option: PolicyOption, value: Any) -> str:
    """Return how the value of an option reads; durations are in seconds."""
    _, template, words = option.fact
    value = ", ".join(value) if option.rule.type == "tags" else value
    if (text := words.get(str(value))) is not None:
        return text
    if option.rule.type == "duration":
        return template.format(duration(value))
    return template.format(f"{value:,}" if option.rule.type == "count" else value)
