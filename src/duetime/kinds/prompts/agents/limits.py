"""Usage limits of one model turn. Imported late, because `pydantic_ai` is slow to load."""

from __future__ import annotations

from pydantic_ai.usage import RunUsage, UsageLimits

from duetime.engine.usage import Left
from duetime.kinds.prompts.agents.models import LimitExceeded


class TurnLimits(UsageLimits):
    """Limits that are checked only before each request: a response that came is paid for, so it is used even if it cost
    more than was left. The limits are exceeded by at most one response."""

    def __init__(self, turns: int, left: Left) -> None:
        super().__init__(request_limit=None)
        self.turns, self.left = turns, left

    def check_before_request(self, usage: RunUsage) -> None:
        if usage.requests >= self.turns:
            raise LimitExceeded(f"it did not come to an end within {self.turns} turns")
        if self.left.tokens is not None and usage.total_tokens >= self.left.tokens:
            raise LimitExceeded(_used_up(f"{self.left.tokens} tokens"))
        if self.left.dollars is not None and (usage.cost or 0) >= self.left.dollars:
            raise LimitExceeded(_used_up(f"${self.left.dollars:g}"))


def _used_up(rest: str) -> str:
    return f"it used up what the limits of the day left to it ({rest}) before it was done; raise them, or ask for less"
