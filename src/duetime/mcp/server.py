"""The MCP server: it lists and calls tools, reads and watches resources, and offers prompts."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.mcp.catalog import Catalog, listed_tool
from duetime.mcp.definitions import Recipe, Reply, Resource, Tool, ToolProblem
from duetime.mcp.schemas import checked
from duetime.mcp.subscriptions import Watcher
from duetime.service import MOST_SECONDS
from duetime.service.errors import STORE_MESSAGE
from duetime.service.operations.waiting import await_handover, await_result
from duetime.service.owner_limits import OwnerLimits, TooManyRequests
from duetime.service.services import Call

log = logging.getLogger("duetime.mcp")

T = TypeVar("T")
Answer = Reply | types.CallToolResult
"""The answer of a tool, or the result that reports why there is none."""

ARGUMENTS = "duetime.arguments"
"""Key of the ASGI scope that holds the arguments of a tool if they are large; the message then has none."""
Context = Any  # the SDK's request context, whose type parameters depend on the transport
Identify = Callable[[], Call]
"""Returns the caller, determined by the transport: from the token of the request, or the local owner."""


class McpServer:
    """Answers MCP clients over any transport; `sdk` is the server of the SDK, which implements the protocol."""

    def __init__(self, catalog: Catalog, identify: Identify, version: str, limits: OwnerLimits | None = None) -> None:
        self._limits, self._waits = limits, limits or OwnerLimits()
        self.offer(catalog)
        self._resources = catalog.resources
        self._recipes = {recipe.name: recipe for recipe in catalog.recipes}
        self._identify = identify
        self.refusal = ""
        """The answer of every tool that writes, if this server must only read."""
        self.watcher = Watcher(catalog.resources, None if limits is None else limits.shares)
        self.sdk: Server[Any] = Server(
            "duetime",
            version=version,
            title="Duetime",
            instructions=catalog.instructions,
            get_tool_input_schema=self._input_schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._listen,
        )

    def offer(self, catalog: Catalog) -> None:
        """Offer these tools from now on. A client that has read the list before can call all of them too."""
        self._tools: Mapping[str, Tool] = {tool.name: tool for tool in catalog.tools}
        self._listed = types.ListToolsResult(tools=[listed_tool(tool) for tool in catalog.tools])

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        tool = self._tools.get(name)
        return None if tool is None else tool.input

    async def _list_tools(self, ctx: Context, params: object) -> types.ListToolsResult:
        return self._listed

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in self._tools:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        call = self._identify()
        tool = self._tools[params.name]
        if self.refusal and not tool.read_only:
            return _problem(self.refusal)
        arguments = (None if ctx.request is None else ctx.request.scope.get(ARGUMENTS)) or params.arguments
        try:
            if tool.is_early is not None:
                await await_handover(partial(self._in_thread, call, partial(_is_early, tool, call, arguments)))
            seconds = _seconds_to_wait(tool, arguments)
            with self._waits.waiting(call.caller.owner) if seconds else nullcontext():
                answer = await self._in_thread(call, partial(_answer, tool, call, arguments))
                if seconds:
                    answer = await await_result(answer, partial(self._look_again, tool, call), _is_final, seconds)
                result = _result(answer)
                self._waits.answered(call.caller.owner, sum(len(getattr(each, "text", "")) for each in result.content))
                return result
        except TooManyRequests as error:
            return _problem(str(error))

    async def _look_again(self, tool: Tool, call: Call, before: Answer) -> Answer:
        assert isinstance(before, Reply) and before.later is not None
        return await self._in_thread(call, partial(_tried, tool, before.later))

    async def _in_thread(self, call: Call, function: Callable[[], T]) -> T:
        """Run a function in a thread, over HTTP in one of the owner's slots; a process with one client needs none."""
        if self._limits is None:
            return await anyio.to_thread.run_sync(function)
        return await self._limits.run(call.caller.owner, function)

    async def _list_resources(self, ctx: Context, params: object) -> types.ListResourcesResult:
        fixed = [types.Resource(uri=each.uri, **_about(each)) for each in self._resources if not each.is_template]
        return types.ListResourcesResult(resources=fixed)

    async def _list_templates(self, ctx: Context, params: object) -> types.ListResourceTemplatesResult:
        resources = [each for each in self._resources if each.is_template]
        templates = [types.ResourceTemplate(uri_template=each.uri, **_about(each)) for each in resources]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def _read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        try:
            call = self._identify()
            content = await self._in_thread(call, partial(self._content, call, uri))
        except DuetimeError as error:
            log.warning("%s could not be read: %s", uri[:200], error.message)
            raise MCPError(types.INTERNAL_ERROR, STORE_MESSAGE) from error
        except TooManyRequests as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        if content is None:
            raise MCPError(types.INVALID_PARAMS, f"Resource not found: {uri[:200]}", {"uri": uri[:200]})
        body = types.TextResourceContents(uri=uri, mime_type="application/json", text=_json(content))
        return types.ReadResourceResult(contents=[body])

    def _content(self, call: Call, uri: str) -> dict[str, Any] | None:
        for each in self._resources:
            value = each.match(uri)
            if value is not None:
                return each.read(call, value)
        return None

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        await self.watcher.subscribe(ctx.session, self._identify(), str(params.uri))
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self.watcher.unsubscribe(ctx.session, str(params.uri))
        return types.EmptyResult()

    async def _listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        return await self.watcher.listen(ctx, self._identify(), params)

    async def _list_prompts(self, ctx: Context, params: object) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[_prompt(recipe) for recipe in self._recipes.values()])

    async def _get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        recipe = self._recipes.get(params.name)
        if recipe is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name[:100]}")
        content = types.TextContent(type="text", text=recipe.text(params.arguments or {}))
        return types.GetPromptResult(
            description=recipe.description, messages=[types.PromptMessage(role="user", content=content)]
        )


