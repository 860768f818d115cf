"""One turn of a model: it calls tools and answers. What it has done so far can be read at any moment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from duetime.engine.encoding import clean_text
from duetime.engine.usage import UNLIMITED, Left
from duetime.kinds.prompts.agent import Spent
from duetime.kinds.prompts.agents.transcript import MOST_CALLS, bounded

if TYPE_CHECKING:
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model
    from pydantic_ai.usage import RunUsage

MISTAKES = 3
"""Invalid tool calls in a row (unknown tool, bad arguments) before the turn is given up."""
UNANSWERED = "(it was stopped before an answer came)"


class TextDelta(NamedTuple):
    """A piece of the answer."""

    text: str


class ToolCall(NamedTuple):
    """A tool call and its result."""

    name: str
    arguments: str
    result: str
    failed: bool


OnEvent = Callable[[TextDelta | ToolCall], None]


@dataclass(slots=True)
class Turn:
    text: str = ""
    """The last message of the model."""
    calls: list[ToolCall] = field(default_factory=list)
    messages: list[ModelMessage] = field(default_factory=list)
    """New messages of the conversation, to be given to the next turn as history."""
    usage: RunUsage | None = None

    @property
    def spent(self) -> Spent:
        if self.usage is None:
            return Spent()
        return Spent(self.usage.input_tokens, self.usage.output_tokens, float(self.usage.cost or 0))

    def view(self) -> list[dict[str, Any]]:
        """Return the last calls in the form in which they are stored."""
        return [_call_view(call) for call in self.calls[-MOST_CALLS:]]

    @property
    def earlier_calls(self) -> int:
        return max(0, len(self.calls) - MOST_CALLS)


async def take_turn(
    turn: Turn,
    model: Model,
    instructions: str,
    tools: MCPToolset[Any],
    prompt: str,
    *,
    history: Sequence[ModelMessage] = (),
    most: int,
    left: Left = UNLIMITED,
    on_event: OnEvent,
) -> None:
    """Run a turn of at most `most` model responses, and none after what is `left` of the day is used up. Raises what
    the model or its provider's client raises; what was done until then is in `turn`."""
    from pydantic_ai import Agent
    from pydantic_ai.exceptions import RunCancelled
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.usage import RunUsage

    from duetime.kinds.prompts.agents.limits import TurnLimits

    agent = Agent(model, instructions=instructions, toolsets=[tools], name="duetime", retries=MISTAKES)
    turn.usage = RunUsage()
    handler = _EventHandler(turn, on_event)
    new: list[ModelMessage] = []
    try:
        async with (
            agent,
            agent.run_stream_events(
                prompt, message_history=list(history), usage=turn.usage, usage_limits=TurnLimits(most, left)
            ) as events,
        ):
            async for event in events:
                handler.handle(event)
                new = events.new_messages()
    except asyncio.CancelledError as error:
        stopped = RunCancelled.from_cancellation(error)
        new = new if stopped is None else stopped.new_messages()
        raise
    finally:
        # An unanswered question would look like a part of the next one.
        turn.messages = new if any(isinstance(message, ModelResponse) for message in new) else []


class _EventHandler:
    """Separates text from tool calls in the stream of events."""

    def __init__(self, turn: Turn, on_event: OnEvent) -> None:
        self._turn, self._on_event = turn, on_event
        self._asked: dict[str, int] = {}
        """Index in the turn's calls, by tool call id."""

    def handle(self, event: Any) -> None:
        from pydantic_ai import messages as known

        match event:
            case known.PartStartEvent(part=part, index=index):
                self._turn.text = "" if index == 0 else self._turn.text
                if isinstance(part, known.TextPart):
                    self._say(part.content)
            case known.PartDeltaEvent(delta=known.TextPartDelta(content_delta=text)):
                self._say(text)
            case known.FunctionToolCallEvent(part=part):
                self._asked[part.tool_call_id] = len(self._turn.calls)
                self._turn.calls.append(ToolCall(part.tool_name, _bounded(part.args_as_json_str()), UNANSWERED, True))
            case known.FunctionToolResultEvent(part=part):
                self._answered(part)
            case _:
                pass  # the other events only prepare or close these

    def _say(self, text: str) -> None:
        self._turn.text += text
        self._on_event(TextDelta(text))

    def _answered(self, part: Any) -> None:
        index = self._asked.pop(part.tool_call_id)
        result, failed = _bounded(part.model_response_str(wrap_if_error=False)), part.outcome != "success"
        self._turn.calls[index] = call = self._turn.calls[index]._replace(result=result, failed=failed)
        self._on_event(call)


def _bounded(text: str) -> str:
    return clean_text(bounded(text))


def _call_view(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):  # cut, or the model wrote no JSON
        arguments = call.arguments
    view = {"name": call.name, "arguments": arguments, "result": call.result}
    return {**view, "failed": True} if call.failed else view
