"""Inbox prompts that an agent's run takes: the run's own token finishes them, and the end of the run releases them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from duetime.engine.errors import DuetimeError
from duetime.engine.kind import Caller
from duetime.engine.model import Run, run_holder
from duetime.engine.outcome import Outcome
from duetime.engine.policy.checkout import LEFT, hold_of, not_yours, was_left
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import RunQuery
from duetime.kinds.prompts.access import life_of
from duetime.kinds.prompts.agent import NO_REPLY_YET, Agent, AgentReply, AgentRequest, DuePrompt, answers_later
from duetime.kinds.prompts.framing import data_of, stored_by
from duetime.kinds.prompts.kind import KIND, PromptKind, allowance_of, is_for, prompt_of
from duetime.kinds.prompts.runner import ending_of
from duetime.service.services import Services
from duetime.settings.sections import INBOX

log = logging.getLogger("duetime.agents")

_MOST_DUE = 20
"""Maximum number of waiting prompts that one beat takes."""

SchedulerOf = Callable[[], Scheduler]
"""Returns the scheduler. It holds the kinds, and these hold the agents, so it is created after them."""


class RunCheckout:
    """Holds waiting prompts on behalf of the request's own run."""

    def __init__(self, scheduler_of: SchedulerOf, name: str) -> None:
        """`name`: the agent that gives the answers."""
        self._scheduler_of, self._name = scheduler_of, name

    def take(self, request: AgentRequest) -> Sequence[DuePrompt]:
        """Take the oldest prompts, so that nobody else does them while the request lasts. If the previous holder left
        the first one unfinished, take only that one."""
        due: list[DuePrompt] = []
        lease = life_of(request.patience)
        while len(due) < _MOST_DUE:
            # At least as long as this run, however short the prompt's own timeout, so that nobody else does it
            # meanwhile.
            accepts = partial(is_for, INBOX)
            try:
                held = self._scheduler_of().take(_caller(request), KIND, INBOX, lease, least=lease, accepts=accepts)
            except DuetimeError:
                break
            if held is None:
                break
            run, definition, _ = held
            data, depth = data_of(self._scheduler_of().store, definition, run)
            due.append(
                DuePrompt(
                    definition.id,
                    run.id,
                    definition.owner,
                    prompt_of(definition) + data,
                    run.due,
                    definition.written,
                    depth,
                    allowance_of(definition),
                    hold_of(run),
                    stored_by(definition),
                )
            )
            if len(due) == 1 and was_left(run):
                break
        return due

    def finish(self, request: AgentRequest, due: DuePrompt, reply: AgentReply) -> None:
        """Finish a prompt with the answer to the whole request, unless its agent has finished it already."""
        scheduler, caller = self._scheduler_of(), _caller(request)
        try:
            scheduler.finish(caller, due.run, ending_of(reply, self._name), KIND, hold=due.hold)
        except DuetimeError as error:
            run = scheduler.run(caller, due.run)
            if run is None or hold_of(run) != due.hold:  # with the same hold, the agent itself finished it
                log.warning("the answer of run %s to the prompt of run %s is lost: %s", request.run, due.run, error)

    def left(self, request: AgentRequest) -> int:
        """Return how many prompts are still held."""
        caller = _caller(request)
        query = RunQuery(kind=KIND, holder=caller.holder, oldest_first=True, count_to=0)
        try:
            return len(self._scheduler_of().runs(caller, query).items)
        except DuetimeError:
            return 0

    def give_back(self, request: AgentRequest, reason: str) -> None:
        """Give back all prompts that are still held. If one that is given back as LEFT is the next to be taken, it is
        taken alone."""
        try:
            self._scheduler_of().give_back(_caller(request), KIND, reason)
        except DuetimeError as error:
            log.warning("what run %s took waits again only when its hold ends: %s", request.run, error)


class ReleasingAgent:
    """Wraps an agent to release what its run still holds at the end, because nobody could finish it once the token has
    expired."""

    def __init__(self, inner: Agent, checkout: RunCheckout) -> None:
        self._inner, self._checkout = inner, checkout

    def wake(self, request: AgentRequest) -> AgentReply | Outcome:
        answer: AgentReply | Outcome = NO_REPLY_YET
        try:
            answer = self._inner.wake(request)
        finally:
            if not answers_later(answer):
                self._checkout.give_back(request, LEFT)
        return answer

    def missing(self) -> str | None:
        return self._inner.missing()

    def close(self) -> None:
        self._inner.close()


def _caller(request: AgentRequest) -> Caller:
    """Return the run as a caller; to the scheduler, this is the same caller as one that presents the run's token."""
    return Caller(request.owner, holder=run_holder(request.run, request.fence))


def finish_later(services: Services, caller: Caller, run: Run, reply: AgentReply) -> Run:
    """Finish a run with the reply that its agent gave later, on behalf of the holder of the run, and record the usage,
    as if the reply had come at once."""
    scheduler = services.scheduler
    schedule = scheduler.schedule_of(caller, run)
    if schedule is None:  # deleted meanwhile, together with the run
        raise not_yours(run.id)
    definition, kind = schedule.definition, services.kind(PromptKind)
    name = kind.agent_of(definition)
    ended = scheduler.finish(caller, run.id, ending_of(reply, name), KIND)
    kind.waking.count(definition, name, reply.spent)
    return ended
