"""The MCP server: it lists and calls tools, reads and watches resources, and offers prompts."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.kinds.jobs import mcp as job_mcp
from duetime.kinds.notifications.mcp import resources as notification_resources
from duetime.kinds.notifications.mcp import tools as notification_tools
from duetime.kinds.prompts.mcp import resources as prompt_resources
from duetime.kinds.prompts.mcp import tools as prompt_tools
from duetime.kinds.prompts.mcp.inbox import await_handover
from duetime.mcp import upcoming
from duetime.mcp.arguments import checked
from duetime.mcp.prompts import Recipe
from duetime.mcp.resource import Resource
from duetime.mcp.subscriptions import Watcher
from duetime.mcp.tool import Reply, Tool, ToolProblem
from duetime.service.owner_limits import OwnerLimits, TooManyRequests
from duetime.service.services import Call

log = logging.getLogger("duetime.mcp")

T = TypeVar("T")

Context = Any  # the SDK's request context, whose type parameters depend on the transport
Identify = Callable[[], Call]
"""Returns the caller, determined by the transport: from the token of the request, or the local owner."""

AWAY = "The store cannot be reached just now; try again in a moment."
INSTRUCTIONS = (
    "Duetime makes things happen later. Jobs run registered functions (schedule_job), prompts wake an agent with "
    "instructions (schedule), notifications reach a person's phone (schedule_notification, "
    "schedule_cron_notification). Pass the user's `timezone` (IANA) whenever you know it: without it, times are read "
    "in the zone of the caller's token or of the server. After scheduling, tell the user the local time that the "
    "answer shows, and any warnings it carries. A due prompt waits until an agent calls take_prompt; prompt_result "
    "tells what came of one."
)


class McpFace:
    def __init__(
        self,
        tools: Sequence[Tool],
        resources: Sequence[Resource],
        recipes: Sequence[Recipe],
        identify: Identify,
        watcher: Watcher,
        version: str,
        limits: OwnerLimits | None = None,
    ) -> None:
        self._limits = limits
        self._tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}
        self._resources = list(resources)
        self._recipes = {recipe.name: recipe for recipe in recipes}
        self._identify = identify
        self._watcher = watcher
        self._listed = types.ListToolsResult(tools=[_tool(tool) for tool in tools])
        self.server: Server[Any] = Server(
            "duetime",
            version=version,
            title="Duetime",
            instructions=INSTRUCTIONS,
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

    # -- tools --------------------------------------------------------------------------------------------------

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        tool = self._tools.get(name)
        return None if tool is None else tool.input

    async def _list_tools(self, ctx: Context, params: object) -> types.ListToolsResult:
        return self._listed

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        call = self._identify()
        try:
            if tool.is_early is not None:
                await await_handover(partial(self._in_thread, call, partial(_is_early, tool, call, params.arguments)))
            return await self._in_thread(call, partial(_answer, tool, call, params.arguments))
        except TooManyRequests as error:
            return _problem(str(error))

    async def _in_thread(self, call: Call, function: Callable[[], T]) -> T:
        """Run a function in a thread, over HTTP in one of the owner's slots; a process with one client needs none."""
        if self._limits is None:
            return await anyio.to_thread.run_sync(function)
        return await self._limits.run(call.caller.owner, function)

    # -- resources ----------------------------------------------------------------------------------------------

    async def _list_resources(self, ctx: Context, params: object) -> types.ListResourcesResult:
        fixed = [each for each in self._resources if not each.is_template]
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=each.uri,
                    name=each.title,
                    description=each.description,
                    mime_type="application/json",
                )
                for each in fixed
            ]
        )

    async def _list_templates(self, ctx: Context, params: object) -> types.ListResourceTemplatesResult:
        holed = [each for each in self._resources if each.is_template]
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=each.uri,
                    name=each.title,
                    description=each.description,
                    mime_type="application/json",
                )
                for each in holed
            ]
        )

    async def _read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        try:
            call = self._identify()
            content = await self._in_thread(call, partial(self._content, call, uri))
        except DuetimeError as error:
            log.warning("%s could not be read: %s", uri[:200], error.message)
            raise MCPError(types.INTERNAL_ERROR, AWAY) from error
        except TooManyRequests as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        if content is None:
            raise MCPError(types.INVALID_PARAMS, f"Resource not found: {uri[:200]}", {"uri": uri[:200]})
        body = types.TextResourceContents(uri=uri, mime_type="application/json", text=_json(content))
        return types.ReadResourceResult(contents=[body])

    def _content(self, call: Call, uri: str) -> dict[str, Any] | None:
        for each in self._resources:
            hole = each.match(uri)
            if hole is not None:
                return each.read(call, hole)
        return None

    # -- subscriptions ------------------------------------------------------------------------------------------

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        await self._watcher.subscribe(ctx.session, self._identify(), str(params.uri))
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self._watcher.unsubscribe(ctx.session, str(params.uri))
        return types.EmptyResult()

    async def _listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        return await self._watcher.listen(ctx, self._identify(), params)

    # -- prompts ------------------------------------------------------------------------------------------------

    async def _list_prompts(self, ctx: Context, params: object) -> types.ListPromptsResult:
        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=recipe.name,
                    title=recipe.title,
                    description=recipe.description,
                    arguments=[
                        types.PromptArgument(name=name, description=words, required=False)
                        for name, words in recipe.arguments.items()
                    ],
                )
                for recipe in self._recipes.values()
            ]
        )

    async def _get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        recipe = self._recipes.get(params.name)
        if recipe is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name[:100]}")
        content = types.TextContent(type="text", text=recipe.text(params.arguments or {}))
        return types.GetPromptResult(
            description=recipe.description, messages=[types.PromptMessage(role="user", content=content)]
        )


