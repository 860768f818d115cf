"""Argument schemas and helpers shared by several families of tools, and the validation of arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from duetime.engine.errors import DuetimeError
from duetime.mcp.definitions import Arguments, Schema, ToolProblem, optional, text, types_of
from duetime.service.json_types import TYPES
from duetime.service.kind_spec import known_specs
from duetime.service.options import TIME_LIMITS, PolicyOption, option_name, policy_options, time_options
from duetime.service.payload_fields import fields_of
from duetime.service.services import Call
from duetime.service.state_details import STATE_DETAILS
from duetime.service.warnings import ScheduleWarning, warning_facts

ZONE = text("User's: Asia/Tokyo.")
KEY = text("Reused, it creates nothing.")
NAME = text("Name to find it by later.")
TRIGGER_TYPE = text("Or give when.", enum=["once", "interval", "cron", "rrule", "event", "after"])
TRIGGER_CONFIG: Schema = {
    "type": "object",
    "description": (
        "once {run_at: 2026-02-05T15:00} or {delay: 2h30m}; interval {hours: 1, between: 09:00-17:00, weekdays: "
        "mon-fri}; cron {expression: 0 9 * * 1-5}; rrule {rrule: FREQ=MONTHLY;BYDAY=-1FR}; event {event: push, where: "
        "{ref: main}, at_most_every: 10m}; after {schedule: backup, outcome: fails}."
    ),
}
STATUSES = ("pending", "running", "completed", "failed", "cancelled", "paused")
"""Statuses of schedules."""
STATE_DETAIL: Schema = {"type": ["string", "null"], "description": " | ".join(STATE_DETAILS)}
READS_AS = text("The rule in words.")
LIMITS_IN_FORCE: Schema = {"type": "object", "description": "The limits in force."}
OPTIONS_SET: Schema = {"type": "object", "description": "What was set besides the defaults."}
LOOKUP: dict[str, Schema] = {
    "hint": {"type": "string"},
    "candidates": {"type": "array", "items": {"type": "object"}, "description": "What it could mean."},
    "owner": text("Whose it is, for an operator."),
}
"""Fields of an answer about an id or a name that belongs to another kind, or to several schedules."""
NULLABLE_TIME: Schema = {"type": ["string", "null"], "description": "ISO 8601 with offset."}
ERROR: Schema = {"type": "string", "description": "What was refused, and why. Nothing was changed."}
WARNINGS: dict[str, Schema] = {
    "warnings": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Why this might not fire, or its result not arrive. Tell the user.",
    },
    "warning_codes": {"type": "array", "items": {"type": "string"}},
}


# Options of the policy and of times, from `service.options`: those that a tool lists as arguments of their own, and the
# others in one object. All of them are accepted as arguments too, under the names that the HTTP API has.

_JSON: dict[str, Any] = {"count": "integer", "duration": "number", "flag": "boolean", "tags": ["array", "string"]}


def _option_schema(option: PolicyOption) -> Schema:
    choices = {"enum": list(option.rule.choices)} if option.rule.choices else {}
    return {"type": _JSON.get(option.rule.type, "string"), **choices}


_IN_OBJECT: dict[str, Schema] = {
    **dict.fromkeys(("start", "end"), optional({"type": "string"})),
    "jitter": optional({"type": ["number", "string"]}),
    **{
        name: optional(_option_schema(option) if option.rule.type != "duration" else {"type": ["number", "string"]})
        for option in policy_options().values()
        for name in (option.name, option.argument)
    },
}
UNLISTED: dict[str, Schema] = {
    **{option.argument: optional(_option_schema(option)) for option in policy_options().values()},
    **dict.fromkeys(("start", "end", "expire_after"), optional({"type": "string"})),
    "jitter": optional({"type": ["number", "string"]}),
}
"""Arguments that every tool with the argument `options` accepts, whether it lists them or not."""


def time_arguments(*names: str) -> dict[str, Schema]:
    """Return the arguments for options of times in a create."""
    options = ((name, time_options()[name]) for name in names)
    return {name: text(option.brief or option.sentence) for name, option in options}


def new_time_arguments(*names: str) -> dict[str, Schema]:
    """Return the arguments for options of times in an edit."""
    examples = {name: time_options()[name].example for name in names}
    own = {"at": "New time: {}; of what recurs, its next.", "every": "New interval: {}; first at `at`."}
    return {name: text(own.get(name, "New rule: {}.").format(example)) for name, example in examples.items()}


def option_arguments(*names: str, **usual: object) -> dict[str, Schema]:
    """Return the arguments for options of the policy, each with its default: that of `usual`, or the engine's."""
    arguments: dict[str, Schema] = {}
    for name in names:
        option = policy_options()[name]
        default = usual.get(name, option.default)
        description = option.texts.brief if default is None else f"{option.texts.brief}; default {default}"
        schema = _option_schema(option)
        arguments[option.argument] = {"type": schema.pop("type"), "description": f"{description}.", **schema}
    return arguments


