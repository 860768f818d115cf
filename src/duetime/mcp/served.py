"""The common part of the tools for all kinds: which kinds they serve, and ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from duetime.mcp.definitions import Arguments, Schema, ToolProblem, text
from duetime.service.kind_spec import KindSpec
from duetime.service.services import Call
from duetime.service.text import listed

ID: Schema = {"type": ["string", "integer"], "description": "Id of any kind, such as 5, or a name."}


class Served(NamedTuple):
    """The kinds that the tools for all kinds serve: those of the enabled families, and those without a family."""

    specs: Sequence[KindSpec]
    is_whole: bool
    """Whether every family is enabled."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(spec.name for spec in self.specs)

    @property
    def plurals(self) -> str:
        return listed([spec.plural for spec in self.specs])

    @property
    def kind_argument(self) -> Schema:
        return text("Only this kind.", enum=list(self.names))

    def call(self, call: Call, arguments: Arguments) -> Call:
        """Return the call of a tool for all kinds: in the time zone of its arguments, and limited to these kinds."""
        return call.in_zone(arguments.get("timezone"))._replace(kinds=None if self.is_whole else self.names)


def one_of(given: Arguments, *names: str) -> str:
    """Return which of these arguments is given, or raise a ToolProblem unless it is exactly one."""
    found = [name for name in names if name in given]
    if len(found) != 1:
        raise ToolProblem(f"Give exactly one of {' and '.join(names)}.")
    return found[0]


def tool_id(public_id: str) -> int | str:
    """Return an id in the type that tools return and accept, because some kinds number their schedules."""
    return int(public_id) if public_id.isascii() and public_id.isdigit() else public_id


def with_tool_id(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "id": tool_id(row["id"])}