def _is_early(tool: Tool, call: Call, given: Mapping[str, Any] | None) -> bool:
    assert tool.is_early is not None
    try:
        return tool.is_early(call, dict(given or {}))
    except DuetimeError:
        return False  # the call itself then reports that the store is unavailable


def _answer(tool: Tool, call: Call, given: Mapping[str, Any] | None) -> types.CallToolResult:
    """Call the tool. On any error the agent gets a message it can act on, without traceback, path or secret."""
    try:
        return _result(tool.answer(call, checked(tool.input, given)))
    except ToolProblem as problem:
        return _problem(str(problem))
    except DuetimeError as error:
        log.warning("%s was refused: %s", tool.name, error.message)
        return _problem(AWAY)
    except Exception:
        log.exception("%s failed", tool.name)
        return _problem(
            f"{tool.name} failed inside Duetime; the server's log says why. Try again or tell the operator."
        )


def _result(reply: Reply) -> types.CallToolResult:
    structured = dict(reply.structured)
    words = _json(structured) if reply.text is None else reply.text
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], structured_content=structured)


def _problem(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=True)


def _json(content: object) -> str:
    return json.dumps(content, ensure_ascii=False)


def _tool(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input,
        output_schema=tool.output,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=tool.open_world,
        ),
    )


# -- families of tools, and which of them are enabled ----------------------------------------------------------------

_TOOLS: dict[str, list[Tool]] = {
    "jobs": job_mcp.TOOLS,
    "prompts": prompt_tools.TOOLS,
    "notifications": notification_tools.TOOLS,
}
_RESOURCES: dict[str, list[Resource]] = {
    "jobs": job_mcp.RESOURCES,
    "prompts": prompt_resources.RESOURCES,
    "notifications": notification_resources.RESOURCES,
}
FAMILIES = tuple(_TOOLS)


def check_families(names: Sequence[str]) -> tuple[str, ...]:
    """Check the names and return them, or all families if none is named."""
    for name in names:
        if name not in FAMILIES:
            raise InvalidInput(f"tools: there is no family {name!r}; there are {', '.join(FAMILIES)}", field="tools")
    return tuple(names) or FAMILIES


def tools_of(families: Sequence[str]) -> list[Tool]:
    return [tool for name in families for tool in _TOOLS[name]] + upcoming.TOOLS


def resources_of(families: Sequence[str]) -> list[Resource]:
    return [resource for name in families for resource in _RESOURCES[name]]
