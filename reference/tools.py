"""The page of the MCP tools: what agents see."""

from __future__ import annotations

from collections.abc import Iterable

from duetime.kinds import load_specs
from duetime.mcp.catalog import catalog_of, family_of, tools_of
from duetime.mcp.definitions import Recipe, Resource, Schema, Tool
from reference.markdown import code, page, table
from reference.schemas import Field, fields

_ABOUT = """\
Agents use these tools over stdio (`duetime mcp`) and HTTP (`/mcp`), in the protocol versions of 2025 and 2026.
`duetime serve --tools jobs,schedule` serves only the named families and single tools; a family includes the tools
for all kinds.

The token, never an argument, determines whose schedules a call sees; anything of another owner is answered like
something that does not exist. Unknown arguments, and arguments of the wrong type, are tool errors (`isError`) that
name the argument. Other errors follow the conventions of the family: an `error` in the results of jobs, a text that
begins with `Error:` for prompts, a tool error or `success: false` for notifications. Null is treated like an absent
argument.

The hints are MCP annotations: `readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`."""
_RESOURCES = """\
Resources are JSON. Clients can subscribe to those marked as watched, and are notified within a second of a change
through any interface or process."""
_RECIPES = "Ready-made requests that a client can offer to its user (MCP prompts). All arguments are optional."


def tools_page() -> str:
    specs = load_specs().values()
    catalog = catalog_of(specs)
    sections = [(family_of(spec).capitalize(), tools_of(spec)) for spec in specs if family_of(spec)]
    own = {tool.name for _, tools in sections for tool in tools}
    generic = [tool for tool in catalog.tools if tool.name not in own]
    parts = [_ABOUT, _hints(catalog.tools)]
    for heading, tools in [*sections, ("All families", generic)]:
        parts += [f"## {heading}", *(part for tool in tools for part in _tool(tool))]
    return page("MCP tools", *parts, *_resources(catalog.resources), *_recipes(catalog.recipes))


def _hints(tools: Iterable[Tool]) -> str:
    def yes(flag: bool) -> str:
        return "yes" if flag else ""

    return table(
        ["tool", "what it does", "reads only", "destroys", "safe to repeat", "reaches out"],
        (
            (
                f"[{tool.name}](#{tool.name})",
                tool.title,
                yes(tool.read_only),
                yes(tool.destructive),
                yes(tool.idempotent),
                yes(tool.open_world),
            )
            for tool in tools
        ),
    )


def _tool(tool: Tool) -> list[str]:
    return [
        f"### {tool.name}",
        tool.description,
        table(["argument", "type", "meaning"], (_argument(each) for each in fields(tool.input, nulls=False))),
        _result(tool.output),
    ]


def _argument(field: Field) -> tuple[str, str, str]:
    name, kind, meaning = field.row()
    return name, f"{kind}, **required**" if field.required and "." not in field.name else kind, meaning


def _result(schema: Schema) -> str:
    return table(["result", "type", "meaning"], (field.row() for field in fields(schema, nulls=True)))


def _resources(found: Iterable[Resource]) -> list[str]:
    rows = ((code(each.uri), "yes" if each.digest else "", each.description) for each in found)
    return ["## Resources", _RESOURCES, table(["resource", "watched", "what it holds"], rows)]


def _recipes(found: Iterable[Recipe]) -> list[str]:
    rows = (
        (code(each.name), each.description, "; ".join(f"{code(name)}: {said}" for name, said in each.arguments.items()))
        for each in found
    )
    return ["## Prompts", _RECIPES, table(["prompt", "what it asks for", "arguments"], rows)]
