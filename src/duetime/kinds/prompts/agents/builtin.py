"""The built-in agents: a model of the owner's choice with Duetime's tools, woken for a prompt or in a conversation."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from duetime.engine.clock import SECOND, Clock
from duetime.engine.encoding import clean_text, encode_whole
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.engine.kind import LOCAL
from duetime.engine.outcome import Outcome, Retry
from duetime.kinds.prompts.agent import Access, AgentReply, AgentRequest
from duetime.kinds.prompts.agents.environment import TOOLS, mcp_toolset
from duetime.kinds.prompts.agents.gateway import ToolGateway
from duetime.kinds.prompts.agents.gateway_tools import ToolSources, gateway_for
from duetime.kinds.prompts.agents.model_turn import (
    CONVERSING,
    SOME_WAIT,
    WOKEN,
    OnEvent,
    ToolCall,
    Turn,
    system_prompt,
    take_turn,
)
from duetime.kinds.prompts.agents.models import ModelFailure, failure_of, masked, missing_for, model_named
from duetime.kinds.prompts.agents.user_servers import ServerUnreachable
from duetime.kinds.prompts.allowance import Allowance

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model
    from pydantic_ai.toolsets import AbstractToolset


STOP_CHECK_SECONDS = 0.1
"""Seconds between two checks of the stop signal."""
GRACE = 5.0
"""Seconds for the work to end once it was cancelled."""
TURNS = 40
"""Maximum number of model responses in one run, because a model that goes round in circles costs money."""


class BuiltinAgent:
    def __init__(
        self,
        model: str,
        clock: Clock,
        zone: str,
        *,
        instructions: str = "",
        turns: int = TURNS,
        allowance: Allowance | None = None,
        sources: ToolSources | None = None,
    ) -> None:
        """`model` is maker:name; a missing one is reported when a prompt is due, so that everything else still
        works."""
        self._model, self._clock, self._zone = model, clock, zone
        self._instructions, self._turns = instructions, turns
        self._allowance, self._sources = allowance or Allowance(), sources or ToolSources()

    def wake(self, request: AgentRequest) -> AgentReply | Outcome:
        try:
            model = model_named(self._model)
        except InvalidInput as error:
            return AgentReply(error=error.message, permanent=True)
        turn = Turn()
        allowance = self._allowance if request.allowance is None else request.allowance
        gateway = gateway_for(request, allowance, self._sources, os.environ, web=True)
        # The pool's thread has no event loop; one that exists only for the run leaves nothing behind.
        failure = asyncio.run(_with_timeout(self._work(request, model, turn, gateway), request))
        reply = _reply(turn, failure, request)
        if gateway is not None and isinstance(reply, AgentReply):
            reply = replace(reply, denied=gateway.denied)
        return reply

    def missing(self) -> str | None:
        return missing_for(self._model)

    def close(self) -> None:
        """Do nothing, because nothing outlives a run."""

    async def _work(
        self, request: AgentRequest, model: Model, turn: Turn, gateway: ToolGateway | None
    ) -> ModelFailure | None:
        zone, now = request.zone or self._zone, self._clock.now()
        instructions = system_prompt(request.owner, zone, now, WOKEN, self._instructions)

        def report(news: str | ToolCall) -> None:
            if isinstance(news, ToolCall):
                request.report(f"called {news.name}")

        async with AsyncExitStack() as opened:
            try:
                tools = await _open_tools(opened, request.access, gateway)
            except ServerUnreachable as error:
                return ModelFailure(error.message)
            except Exception as error:
                return ModelFailure(f"its tools cannot be reached: {failure_of(error, self._model).message}")
            try:
                await take_turn(
                    turn, model, instructions, tools, request.text, most=self._turns, left=request.left, on_event=report
                )
            except Exception as error:
                return failure_of(error, self._model)
        return None


async def _open_tools(stack: AsyncExitStack, access: Access, gateway: ToolGateway | None) -> list[AbstractToolset[Any]]:
    """Connect to Duetime's tools, and to the gateway's if there is one; the latter get a prefix, because their names
    are arbitrary."""
    own = mcp_toolset(access)
    await stack.enter_async_context(own)
    if gateway is None:
        return [own]
    await stack.enter_async_context(gateway)
    further = mcp_toolset(gateway.access, TOOLS)
    await stack.enter_async_context(further)
    return [own, further.prefixed(TOOLS)]


async def _with_timeout(work: Coroutine[None, None, ModelFailure | None], request: AgentRequest) -> ModelFailure | None:
    """Cancel the work when the run is to stop or times out, and wait for the work to end."""
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
        return ModelFailure(f"it was stopped ({request.stop.reason})")
    return ModelFailure(f"it was not done after {request.patience:g} s")


def _reply(turn: Turn, failure: ModelFailure | None, request: AgentRequest) -> AgentReply | Outcome:
    done = AgentReply(text=turn.text, tool_calls=turn.view(), earlier_calls=turn.earlier_calls, spent=turn.spent)
    if failure is None:
        return done
    error = masked(failure.message, request.access.token)
    if failure.after and not turn.spent.tokens and not turn.calls:
        return Retry(error, round(failure.after * SECOND))
    return replace(done, error=error, permanent=failure.permanent)


MOST_RECENT = 200
"""Number of past messages that a model is shown; all of them stay on disk."""
WAITING = "prompts://due"


class ToolsUnreachable(DuetimeError):
    """The tools cannot be reached; `duetime doctor` looks for the reason."""

    code = "tools_unreachable"
    permanent = False


class WaitingPrompt(NamedTuple):
    """A due prompt that no agent has taken."""

    task: int
    prompt: str
    due: str
    author: str = ""


class ChatAnswer(NamedTuple):
    """The result of one question. An error does not undo what was done before it."""

    turn: Turn
    error: str | None = None
    stopped: bool = False


class Conversation:
    """Runs in a thread of its own, so that the caller can be interrupted while it answers."""

    def __init__(self, model: str, access: Access, clock: Clock, zone: str) -> None:
        """Raises InvalidInput if no model can be used."""
        self._name, self._model = model, model_named(model)
        self._access, self._clock, self._zone = access, clock, zone
        self._history: list[ModelMessage] = []
        self.waiting: list[WaitingPrompt] = []
        self._open = ExitStack()
        self._portal: BlockingPortal | None = None
        self._tools: MCPToolset[Any] | None = None

    def __enter__(self) -> Self:
        from anyio.from_thread import start_blocking_portal

        with ExitStack() as opening:
            portal = opening.enter_context(start_blocking_portal())
            tools = portal.call(mcp_toolset, self._access)
            try:
                opening.enter_context(portal.wrap_async_context_manager(tools))
                self.waiting = portal.call(_read_waiting, tools)
            except Exception as error:
                reason = failure_of(error, self._name).message
                raise ToolsUnreachable(
                    f"the tools cannot be reached ({masked(reason, self._access.token)}); try: duetime doctor"
                ) from error
            self._portal, self._tools = portal, tools
            self._open = opening.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.__exit__(kind, error, at)  # an interruption ends whatever is still in progress

    def resume(self, messages: Sequence[ModelMessage]) -> None:
        """Continue with earlier messages, as `ChatAnswer.turn.messages` gave them."""
        self._history += messages

    def ask(self, text: str, on_event: OnEvent) -> ChatAnswer:
        """Ask a question. `on_event` is called in another thread. Ctrl-C stops the answer but keeps what was done."""
        assert self._portal is not None
        turn = Turn()
        answering = self._portal.start_task_soon(self._answer, turn, clean_text(text), on_event)
        try:
            error, stopped = answering.result(), False
        except KeyboardInterrupt:
            answering.cancel()
            concurrent.futures.wait([answering])
            error, stopped = None, True
        turn.messages = messages_from_json(messages_to_json(turn.messages))
        self._history += turn.messages
        return ChatAnswer(turn, error, stopped)

    async def _answer(self, turn: Turn, text: str, on_event: OnEvent) -> str | None:
        assert self._tools is not None
        past = recent_messages(self._history)
        try:
            self.waiting = await _read_waiting(self._tools)  # a prompt that was waiting a moment ago may be done by now
            waiting = SOME_WAIT.format(count=len(self.waiting)) if self.waiting else ""
            instructions = system_prompt(LOCAL, self._zone, self._clock.now(), CONVERSING, waiting)
            await take_turn(
                turn, self._model, instructions, [self._tools], text, history=past, most=TURNS, on_event=on_event
            )
        except Exception as error:
            return masked(failure_of(error, self._name).message, self._access.token)
        return None


async def _read_waiting(tools: MCPToolset[Any]) -> list[WaitingPrompt]:
    """Return the waiting prompts; none if the prompt tools are switched off."""
    if WAITING not in {str(resource.uri) for resource in await tools.list_resources()}:
        return []
    read = await tools.read_resource(WAITING)
    assert isinstance(read, str)
    rows = json.loads(read)["due"]
    return [WaitingPrompt(row["id"], row["prompt"], row["due"], row.get("author", "")) for row in rows]


def recent_messages(history: Sequence[ModelMessage], most: int = MOST_RECENT) -> list[ModelMessage]:
    """Return the latest messages, starting with a question, because models refuse a tool result whose call they do not
    see."""
    from pydantic_ai.messages import ModelRequest, UserPromptPart

    latest = list(history[-most:])
    for index, message in enumerate(latest):
        if isinstance(message, ModelRequest) and any(isinstance(part, UserPromptPart) for part in message.parts):
            return latest[index:]
    return []


def messages_to_json(messages: Sequence[ModelMessage]) -> list[Any]:
    """Return plain JSON values. Lone surrogates from a model are replaced, because they could be stored but never
    sent."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    plain = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    clean: list[Any] = json.loads(encode_whole(plain))
    return clean


def messages_from_json(plain: Sequence[Any]) -> list[ModelMessage]:
    """Parse stored messages. Raises ValueError if they are not a conversation."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    return ModelMessagesTypeAdapter.validate_python(list(plain))
