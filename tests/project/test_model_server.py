"""The scripted model: what other tests rest on, in the words of every maker and without streaming too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any

import pytest
from pydantic_ai import Agent, AgentRunResult
from pydantic_ai.exceptions import ModelHTTPError

from duetime.kinds.prompts.agents.models import EXAMPLE
from tests.support.model_server import ModelServer, call, fail, say, together

MODELS = (EXAMPLE, "openai:gpt-5", "openai-chat:gpt-5", "google:gemini-2.5-pro")
SCRIPT = [
    together(call("add", a=1, b=2), call("add", a=3, b=4)),
    call("add", lambda seen: {"a": int(seen.text("add")), "b": 10}),
    say(lambda seen: f"It is {seen.text('add')}."),
    say("Still."),
]


def adder(model: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Agent[object, str]:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)

    def mcp__calc__add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    def mcp__calc__never_add(a: int) -> int:
        """Has a name that ends alike."""
        raise AssertionError(a)

    return Agent(model, instructions="Be exact.", tools=[mcp__calc__never_add, mcp__calc__add])


async def conversed(agent: Agent[object, str], *said: str) -> AgentRunResult[str]:
    """What came of the last thing that was said. The agent is left closed, with its connections."""
    async with agent:
        result = await agent.run(said[0])
        for text in said[1:]:
            result = await agent.run(text, message_history=result.all_messages())
        return result


@pytest.mark.parametrize("model", MODELS)
def test_a_script_is_followed_without_streaming(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(SCRIPT, usage=(50, 5)) as server:
        first = asyncio.run(conversed(adder(model, server, monkeypatch), "Add."))
        assert first.output == "It is 17."
        assert (first.usage.input_tokens, first.usage.output_tokens) == (150, 15)
        again = asyncio.run(conversed(adder(model, server, monkeypatch), "Add.", "Sure?"))
        assert again.output == "Still.", "a conversation that goes on goes on in the script, another one begins it anew"
    asked = server.requests[2]
    assert asked.system.endswith("Be exact.") and asked.said == ["Add."]
    assert asked.tools == {"mcp__calc__never_add": "Has a name that ends alike.", "mcp__calc__add": "Adds."}
    assert [(result.tool, result.text) for result in asked.results] == [
        ("mcp__calc__add", "3"),
        ("mcp__calc__add", "7"),
        ("mcp__calc__add", "17"),
    ]
    assert model.endswith(asked.model)


@pytest.mark.parametrize("model", MODELS)
def test_failures_come_as_each_maker_words_them(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer([fail(400, "not like this"), say("never")]) as server:
        with pytest.raises(ModelHTTPError, match="not like this"):
            asyncio.run(conversed(adder(model, server, monkeypatch), "Add."))
        assert len(server.requests) == 1


def test_a_tool_that_is_not_offered_is_an_error_of_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        ModelServer([call("subtract", a=1)]) as server,
        pytest.raises(ModelHTTPError, match="subtract was not offered; there is mcp__calc__never_add, mcp__calc__add"),
    ):
        asyncio.run(conversed(adder(EXAMPLE, server, monkeypatch), "Subtract."))


def test_requests_on_the_side_leave_the_script_alone() -> None:
    with ModelServer([call("add", a=1, b=2)], aside="A title") as server:
        post = _poster(server)
        title = {"model": "m", "messages": [{"role": "user", "content": "Name this."}]}
        assert post("/v1/messages", title)["content"] == [{"type": "text", "text": "A title"}]
        assert post("/v1/messages/count_tokens?beta=true", title)["input_tokens"] == 100
        tools = [{"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}]
        assert post("/v1/messages?beta=true", {**title, "tools": tools})["content"][0]["name"] == "add"
        assert [bool(request.tools) for request in server.requests] == [False, True]
        assert len(server.conversation) == 1
        assert post("/v1/nothing", {})["error"]["message"] == "nothing is at /v1/nothing"


def test_tools_in_groups_are_called_by_their_group() -> None:
    with ModelServer([call("schedule_list")]) as server:
        inner = {"type": "function", "name": "schedule_list", "description": "Lists."}
        group = {"type": "namespace", "name": "mcp__duetime__", "tools": [inner]}
        answer = _poster(server)("/v1/responses", {"model": "m", "input": "List.", "tools": [group]})
        assert answer["output"][0]["namespace"] == "mcp__duetime__" and answer["output"][0]["name"] == "schedule_list"


def _poster(server: ModelServer) -> Callable[[str, Any], Any]:
    def post(path: str, document: Any) -> Any:
        connection = HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=30)
        try:
            connection.request("POST", path, json.dumps(document))
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    return post
