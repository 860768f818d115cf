"""The definitions that a kind offers to MCP clients: tools, resources and prompts; also helpers that build schemas."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from duetime.engine.errors import DuetimeError, Refused, StoreUnavailable
from duetime.engine.value_class import dataclass
from duetime.service.errors import STORE_ERRORS
from duetime.service.services import Call
from duetime.service.text import listed

Schema = dict[str, Any]
Arguments = dict[str, Any]
TEXT, COUNT, FLAG, OBJECT = ({"type": name} for name in ("string", "integer", "boolean", "object"))
TEXTS, ROWS = ({"type": "array", "items": each} for each in (TEXT, OBJECT))
"""Schemas of fields that need no description."""


class Reply(NamedTuple):
    """Structured content and its text; without `text`, the structured content is sent as text too."""

    structured: Mapping[str, Any]
    text: str | None = None
    later: Callable[[], Reply] | None = None
    """Returns a newer answer, if this one is not final and the caller waits for it."""


class ToolProblem(Exception):
    """Returned to the client as a tool error (`isError`) with exactly this text."""


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    title: str
    description: str
    input: Schema
    output: Schema
    answer: Callable[[Call, Arguments], Reply]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    lists_schedules: bool = False
    is_early: Callable[[Call, Arguments], bool] | None = None
    """Returns whether the call must wait before it can be answered; it is checked again until it returns False."""
    wait_argument: str = ""
    """Name of the argument that says how many seconds the caller waits for the final answer."""


def tool(
    answer: Callable[[Call, Arguments], Reply],
    title: str,
    input: Mapping[str, Schema],
    output: Mapping[str, Schema],
    required: tuple[str, ...] = (),
    *,
    always: tuple[str, ...] = (),
    **hints: Any,
) -> Tool:
    """Return the tool that a function implements. It has the name of the function, whose docstring describes it to
    agents. `required` are the arguments that must be given, `always` the fields that every result has."""
    description = "\n\n".join(" ".join(part.split()) for part in (answer.__doc__ or "").split("\n\n"))
    schemas = object_schema(input, required), result_schema(output, always)
    return Tool(answer.__name__, title, description, *schemas, answer, **hints)


def errors_as_results(answer: Callable[[Call, Arguments], Reply]) -> Callable[[Call, Arguments], Reply]:
    """Return a refusal, such as an unknown time zone, as a normal result with the key `error`."""

    @wraps(answer)
    def answer_errors(call: Call, arguments: Arguments) -> Reply:
        try:
            return answer(call, arguments)
        except ToolProblem as problem:
            return Reply({"error": str(problem)})
        except Refused as error:
            return _not_found(error, arguments) if error.code == "not_found" else error_result(error)

    return answer_errors


def _not_found(error: Refused, arguments: Arguments) -> Reply:
    """Name what was looked for: a run, a schedule, or one of a kind that this server has no tools for."""
    if (other := error.details.get("found")) is not None:
        return Reply({"error": f"The tools for a {other['kind']} are switched off on this server."})
    if "run_id" in error.details:
        return Reply({"error": f"Run not found: {error.details['run_id']}"})
    id = str(arguments.get("schedule_id", ""))[:100]
    return Reply({"error": f"Not found: {id}. list_upcoming shows what is scheduled."})


_BESIDES = ("known_tasks", "hint", "candidates")


def error_result(err: DuetimeError) -> Reply:
    """Return an error as a result; raise store errors, whose messages may name files and belong in the operator's
    log."""
    if err.code in STORE_ERRORS:
        raise StoreUnavailable(err.message)
    problem = err.details.get("problem")
    if err.details.get("field") == "timeout" and problem:  # the engine uses microseconds and another name
        return Reply({"error": f"timeout_seconds: {problem}, such as 60"})
    return Reply({"error": err.message} | {each: err.details[each] for each in _BESIDES if each in err.details})


def object_schema(properties: Mapping[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    """Return the schema of a flat object without unknown properties. Properties that are not required may also be
    null."""
    return {
        "type": "object",
        "properties": {name: each if name in required else optional(each) for name, each in properties.items()},
        "required": list(required),
        "additionalProperties": False,
    }


def with_optional(tool: Tool, names: Collection[str]) -> Tool:
    """Return the tool with these arguments no longer required, because there is a default for each."""
    freed = [name for name in tool.input["required"] if name in names]
    if not freed:
        return tool
    properties = dict(tool.input["properties"])
    for name in freed:
        described = f"{properties[name]['description']} Optional: there is a default."
        properties[name] = optional({**properties[name], "description": described})
    required = [name for name in tool.input["required"] if name not in freed]
    return replace(tool, input={**tool.input, "properties": properties, "required": required})


def result_schema(properties: Mapping[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def number(description: str, **more: Any) -> Schema:
    return {"type": "integer", "description": description, **more}


def id_or_name(description: str) -> Schema:
    """Return the schema of an argument for `find_schedule`: an id, its number, or a name."""
    return {"type": ["string", "integer"], "description": description}


def types_of(schema: Schema) -> list[str]:
    return schema["type"] if isinstance(schema["type"], list) else [schema["type"]]


def optional(schema: Schema) -> Schema:
    """Allow null, which means the same as an absent value."""
    return schema if "null" in types_of(schema) else {**schema, "type": [*types_of(schema), "null"]}


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource. `uri` may contain one placeholder `{name}`, whose unquoted value is passed to `read` and `digest`."""

    uri: str
    title: str
    description: str
    read: Callable[[Call, str], dict[str, Any] | None]
    """Returns None if the resource does not exist or belongs to another owner."""
    digest: Callable[[Call, str], object] | None = None
    """Returns a cheap value that differs whenever the content may have changed; None if the content never changes."""

    @property
    def is_template(self) -> bool:
        return "{" in self.uri

    def match(self, uri: str) -> str | None:
        """Return the value of the placeholder (empty if there is none), or None if the URI is of another resource."""
        if not self.is_template:
            return "" if uri == self.uri else None
        before, _, rest = self.uri.partition("{")
        after = rest.partition("}")[2]
        inside = uri[len(before) : len(uri) - len(after)]
        fits = uri.startswith(before) and uri.endswith(after) and inside and "/" not in inside
        return unquote(inside) if fits else None

    def uri_of(self, value: str) -> str:
        """Return the URI with this value of the placeholder, in its canonical spelling."""
        before, _, rest = self.uri.partition("{")
        return before + quote(value, safe="") + rest.partition("}")[2]