def _is_early(tool: Tool, call: Call, arguments: Mapping[str, Any] | None) -> bool:
    assert tool.is_early is not None
    try:
        return tool.is_early(call, dict(arguments or {}))
    except DuetimeError:
        return False  # the call itself then reports that the store is unavailable


def _seconds_to_wait(tool: Tool, arguments: Mapping[str, Any] | None) -> float:
    """Return how long the caller waits for the final answer. The tool itself refuses an invalid value."""
    seconds = (arguments or {}).get(tool.wait_argument) if tool.wait_argument else None
    return seconds if isinstance(seconds, int | float) and 0 < seconds <= MOST_SECONDS else 0


def _is_final(answer: Answer) -> bool:
    return not isinstance(answer, Reply) or answer.later is None


def _answer(tool: Tool, call: Call, arguments: Mapping[str, Any] | None) -> Answer:
    return _tried(tool, lambda: tool.answer(call, checked(tool.input, arguments)))


def _tried(tool: Tool, answer: Callable[[], Reply]) -> Answer:
    """Call the tool. On any error the agent gets a message it can act on, without traceback, path or secret."""
    try:
        return answer()
    except (ToolProblem, InvalidInput) as problem:
        return _problem(str(problem))
    except DuetimeError as error:
        log.warning("%s was refused: %s", tool.name, error.message)
        return _problem(STORE_MESSAGE)
    except Exception:
        log.exception("%s failed", tool.name)
        words = "failed inside Duetime; the server's log says why. Try again or tell the operator."
        return _problem(f"{tool.name} {words}")


def _result(answer: Answer) -> types.CallToolResult:
    if not isinstance(answer, Reply):
        return answer
    structured = dict(answer.structured)
    text = _json(structured) if answer.text is None else answer.text
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=structured)


def _problem(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def _json(content: object) -> str:
    return json.dumps(content, ensure_ascii=False)


def _about(resource: Resource) -> dict[str, Any]:
    return {"name": resource.title, "description": resource.description, "mime_type": "application/json"}


def _prompt(recipe: Recipe) -> types.Prompt:
    named = recipe.arguments.items()
    arguments = [types.PromptArgument(name=name, description=about, required=False) for name, about in named]
    return types.Prompt(name=recipe.name, title=recipe.title, description=recipe.description, arguments=arguments)
