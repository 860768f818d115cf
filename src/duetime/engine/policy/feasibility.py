"""Check for options that are valid one by one but together would never let anything run."""

from __future__ import annotations

from duetime.engine.clock import SECOND
from duetime.engine.errors import InvalidInput
from duetime.engine.policy.claim import LEAD
from duetime.engine.policy.options import CatchUp, Policy
from duetime.engine.triggers import Trigger


def check_can_run(policy: Policy, trigger: Trigger) -> None:
    """Raise InvalidInput, naming the field, where no occurrence could ever start.

    Work that runs at most once is never claimed ahead of its instant, so each of its runs starts a moment late:
    where nothing late may run and no lateness is tolerated, nothing runs.
    """
    tolerated = policy.grace + trigger.jitter
    if policy.at_most_once and policy.catch_up == CatchUp.SKIP and tolerated < LEAD:
        raise InvalidInput(
            f"grace: work that runs at most once starts a moment after its time, so with catch_up skip and a grace of"
            f" {policy.grace / SECOND:g} s it would never run; allow a grace of a second or more, or another catch_up",
            field="grace",
        )
