"""How the commands show prompts. Showing one needs none of the commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from duetime.settings.sections import INBOX
from duetime.terminal import output
from duetime.terminal.schedules.kind_view import Facts, KindView, Payload, filled, one_line

if TYPE_CHECKING:
    from duetime.service.vocabulary import Definition


def _cells(definition: Definition, payload: Payload) -> Sequence[object]:
    woken = "reminder" if payload.get("remind") else definition.subject
    return (one_line(payload.get("prompt", definition.name)), woken)


def _facts(definition: Definition, payload: Payload) -> Facts:
    inbox = "nobody: it waits in the inbox until it is taken"
    agent = inbox if definition.subject == INBOX else definition.subject
    woken = "a person, by a notification" if payload.get("remind") else agent
    limits = filled(payload, "max_runs_per_day", "max_tokens_per_day", "max_dollars_per_day")
    return [
        ("text", output.block(payload.get("prompt", ""))),
        ("wakes", woken),
        *((name.removeprefix("max_").replace("_", " "), f"at most {value}") for name, value in limits),
    ]


PROMPT = KindView("prompt", "prompt", "prompts", ("PROMPT", "AGENT"), _cells, _facts)
