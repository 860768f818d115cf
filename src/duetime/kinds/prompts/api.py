"""API routes for the agents, and for the answers of agents that come later."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Body
from pydantic import Field
from starlette.responses import JSONResponse, Response

from duetime.engine.model import run_holder
from duetime.engine.policy.checkout import not_yours
from duetime.engine.policy.decision import not_possible
from duetime.kinds.prompts.agent import AgentReply, Spent
from duetime.kinds.prompts.inbox import finish_later
from duetime.kinds.prompts.kind import PromptKind
from duetime.rest.dependencies import Caller, Threads, problems, router
from duetime.rest.requests import Anything, Given, Json, Text
from duetime.rest.responses import AgentsShape
from duetime.rest.runs import Id, answer_run
from duetime.service import answers
from duetime.service.operations.history import ShowRun, show_run
from duetime.service.operations.waiting import await_handover, is_own_run
from duetime.service.services import Call
from duetime.service.vocabulary import RunStatus

routes = router()


@routes.get("/agents", response_model=AgentsShape, tags=["standing"])
def agents(call: Caller) -> Response:
    """List the agents that a prompt can wake."""
    names = call.services.kind(PromptKind).describe_agents(call.caller.owner)
    return JSONResponse({"agents": [dict(each) for each in names]})


class UsageGiven(Given):
    """Counted under the limits of the day."""

    input_tokens: int = Field(default=0, ge=0, le=10**12)
    output_tokens: int = Field(default=0, ge=0, le=10**12)
    dollars: float = Field(default=0.0, ge=0, le=10**6)


class ToolCallGiven(Given):
    name: Annotated[Text, Field(min_length=1, max_length=200)]
    arguments: Json | None = None


class FinishGiven(Given):
    """The answer that a webhook agent could have given immediately. Long texts are truncated."""

    text: Text | None = Field(default=None, description="Text for people.")
    outcome: Anything = Field(default=None, description="The same for programs.")
    error: Annotated[Text, Field(min_length=1)] | None = Field(default=None, description="Why it failed, if it did.")
    denied: list[Annotated[Text, Field(min_length=1, max_length=200)]] = Field(
        default=[], max_length=100, fail_fast=True, description="Tools that it was denied; if there are any, it failed."
    )
    tool_calls: list[ToolCallGiven] = Field(
        default=[], max_length=100, fail_fast=True, description="The most recent ones, if there were more."
    )
    usage: UsageGiven | None = Field(default=None, description="What it used.")

    def reply(self) -> AgentReply:
        return AgentReply(
            text=self.text or "",
            outcome=self.outcome,
            tool_calls=[call.model_dump(exclude_none=True) for call in self.tool_calls],
            denied=self.denied,
            spent=Spent() if self.usage is None else Spent(**self.usage.model_dump()),
            error=self.error,
        )


@routes.post(
    "/runs/{id}/finish",
    response_model=answers.Run,
    responses=problems(404, 409, 415),
    tags=["runs"],
)
async def finish(call: Caller, threads: Threads, id: Id, body: Annotated[FinishGiven, Body()]) -> Response:
    """Finish a prompt that an agent answers later: with the token of the run, for that run only; or with a token of its
    owner, also for prompts taken with that token."""
    run_in_thread = partial(threads.run, call.caller.owner)
    await await_handover(partial(run_in_thread, partial(is_own_run, call, id)))
    return await run_in_thread(partial(_finished, call, id, body))


def _finished(call: Call, id: int, body: FinishGiven) -> Response:
    run = show_run(call, ShowRun(run=id)).value
    if run.status != RunStatus.WAITING:
        raise not_possible("finished", run.status)
    caller, handed = call.caller, run_holder(run.id, run.fence)
    if caller.depth and caller.holder != handed:  # a run's own token, which has a depth, is for that run alone
        raise not_yours(run.id)
    holder = caller._replace(holder=handed) if run.holder == handed else caller
    return answer_run(call, finish_later(call.services, holder, run, body.reply()))
