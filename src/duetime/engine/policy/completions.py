"""Completions that need no decision. Nearly every run ends this way, so only a few columns are written for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from duetime.engine.model import RunId
from duetime.engine.outcome import Completed
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.options import MOST_LONG, CatchUp, Overlap, policy_for_ending
from duetime.engine.policy.record import Finished
from duetime.engine.policy.rows import Completion
from duetime.engine.text_cache import text_cache


@text_cache(4096, MOST_LONG)
def ends_plainly(policy_text: str) -> bool:
    """Return whether the end of a run under this policy sends no message, has no observer, tells no gate and usually
    starts no queued run."""
    policy = policy_for_ending(policy_text)
    queues = policy.overlap != Overlap.SKIP or policy.catch_up == CatchUp.ALL
    is_told = policy.deliver_to is not None or policy.callbacks or policy.is_observed
    return not (is_told or queues or policy.only_if)


def split_completions(
    finished: Sequence[Finished], known: Mapping[RunId, Claim]
) -> tuple[list[Completion], list[Finished]]:
    """Return the completions that need no decision, usually all of them, and the rest. While writing, a store verifies
    that each run is still held by its worker and that its schedule has nothing queued; otherwise every completion is
    decided."""
    if not all(map(known.__contains__, [item.run for item in finished])):
        return [], list(finished)
    plain, rest = [], []
    schedules = [known[item.run].definition.id for item in finished]
    outcomes = Counter(schedules)
    for item, schedule in zip(finished, schedules, strict=True):
        run, fence, outcome, started, at = item
        if (
            type(outcome) is Completed
            and started is not None
            and outcomes[schedule] == 1  # several outcomes of one schedule depend on each other in their order
            and ends_plainly(known[run].definition.policy)
        ):
            plain.append(Completion(run, fence, schedule, started, at, outcome.result))
        else:
            rest.append(item)
    return plain, rest
