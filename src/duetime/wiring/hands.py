"""What waits in the inbox, in the hands of an agent's run: its own token finishes it, and with the run it is let go."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from duetime.core.kind import Caller
from duetime.core.outcome import Outcome
from duetime.core.policy.ending import Held
from duetime.core.policy.taking import LEFT, hold_of, was_left
from duetime.core.result import Err
from duetime.core.scheduler import Scheduler
from duetime.core.store import RunQuery
from duetime.core.waking import BROKE_OFF, INBOX, Agent, Errand, Reply, goes_on, run_holder
from duetime.kinds.prompt import PromptKind
from duetime.kinds.waking import ending_of
from duetime.wiring.access import life_of

if TYPE_CHECKING:
    from duetime.agents.heartbeat import DuePrompt

log = logging.getLogger("duetime.agents")

_MOST_DUE = 20
"""Waiting prompts that one beat takes on."""

SchedulerOf = Callable[[], Scheduler]
"""The scheduler holds the kinds and these hold the agents, so that it is there only after them."""


class RunHands:
    def __init__(self, scheduler_of: SchedulerOf, name: str) -> None:
        """`name` of the agent whose answers these are."""
        self._scheduler_of, self._name = scheduler_of, name

    def take(self, errand: Errand) -> Sequence[DuePrompt]:
        """The oldest. One that was left alone by whoever had it before is all that is taken."""
        due: list[DuePrompt] = []
        lease = life_of(errand.patience)
        while len(due) < _MOST_DUE:
            # As long as the run at least: however short a prompt's own time, nobody else is to do it meanwhile.
            taken = self._scheduler_of().take(_caller(errand), PromptKind.name, INBOX, lease, least=lease)
            if isinstance(taken, Err) or taken.value is None:
                break
            due.append(_due(taken.value))
            if len(due) == 1 and was_left(taken.value.run):
                break
        return due

    def finish(self, errand: Errand, due: DuePrompt, reply: Reply) -> None:
        scheduler, caller = self._scheduler_of(), _caller(errand)
        ended = scheduler.finish(caller, due.run, ending_of(reply, self._name), PromptKind.name, hold=due.hold)
        if isinstance(ended, Err) and not self._is_finished(caller, due):
            log.warning("the answer of run %s to the prompt of run %s is lost: %s", errand.run, due.run, ended.message)

    def _is_finished(self, caller: Caller, due: DuePrompt) -> bool:
        """By the agent itself: whoever else had it would have got another hold."""
        run = self._scheduler_of().run(caller, due.run)
        return run is not None and hold_of(run) == due.hold

    def left(self, errand: Errand) -> int:
        caller = _caller(errand)
        query = RunQuery(kind=PromptKind.name, holder=caller.holder, oldest_first=True, count_to=0)
        found = self._scheduler_of().runs(caller, query)
        return 0 if isinstance(found, Err) else len(found.value.items)

    def give_back(self, errand: Errand, reason: str) -> None:
        given = self._scheduler_of().give_back(_caller(errand), PromptKind.name, reason)
        if isinstance(given, Err):
            log.warning("what run %s took waits again only when its hold ends: %s", errand.run, given.message)


class LetsGo:
    """An agent whose run, once it is over, has nothing in its hands: its token is dead, and nobody could finish it."""

    def __init__(self, inner: Agent, hands: RunHands) -> None:
        self._inner, self._hands = inner, hands

    def wake(self, errand: Errand) -> Reply | Outcome:
        answer: Reply | Outcome = BROKE_OFF
        try:
            answer = self._inner.wake(errand)
        finally:
            if not goes_on(answer):
                self._hands.give_back(errand, LEFT)
        return answer

    def close(self) -> None:
        self._inner.close()


def _caller(errand: Errand) -> Caller:
    """Whoever brings the token of this run is the same to the scheduler."""
    return Caller(errand.owner, holder=run_holder(errand.run, errand.fence))


def _due(held: Held) -> DuePrompt:
    from duetime.agents.heartbeat import DuePrompt

    run, definition, _ = held
    return DuePrompt(
        definition.id,
        run.id,
        definition.owner,
        PromptKind.text_of(definition),
        run.due,
        definition.written,
        definition.depth,
        hold_of(run),
    )