def options_argument(*without: str) -> dict[str, Schema]:
    """Return the argument `options`, whose description names the options except those that the tool lists."""
    named = [f"{name} {time_options()[name].example}" for name in TIME_LIMITS if name not in without]
    for option in policy_options().values():
        if option.argument not in without:
            example = "|".join(option.rule.choices) or option.texts.example or "true"
            named.append(f"{option.name} {example}")
    return {"options": {"type": "object", "description": f"More: {', '.join(named)}."}}


WHEN = time_arguments("when")["when"]
BRIEF_WHEN = text(f"In words: {time_options()['when'].example}; on deploy.done.")
POLICY = option_arguments("max_attempts", "timeout", "catch_up", "overlap")
DELIVERY = option_arguments("deliver_to")
MAX_RUNS = option_arguments("max_runs")
OPTIONS = options_argument(*MAX_RUNS, *POLICY, *DELIVERY)


def policy_of(arguments: Arguments) -> dict[str, Any]:
    """Return the options of the policy among the arguments of a call."""
    beside = {name: arguments[name] for name in UNLISTED if name in arguments and name not in TIME_LIMITS}
    return {**beside, **arguments.get("options", {})}


def _with_options(arguments: Arguments) -> Arguments:
    """Return the arguments with valid `options`, of which limits of times become arguments of their own."""
    options: dict[str, Any] = {}
    beside = {name: value for name, value in arguments.items() if name != "options"}
    taken = {option_name(name) for name in beside if name in UNLISTED}
    for argument, value in arguments["options"].items():
        name = option_name(argument)
        if name not in _IN_OBJECT:
            known = ", ".join(each for each in _IN_OBJECT if each == option_name(each))
            raise ToolProblem(f"Unknown option: {argument[:100]}. options takes: {known}.")
        if name in taken:
            raise ToolProblem(f"{name}: it is given twice; give it in options or as an argument, not both.")
        taken.add(name)
        places = beside if name in TIME_LIMITS else options
        places[name] = _fit(f"options.{argument}", value, _IN_OBJECT[argument])
    return {**beside, "options": options}


def lookup_fields(err: DuetimeError, tool: str | None = None) -> dict[str, Any]:
    """Return the fields to add to a refusal of `find_schedule`: a tool that accepts the id, or the possible meanings of
    the name. Without `tool`, it is the tool that cancels a schedule of the kind that was found."""
    if (other := err.details.get("found")) is not None:
        spec = known_specs().get(other["kind"])
        tool = tool or (spec.canceller if spec else "delete_schedule")
        return {"hint": f"{other['id']} is a {other['kind']} ({str(other['name'])[:60]}): {tool} takes it."}
    return {"candidates": err.details["candidates"]} if "candidates" in err.details else {}


def with_owner(call: Call, view: dict[str, Any], owner: str) -> dict[str, Any]:
    """Add the owner to a row for an operator, whose lists show all owners."""
    return {**view, "owner": owner} if call.caller.operator else view


FOLLOWERS: dict[str, Schema] = {"warnings": WARNINGS["warnings"]}


def warn_of_end(*facts: str | None) -> dict[str, Any]:
    """Return the warnings about the end of a schedule that others follow, or that is declared elsewhere."""
    texts = [f"{each[0].upper()}{each[1:]}." for each in facts if each]
    return {"warnings": texts} if texts else {}


def with_warnings(structured: dict[str, Any], warnings: Sequence[ScheduleWarning]) -> dict[str, Any]:
    """Add warnings, if there are any: a new schedule might not fire as intended, or its result might reach nobody."""
    return {**structured, **warning_facts(warnings)} if warnings else structured


_ANY = ["string", "number", "boolean", "array", "object", "null"]
JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}


