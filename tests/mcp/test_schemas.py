"""The validation of arguments against the schema that a tool publishes."""

from __future__ import annotations

from typing import Any

import pytest

from duetime.mcp.definitions import Schema, Tool, ToolProblem, object_schema, text
from duetime.mcp.schemas import checked
from tests.support.agent import TOOLS

ANSWERED = {"status", "trigger_type"}
"""Unknown values of these are normal results of the tools."""


def choices(tool: Tool) -> dict[str, list[Any]]:
    properties: dict[str, Schema] = tool.input["properties"]
    return {name: each["enum"] for name, each in properties.items() if "enum" in each}


@pytest.mark.parametrize("tool", [each for each in TOOLS.values() if choices(each)], ids=lambda tool: tool.name)
def test_only_the_listed_values_are_accepted(tool: Tool) -> None:
    schema = {**tool.input, "required": []}
    for name, allowed in choices(tool).items():
        for value in allowed:
            assert checked(schema, {name: value}) == {name: value}
        if name in ANSWERED:
            assert checked(schema, {name: "other"}) == {name: "other"}
            continue
        with pytest.raises(ToolProblem) as refused:
            checked(schema, {name: "other"})
        assert str(refused.value) == f"Invalid argument: {name} must be one of {', '.join(allowed)}."


def test_the_length_of_a_text_is_limited() -> None:
    schema = object_schema({"code": text("A code.", minLength=2, maxLength=3)})
    assert checked(schema, {"code": "abc"}) == {"code": "abc"}
    with pytest.raises(ToolProblem, match="code must be a text of at least 2 characters"):
        checked(schema, {"code": "a"})
    with pytest.raises(ToolProblem, match="code must be a text of at most 3 characters"):
        checked(schema, {"code": "abcd"})
