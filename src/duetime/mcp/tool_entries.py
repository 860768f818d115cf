"""The entry of a tool in `tools/list`. Every conversation carries the list, so that an entry is as short as it can be.

What the server checks or accepts anyway is not listed: that unknown arguments are refused, that null is the same as an
absent argument, and trivial bounds. The output schema names the fields of the answer and says which are always there;
types and meanings are in the reference. Fields that the answer of any tool may have are in the server's instructions.
"""

from __future__ import annotations

import mcp_types as types

from duetime.mcp.definitions import Schema, Tool

OF_ANY_ANSWER = (
    "error",
    "hint",
    "candidates",
    "warnings",
    "warning_codes",
    "timezone",
    "reads_as",
    "limits",
    "paused_until",
)

_MANY = 100
"""Items beyond which a maximum is not listed."""


def listed_tool(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=_input(tool.input),
        output_schema=_output(tool.output),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=tool.open_world,
        ),
    )


def _input(schema: Schema) -> Schema:
    arguments = {name: _argument(each) for name, each in schema["properties"].items()}
    listed: Schema = {"type": "object", "properties": arguments}
    return {**listed, "required": schema["required"]} if schema["required"] else listed


def _argument(schema: Schema) -> Schema:
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    named = [kind for kind in kinds if kind != "null"]
    kept = {key: value for key, value in schema.items() if not _is_trivial(key, value)}
    return {**kept, "type": named[0] if len(named) == 1 else named}


def _is_trivial(key: str, value: object) -> bool:
    """Return whether a bound is one that nobody reaches by accident."""
    match key, value:
        case "minimum", (0 | 1):
            return True
        case "maxItems", int(most):
            return most >= _MANY
        case _:
            return False


def _output(schema: Schema) -> Schema:
    always = schema["required"]
    names = [name for name in schema["properties"] if name in always or name not in OF_ANY_ANSWER]
    fields: Schema = {"type": "object", "properties": {name: {} for name in names}}
    return {**fields, "required": always} if always else fields
