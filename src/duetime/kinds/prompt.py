"""Prompts: instructions for an agent. A due prompt waits, durable, until a connected agent takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duetime.core.clock import Instant
from duetime.core.errors import InvalidInput
from duetime.core.kind import Caller, Prepared, Work
from duetime.core.outcome import Outcome, Waiting

INBOX = "inbox"


class PromptKind:
    name = "prompt"

    def public_id(self, now: Instant) -> str:
        return "{id}"

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        unknown = set(payload) - {"prompt"}
        if unknown:
            raise InvalidInput(f"{min(unknown)}: a prompt has no such part", field=min(unknown))
        prompt = payload.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            raise InvalidInput("prompt: must be a text that is not empty", field="prompt")
        return Prepared({"prompt": prompt}, INBOX)

    def execute(self, work: Work) -> Outcome:
        return Waiting()

    def close(self) -> None:
        """Nothing is open: what waits is in the store."""
