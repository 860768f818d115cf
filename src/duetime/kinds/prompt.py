"""Prompts: instructions for an agent. When one is due, its agent is woken; without one it waits until it is taken."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from duetime.core.clock import MINUTE, Instant
from duetime.core.errors import InvalidInput
from duetime.core.kind import Caller, Prepared, Work
from duetime.core.ledger import MICRO, Used
from duetime.core.model import Definition
from duetime.core.outcome import Completed, Outcome, Returned, Waiting
from duetime.core.results import is_text
from duetime.kinds.waking import Waking

INBOX = "inbox"
REMINDERS = "reminders"
"""The topic of reminders that name none."""
UNKNOWN_WAIT = 1 * MINUTE
"""Until a prompt is tried again whose agent this worker does not know: another one may."""

_LIMITS = ("max_runs_per_day", "max_tokens_per_day", "max_dollars_per_day")
_PARTS = ("prompt", "agent", "remind", *_LIMITS)


class PromptKind:
    name = "prompt"
    defaults: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, waking: Waking | None = None, default: str = INBOX, inboxes: Sequence[str] = ()) -> None:
        """For the agent `inbox`, and others that are inboxes, a due prompt waits until a connected agent takes it."""
        self._waking, self._default = waking, default
        self._inboxes = (*inboxes, INBOX)

    @property
    def agents(self) -> list[str]:
        """The one that is meant where a prompt names none stands first."""
        named = [] if self._waking is None else sorted(self._waking.wakers)
        return list(dict.fromkeys([self._default, *named, *self._inboxes]))

    def public_id(self, now: Instant, trigger_type: str) -> str:
        return "{id}"

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        for name in payload:
            if name not in _PARTS:
                raise InvalidInput(f"{name}: a prompt has no such part; it has {', '.join(_PARTS)}", field=name)
        given = {name: value for name, value in payload.items() if value is not None}
        prepared: dict[str, Any] = {"prompt": _prompt(given.get("prompt"))}
        prepared |= {name: _limit(name, given[name]) for name in _LIMITS if name in given}
        if _flag("remind", given.get("remind", False)):
            return Prepared({**prepared, "remind": True}, REMINDERS, {"deliver_to": REMINDERS})
        agent = self._agent(given.get("agent"))
        return Prepared({**prepared, "agent": agent} if "agent" in given else prepared, agent)

    def _agent(self, given: object) -> str:
        if given is None:
            return self._default
        if isinstance(given, str) and given in self.agents:
            return given
        shown = given[:100] if isinstance(given, str) else type(given).__name__
        raise InvalidInput(f"agent: there is no {shown!r}; there is {', '.join(self.agents)}", field="agent")

    def execute(self, work: Work) -> Outcome:
        payload, agent = work.payload, work.claim.definition.subject
        if payload.get("remind"):
            told = {"title": "Reminder", "text": payload["prompt"]}
            return Completed(json.dumps(told, ensure_ascii=False))
        if agent in self._inboxes:
            return Waiting()
        if self._waking is None or agent not in self._waking.wakers:
            return Returned(f"this worker knows no agent {agent}; its settings name none", UNKNOWN_WAIT)
        return self._waking.wake(work, agent, payload["prompt"], _limits(payload))

    @staticmethod
    def text_of(definition: Definition) -> str:
        return str(json.loads(definition.payload).get("prompt", ""))

    def close(self) -> None:
        if self._waking is not None:
            self._waking.close()


def _limits(payload: Mapping[str, Any]) -> Used:
    runs, tokens, dollars = (payload.get(name, 0) for name in _LIMITS)
    return Used(runs, tokens, round(dollars * MICRO))


def _limit(name: str, value: object) -> float:
    whole = name != "max_dollars_per_day"
    fits = type(value) is int or (not whole and type(value) is float)
    if not isinstance(value, int | float) or not fits or not 0 < value < 2**40:
        raise InvalidInput(f"{name}: must be a {'whole ' if whole else ''}number above 0, such as 5", field=name)
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{name}: must be true or false", field=name)
    return value


def _prompt(given: object) -> str:
    """How long it may be is the scheduler's limit for any payload."""
    if not isinstance(given, str) or not given.strip():
        raise InvalidInput("prompt: must be a text that is not empty", field="prompt")
    if not is_text(given):
        raise InvalidInput("prompt: holds characters that are no text (NUL or lone surrogates)", field="prompt")
    return given