def flat_schema(schema: Schema, definitions: Schema | None = None, within: tuple[str, ...] = ()) -> Schema:
    """Return a schema as MCP clients understand it: with a type, without title and `$ref`, null in the list of
    types."""
    definitions = schema.get("$defs", definitions or {})
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in within:
            return {"type": "object"}
        further = {key: value for key, value in schema.items() if key != "$ref"}
        return flat_schema({**definitions[name], **further}, definitions, (*within, name))
    if "anyOf" in schema:
        parts = [flat_schema(part, definitions, within) for part in schema["anyOf"]]
        some = [part for part in parts if part["type"] != "null"]
        types = list(dict.fromkeys(name for part in parts for name in types_of(part)))
        described = {"description": schema["description"]} if "description" in schema else {}
        return {**(some[0] if len(some) == 1 else {}), "type": types, **described}
    flat = {key: value for key, value in schema.items() if key not in ("title", "default", "$defs", "const")}
    if "const" in schema:
        flat["enum"] = [schema["const"]]
    if "type" not in flat:
        named = list(dict.fromkeys(JSON_TYPES[type(choice)] for choice in flat.get("enum", ())))
        flat["type"] = (named[0] if len(named) == 1 else named) or _ANY
    for key in ("items", "additionalProperties"):
        if flat.get(key) == {}:  # it allows everything
            del flat[key]
        elif isinstance(flat.get(key), dict):
            flat[key] = flat_schema(flat[key], definitions, within)
    if "properties" in flat:
        flat["properties"] = {name: flat_schema(part, definitions, within) for name, part in flat["properties"].items()}
    return flat


def payload_arguments(model: type[Any]) -> dict[str, Schema]:
    """Return the schemas of the fields of a payload model."""
    return {field.name: flat_schema(field.schema) for field in fields_of(model)}


# -- validation; strings are never converted to other types ----------------------------------------------------------

_BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("at least {}", lambda value, bound: value >= bound),
    "maximum": ("at most {}", lambda value, bound: value <= bound),
    "minLength": ("a text of at least {} characters", lambda value, bound: len(value) >= bound),
    "maxLength": ("a text of at most {} characters", lambda value, bound: len(value) <= bound),
}


_ANSWERED = ("status", "trigger_type")
"""Arguments whose unknown values the tools themselves report, as normal results."""
_FORMER = {("mark", "dismiss"): "resolve", ("mark", "restore"): "reopen"}
"""Values by their names until 0.2."""


def checked(schema: Schema, values: Mapping[str, Any] | None) -> Arguments:
    """Return the valid arguments without nulls, or raise a ToolProblem that names the argument."""
    arguments = dict(values or {})
    listed: dict[str, Schema] = schema["properties"]
    properties = {**UNLISTED, **listed} if "options" in listed else listed
    for name in arguments:
        if name not in properties:
            known = ", ".join(listed) or "none"
            raise ToolProblem(f"Unknown argument: {name[:100]}. This tool takes: {known}.")
    for name in schema["required"]:
        if name not in arguments:
            raise missing_argument(name, properties[name])
    arguments = {
        name: _fit(name, value, properties[name])
        for name, value in arguments.items()
        if value is not None or "null" not in types_of(properties[name])
    }
    return _with_options(arguments) if "options" in listed and "options" in arguments else arguments


def missing_argument(name: str, schema: Schema) -> ToolProblem:
    return ToolProblem(f"Missing argument: {name} is required ({_type_words(schema)}).")


def _fit(name: str, value: Any, schema: Schema) -> Any:
    # Clients may write a whole number as 3.0.
    value = int(value) if type(value) is float and value.is_integer() and "integer" in types_of(schema) else value
    value = _FORMER.get((name, value), value) if isinstance(value, str) else value
    kind = next((kind for kind in types_of(schema) if TYPES[kind][1](value)), None)
    if kind is None:
        raise ToolProblem(f"Invalid argument: {name} must be {_type_words(schema)}.")
    if kind == "string":
        _check_text(name, value)
    for rule, bound in schema.items():
        if rule in _BOUNDS and not _BOUNDS[rule][1](value, bound):
            raise ToolProblem(f"Invalid argument: {name} must be {_BOUNDS[rule][0].format(bound)}.")
        if rule == "enum" and value is not None and value not in bound and name not in _ANSWERED:
            raise ToolProblem(f"Invalid argument: {name} must be one of {', '.join(map(str, bound))}.")
    return value


def _check_text(name: str, value: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolProblem(f"Invalid argument: {name} contains lone surrogates, which are not valid text.") from error
    if "\x00" in value:
        raise ToolProblem(f"Invalid argument: {name} contains a NUL character, which is not valid text.")


def _type_words(schema: Schema) -> str:
    kinds = [kind for kind in types_of(schema) if kind != "null"]
    return " or ".join(f"an {kind}" if kind[0] in "aeiou" else f"a {kind}" for kind in kinds)
