"""The steps of a script that simulates a model, and what its functions receive."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from tests.support.model_wire import Request, Result


class Seen(NamedTuple):
    """What the model has seen so far."""

    request: Request

    @property
    def results(self) -> Sequence[Result]:
        return self.request.results

    def text(self, tool: str) -> str:
        for result in reversed(self.results):
            if is_called(result.tool, tool):
                return result.text
        raise LookupError(f"{tool} was not called: {[result.tool for result in self.results]}")

    def data(self, tool: str) -> Any:
        return json.loads(self.text(tool))

    def number(self, tool: str) -> int:
        return int(self.find(r'(?:#|"id":\s*)(\d+)', tool))

    def find(self, pattern: str, tool: str) -> str:
        found = re.search(pattern, self.text(tool))
        if found is None:
            raise LookupError(f"{pattern} is not in what {tool} answered: {self.text(tool)}")
        return found[1]


Arguments: TypeAlias = Mapping[str, Any] | Callable[[Seen], Mapping[str, Any]]


class Step:
    """One action of the model in its turn."""


@dataclass(frozen=True)
class Calls(Step):
    calls: Sequence[tuple[str, Arguments]]


@dataclass(frozen=True)
class Says(Step):
    text: str | Callable[[Seen], str]
    stall_after: int | None = None


@dataclass(eq=False)
class Fails(Step):
    status: int
    message: str
    headers: Mapping[str, str]
    times: int | None
    """None means always."""


@dataclass(frozen=True)
class Silence(Step):
    pass


Known: TypeAlias = Calls | Says | Fails | Silence
Script: TypeAlias = Sequence[Step] | Callable[[Request], Step]


def call(tool: str, arguments: Arguments | None = None, /, **named: Any) -> Calls:
    """Return a step that calls a tool. A mapping is for arguments that Python cannot name, such as `from`."""
    if callable(arguments):
        return Calls([(tool, arguments)])
    return Calls([(tool, {**(arguments or {}), **named})])


def together(*steps: Calls) -> Calls:
    return Calls([each for step in steps for each in step.calls])


def say(text: str | Callable[[Seen], str], *, stall_after: int | None = None) -> Says:
    return Says(text, stall_after)


def fail(
    status: int, message: str = "made to fail", headers: Mapping[str, str] | None = None, *, times: int | None = None
) -> Fails:
    return Fails(status, message, headers or {}, times)


def silence() -> Silence:
    return Silence()


def is_called(name: str, tool: str) -> bool:
    return name == tool or re.search(rf"[^a-zA-Z0-9]{re.escape(tool)}$", name) is not None


def offered_as(tool: str, request: Request) -> str:
    """Return the name under which a tool is offered. `schedule` is also a suffix of `mcp__duetime__delete_schedule`, so
    the shortest name is meant."""
    fitting = [name for name in request.tools if is_called(name, tool)]
    if not fitting:
        raise LookupError(f"{tool} was not offered; there is {', '.join(request.tools)}")
    return min(fitting, key=len)
