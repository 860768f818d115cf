"""The built-in agent: a model of the owner's choice with Duetime's tools, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING

from duetime.engine.clock import SECOND, Clock
from duetime.engine.errors import InvalidInput
from duetime.engine.outcome import Outcome, Retry
from duetime.kinds.prompts.agent import AgentRequest, Reply
from duetime.kinds.prompts.agents.environment import mcp_toolset
from duetime.kinds.prompts.agents.model_turn import TextDelta, ToolCall, Turn, take_turn, wake_instructions
from duetime.kinds.prompts.agents.models import Failure, failure_of, masked, model_named

if TYPE_CHECKING:
    from pydantic_ai.models import Model

STOP_CHECK_SECONDS = 0.1
"""Seconds between two checks of the stop signal."""
GRACE = 5.0
"""Seconds for the work to end once it was cancelled."""
TURNS = 40
"""Model responses in one run: a model that goes round in circles costs money."""


class BuiltinAgent:
    def __init__(self, model: str, clock: Clock, zone: str, *, instructions: str = "", turns: int = TURNS) -> None:
        """`model` is maker:name; a missing one is reported when a prompt is due, so everything else still works."""
        self._model, self._clock, self._zone = model, clock, zone
        self._instructions, self._turns = instructions, turns

    def wake(self, request: AgentRequest) -> Reply | Outcome:
        try:
            model = model_named(self._model)
        except InvalidInput as error:
            return Reply(error=error.message, permanent=True)
        turn = Turn()
        # The pool's thread has no event loop; one that lives only as long as the run leaves nothing behind.
        failure = asyncio.run(_with_timeout(self._work(request, model, turn), request))
        return _reply(turn, failure, request)

    def close(self) -> None:
        """Do nothing, because nothing outlives a run."""

    async def _work(self, request: AgentRequest, model: Model, turn: Turn) -> Failure | None:
        instructions = wake_instructions(
            request.owner, request.zone or self._zone, self._clock.now(), self._instructions
        )
        tools = mcp_toolset(request.access)
        try:
            await tools.__aenter__()
        except Exception as error:
            return Failure(f"its tools cannot be reached: {failure_of(error, self._model).message}")
        try:
            await take_turn(
                turn,
                model,
                instructions,
                tools,
                request.text,
                most=self._turns,
                left=request.left,
                on_event=lambda news: _report(request, news),
            )
        except Exception as error:
            return failure_of(error, self._model)
        finally:
            await tools.__aexit__(None, None, None)
        return None


def _report(request: AgentRequest, news: TextDelta | ToolCall) -> None:
    if isinstance(news, ToolCall):
        request.report(f"called {news.name}")


async def _with_timeout(work: Coroutine[None, None, Failure | None], request: AgentRequest) -> Failure | None:
    """Cancel the work when the run is to stop or times out, and wait for it to end."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + request.patience
    task = loop.create_task(work)
    while not request.stop.is_set() and (left := deadline - loop.time()) > 0:
        await asyncio.wait({task}, timeout=min(STOP_CHECK_SECONDS, left))
        if task.done():
            return task.result()
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE)
    if request.stop.is_set():
        return Failure(f"it was stopped ({request.stop.reason})")
    return Failure(f"it was not done after {request.patience:g} s")


def _reply(turn: Turn, failure: Failure | None, request: AgentRequest) -> Reply | Outcome:
    done = Reply(text=turn.text, tool_calls=turn.view(), earlier_calls=turn.earlier_calls, spent=turn.spent)
    if failure is None:
        return done
    error = masked(failure.message, request.access.token)
    if failure.after and not turn.spent.tokens and not turn.calls:
        return Retry(error, round(failure.after * SECOND))
    return replace(done, error=error, permanent=failure.permanent)
