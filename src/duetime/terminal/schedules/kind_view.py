"""How the command line names each kind of schedule and displays its schedules."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from duetime.engine.model import Definition
from duetime.settings.sections import INBOX
from duetime.terminal import output

Payload = Mapping[str, Any]
Facts = Sequence[tuple[str, object]]


class Words(NamedTuple):
    kind: str
    """Name in the engine."""
    room: str
    """Name of the command group, as it is typed."""
    noun: str
    plural: str
    headings: Sequence[str]
    cells: Callable[[Definition, Payload], Sequence[object]]
    """Return the cells under these headings in a list."""
    facts: Callable[[Definition, Payload], Facts]
    """Return what to show of a single schedule."""


_HEADLINE = 60


def _one_line(text: str) -> str:
    return " ".join(text[: 20 * _HEADLINE].split())


def headline(text: str) -> str:
    """Return the name that lists show for a text without a name of its own."""
    line = _one_line(text)
    return line if len(line) <= _HEADLINE else f"{line[:_HEADLINE]}..."


def _listed(payload: Payload, *names: str) -> Facts:
    """Return the fields that are not empty, texts and integers unchanged, others as JSON."""
    given = [(name, payload[name]) for name in names if payload.get(name) not in (None, [], {}, "")]
    return [
        (name, value if isinstance(value, str | int) else json.dumps(value, ensure_ascii=False))
        for name, value in given
    ]


def _job_facts(_: Definition, payload: Payload) -> Facts:
    return [("task", payload.get("task", "")), *_listed(payload, "args", "kwargs")]


def _prompt_cells(definition: Definition, payload: Payload) -> Sequence[object]:
    woken = "reminder" if payload.get("remind") else definition.subject
    return (_one_line(payload.get("prompt", definition.name)), woken)


def _prompt_facts(definition: Definition, payload: Payload) -> Facts:
    inbox = "nobody: it waits in the inbox until it is taken"
    agent = inbox if definition.subject == INBOX else definition.subject
    woken = "a person, by a notification" if payload.get("remind") else agent
    limits = _listed(payload, "max_runs_per_day", "max_tokens_per_day", "max_dollars_per_day")
    return [
        ("text", output.block(payload.get("prompt", ""))),
        ("wakes", woken),
        *((name.removeprefix("max_").replace("_", " "), f"at most {value}") for name, value in limits),
    ]


def _notification_cells(definition: Definition, payload: Payload) -> Sequence[object]:
    return (definition.subject, _one_line(payload.get("message", definition.name)))


def _notification_facts(_: Definition, payload: Payload) -> Facts:
    more = ("priority", "tags", "markdown", "click", "actions", "icon", "attach", "filename", "label")
    return [
        ("topic", payload.get("topic", "")),
        *_listed(payload, "title"),
        ("message", output.block(payload.get("message", ""))),
        *_listed(payload, *more),
    ]


JOB = Words("job", "job", "job", "jobs", ("NAME",), lambda definition, _: (definition.name,), _job_facts)
PROMPT = Words("prompt", "prompt", "prompt", "prompts", ("PROMPT", "AGENT"), _prompt_cells, _prompt_facts)
NOTIFICATION = Words(
    "notification",
    "notify",
    "notification",
    "notifications",
    ("TOPIC", "MESSAGE"),
    _notification_cells,
    _notification_facts,
)
