"""Prompts: instructions for an agent. A due prompt waits, durable, until a connected agent takes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from duetime.core.clock import Instant
from duetime.core.errors import InvalidInput
from duetime.core.kind import Caller, Prepared, Work
from duetime.core.outcome import Outcome, Waiting

INBOX = "inbox"
_PARTS = ("prompt", "agent")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


class PromptKind:
    name = "prompt"
    defaults: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, agents: Sequence[str] = (INBOX,)) -> None:
        """The first agent is meant where a prompt names none."""
        self._agents = tuple(agents)

    def public_id(self, now: Instant, trigger_type: str) -> str:
        return "{id}"

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        for name in payload:
            if name not in _PARTS:
                raise InvalidInput(f"{name}: a prompt has no such part; it has {', '.join(_PARTS)}", field=name)
        agent = self._agent(payload.get("agent"))
        prepared = {"prompt": _prompt(payload.get("prompt"))}
        if payload.get("agent") is not None:
            prepared["agent"] = agent
        return Prepared(prepared, agent)

    def _agent(self, given: object) -> str:
        if given is None:
            return self._agents[0]
        if isinstance(given, str) and given in self._agents:
            return given
        shown = given[:100] if isinstance(given, str) else type(given).__name__
        raise InvalidInput(f"agent: there is no {shown!r}; there is {', '.join(self._agents)}", field="agent")

    def execute(self, work: Work) -> Outcome:
        return Waiting()

    def close(self) -> None:
        """Nothing is open: what waits is in the store."""


def _prompt(given: object) -> str:
    """How long it may be is the scheduler's limit for any payload."""
    if not isinstance(given, str) or not given.strip():
        raise InvalidInput("prompt: must be a text that is not empty", field="prompt")
    if _NO_TEXT.search(given):
        raise InvalidInput("prompt: holds characters that are no text (NUL or lone surrogates)", field="prompt")
    return given