@dataclass(frozen=True, slots=True)
class Recipe:
    """An MCP prompt, which is a ready-made request for users. It is not called a prompt, because that is also a kind of
    schedule."""

    name: str
    title: str
    description: str
    arguments: Mapping[str, str]
    text: Callable[[Mapping[str, str]], str]


def quoted(arguments: Mapping[str, str], name: str) -> str:
    """Wrap user input in a tag, so that it is data within the prompt and not part of its instructions; without any, the
    agent asks for it."""
    value = arguments.get(name, "").strip()
    return f"\n\n<{name}>\n{value}\n</{name}>\n\n" if value else " ask me. "


def general_recipes(tools: Sequence[Tool]) -> list[Recipe]:
    """Return the prompts about the schedules of all kinds."""
    lists = listed([tool.name for tool in tools if tool.lists_schedules])
    return [
        Recipe(
            "what_is_scheduled",
            "What is scheduled?",
            "Everything that fires next.",
            {},
            lambda _: "Call list_upcoming and tell me in local time what fires next, by day. Say so if nothing does.",
        ),
        Recipe(
            "stop_this",
            "Stop something",
            "Find a schedule and cancel it.",
            {"what": "What should stop."},
            lambda arguments: (
                f"Find what I mean with {lists}:{quoted(arguments, 'what')}"
                "Show me the one that you found and ask before you cancel or delete it."
            ),
        ),
    ]
