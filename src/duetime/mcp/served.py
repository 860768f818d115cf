"""The common part of the tools for all kinds: how they are declared, which kinds they serve, and ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple

from duetime.mcp.definitions import Arguments, Reply, Schema, Tool, ToolProblem, errors_as_results, text, tool
from duetime.service.kind_spec import KindSpec
from duetime.service.services import Call

ID: Schema = {"type": ["string", "integer"], "description": "Id of any kind (5) or a name."}

KIND: Schema = text("Only this kind.")
"""The argument for one of the kinds that are served, whose names are added to it."""
AnswerTool = Callable[[Call, Arguments], Reply]


class Served(NamedTuple):
    """The kinds that the tools for all kinds serve: those of the enabled families, and those without a family."""

    specs: Sequence[KindSpec]
    is_whole: bool
    """Whether every family is enabled."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(spec.name for spec in self.specs)

    def call(self, call: Call, arguments: Arguments) -> Call:
        """Return the call of a tool for all kinds: in the time zone of its arguments, and limited to these kinds."""
        return call.in_zone(arguments.get("timezone"))._replace(kinds=None if self.is_whole else self.names)


class GenericTools:
    """The tools for all kinds of a module, in the order of their declarations."""

    def __init__(self) -> None:
        self._builders: list[Callable[[Served], Tool]] = []

    def declare(
        self,
        title: str,
        input: Mapping[str, Schema],
        output: Mapping[str, Schema],
        required: tuple[str, ...] = (),
        *,
        refusals: Callable[[AnswerTool], AnswerTool] = errors_as_results,
        **hints: Any,
    ) -> Callable[[AnswerTool], AnswerTool]:
        """Declare a tool by the function that answers its calls, whose name and docstring it has. The function gets the
        call in the time zone of the arguments, limited to the kinds that are served. `refusals` answers errors."""

        def declare(answer: AnswerTool) -> AnswerTool:
            def build(served: Served) -> Tool:
                @wraps(answer)
                def answer_served(call: Call, arguments: Arguments) -> Reply:
                    return answer(served.call(call, arguments), arguments)

                kind = {**KIND, "enum": list(served.names)}
                arguments = {name: kind if each is KIND else each for name, each in input.items()}
                return tool(refusals(answer_served), title, arguments, output, required, **hints)

            self._builders.append(build)
            return answer

        return declare

    def of(self, served: Served) -> list[Tool]:
        return [build(served) for build in self._builders]


def one_of(arguments: Arguments, *names: str) -> str:
    """Return which of these arguments there is, or raise a ToolProblem unless it is exactly one."""
    present = [name for name in names if name in arguments]
    if len(present) != 1:
        raise ToolProblem(f"Give exactly one of {' and '.join(names)}.")
    return present[0]


def tool_id(public_id: str) -> int | str:
    """Return an id in the type that tools return and accept, because some kinds number their schedules."""
    return int(public_id) if public_id.isascii() and public_id.isdigit() else public_id


def with_tool_id(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its id in that type; it has none if its schedule is gone."""
    return {**row, "id": tool_id(row["id"])} if row["id"] else row
