"""The options of a policy in the words of the form, for the page of a schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from duetime.engine.clock import MINUTE, SECOND
from duetime.service.presenters import View
from duetime.service.text import compact, plural, span


class PolicyFact(NamedTuple):
    label: str
    value: str
    unusual: bool
    """Whether it differs from the default of its kind."""


def duration(seconds: float) -> str:
    """Format seconds that somebody chose: `5 s`, `0.25 s`, `1 h 30 min`."""
    microseconds = round(seconds * SECOND)
    return f"{seconds:g} s" if SECOND // 1000 <= microseconds < MINUTE else span(microseconds)


def _word(words: Mapping[str, str]) -> Callable[[Any], str]:
    return lambda value: words.get(str(value), str(value))


_FACTS: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "catch_up": (
        "after downtime",
        _word({"once": "run once", "all": "run everything that was missed", "skip": "skip what was missed"}),
    ),
    "catch_up_limit": ("runs after downtime", lambda value: f"at most {value:,}"),
    "overlap": (
        "if the previous run is still active",
        _word({"skip": "skip it", "queue": "queue it", "allow": "run both"}),
    ),
    "queue_limit": ("queued runs", lambda value: f"at most {value:,}"),
    "max_attempts": ("attempts", lambda value: "1, never retried" if value == 1 else f"at most {value:,}"),
    "backoff_seconds": ("first retry", lambda value: f"after {duration(value)}, doubled each time"),
    "backoff_limit_seconds": ("between retries", lambda value: f"at most {duration(value)}"),
    "timeout_seconds": ("timeout", lambda value: "none" if value is None else f"after {duration(value)}"),
    "at_most_once": (
        "at most once",
        lambda value: "yes, never retried, even after a crash" if value else "no, run again after a crash",
    ),
    "max_runs": ("ends", lambda value: "never" if value is None else f"after {plural(value, 'run')}"),
    "grace_seconds": ("counts as missed", lambda value: f"when {duration(value)} late" if value else "when late"),
    "pause_after": ("pauses itself", lambda value: f"after {plural(value, 'failure')} in a row" if value else "never"),
    "deliver_to": ("result sent to", lambda value: "nobody" if value is None else str(value)),
    "notify_on": (
        "result sent",
        _word({"always": "always", "failure": "when it failed", "success": "when it succeeded"}),
    ),
    "untaken": (
        "if no agent takes it",
        _word({"replace": "replace it by the next occurrence", "keep": "keep it waiting", "expire": "let it expire"}),
    ),
    "expire_after_seconds": ("expires", lambda value: "never" if value is None else f"after {duration(value)}"),
}
"""For each option, its label and how its value reads."""


def policy_facts(shape: View, usual: View) -> list[PolicyFact]:
    return [_fact(name, value, unusual=value != usual.get(name)) for name, value in shape.items()]


def _fact(name: str, value: Any, *, unusual: bool) -> PolicyFact:
    if name not in _FACTS:
        return PolicyFact(name.replace("_", " "), "\u2013" if value is None else compact(value), unusual)
    label, read = _FACTS[name]
    return PolicyFact(label, read(value), unusual)
