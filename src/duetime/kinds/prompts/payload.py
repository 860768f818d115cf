"""The payload of a prompt: its fields, with their checks and the options that the command has for them."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from duetime.engine.encoding import is_text
from duetime.engine.errors import InvalidInput
from duetime.engine.value_class import dataclass
from duetime.kinds.prompts.allowance import EXAMPLE
from duetime.service.payload_fields import About, rule

BUDGET_OF = "budget_of"
"""Payload field with the task whose daily limits a prompt shares, because a run of that task scheduled it."""
LIMITS = ("max_runs_per_day", "max_tokens_per_day", "max_dollars_per_day")


def _text(field: str, value: Any) -> str:
    """Check the text. The scheduler limits its length, as for any payload."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(field=field, problem="must be a non-empty text")
    if not is_text(value):
        raise InvalidInput(field=field, problem="contains invalid characters (NUL or lone surrogates)")
    return value


def _anything(_: str, value: Any) -> Any:
    """Accept any value, because only the kind knows its agents."""
    return value


_flag = rule(lambda value: isinstance(value, bool), "must be true or false")
_positive = rule(lambda value: type(value) is int and 0 < value < 2**40, "must be a whole number above 0, such as 5")
_amount = rule(lambda value: type(value) in (int, float) and 0 < value < 2**40, "must be a number above 0, such as 5")
_agent = partial(About, heading="Agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPayload:
    """Instructions for an agent, or a text for a person."""

    prompt: Annotated[
        str,
        About("Instructions for the agent.", argument="TEXT", option="--text TEXT", is_text_input=True, check=_text),
    ]
    agent: Annotated[
        str | None,
        _agent("Agent to wake, as named in the settings, or inbox.", option="--agent NAME", check=_anything),
    ] = None
    remind: Annotated[
        bool | None,
        _agent(
            "Send the text to a person instead of waking an agent, to --deliver-to or the default topic.",
            brief="No agent: the text goes to deliver_to.",
            option="--remind",
            check=_flag,
        ),
    ] = None
    allow: Annotated[
        dict[str, Any] | None,
        _agent(
            f"Limit what the agent may use, such as {EXAMPLE}.",
            brief="What its agent may use, such as {tools: [github.get_*], web: false}.",
            check=_anything,
        ),
    ] = None
    max_runs_per_day: Annotated[
        int | None,
        _agent(
            "Maximum runs a day; further ones wait for the next day.",
            brief="Runs allowed a day.",
            minimum=1,
            check=_positive,
        ),
    ] = None
    max_tokens_per_day: Annotated[
        int | None, _agent("Maximum tokens a day.", brief="Tokens allowed a day.", minimum=1, check=_positive)
    ] = None
    max_dollars_per_day: Annotated[
        float | None, _agent("Maximum cost a day in dollars.", brief="Dollars allowed a day.", check=_amount)
    ] = None
    budget_of: Annotated[int | None, About(option="", minimum=1, maximum=2**53)] = None
