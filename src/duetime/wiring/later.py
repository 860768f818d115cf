"""Answers that come later than the prompt's agent was woken: kept and counted as if they had come at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from duetime.core.kind import Caller, Kind
from duetime.core.model import Run
from duetime.core.policy.taking import not_yours
from duetime.core.result import Ok, Result
from duetime.core.scheduler import Scheduler
from duetime.core.waking import Reply
from duetime.kinds.prompt import PromptKind
from duetime.kinds.waking import ending_of


def answered_later(scheduler: Scheduler, kinds: Mapping[str, Kind]) -> Callable[[Caller, Run, Reply], Result[Run]]:
    prompts = kinds[PromptKind.name]
    assert isinstance(prompts, PromptKind)

    def finish(caller: Caller, run: Run, reply: Reply) -> Result[Run]:
        schedule = scheduler.schedule_of(caller, run)
        if schedule is None:  # deleted meanwhile, and the run with it
            return not_yours(run.id)
        definition = schedule.definition
        ended = scheduler.finish(caller, run.id, ending_of(reply, definition.subject), PromptKind.name)
        if isinstance(ended, Ok):
            prompts.count(definition, reply.spent)
        return ended

    return finish
