"""The fields of a job in the dashboard's form: its task, and one input for each argument that the task takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from duetime.dashboard.kind_forms import KindForm, Values, json_of, number_of, text_of
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.kinds.jobs.arguments import TaskArgument
from duetime.kinds.jobs.kind import JobKind
from duetime.kinds.jobs.registry import Task
from duetime.service.services import Services

PREFIX: Final = "arg-"
"""Prefix of the names of argument inputs; a type and the name of the argument follow: `arg-number-words`."""
_TYPES: Final = {"string": "text", "integer": "number", "number": "number"}


class ArgumentInput(NamedTuple):
    """The input of one argument. `type` is text, number or json; a choice is json, too."""

    input: str
    label: str
    type: str
    hint: str
    required: bool
    choices: list[str]


class JobForm(KindForm):
    fields = ("task", "args", "kwargs")
    template = "job/form.html"
    named_by = ("task",)
    named_by_label = "task"
    prefix = PREFIX

    def read(self, values: Values) -> dict[str, Any]:
        typed = {_argument_of(name): _value(values, name) for name in _inputs_in(values) if values[name].strip()}
        return {
            "task": values["task"],
            "args": json_of(values, "args", list),
            "kwargs": json_of(values, "kwargs", dict) | typed,
        }

    def show(self, payload: Mapping[str, Any]) -> Values:
        arguments = {name: payload.get(name) for name in ("args", "kwargs")}
        shown = {name: json.dumps(value, ensure_ascii=False) if value else "" for name, value in arguments.items()}
        return super().show(payload) | shown

    def arrange(self, services: Services, caller: Caller, values: Values) -> Values:
        """Move named arguments into inputs of their own if the task is known, and back into JSON if it is not."""
        named, positional = _json_or(values, "kwargs", dict), _json_or(values, "args", list) or []
        kept = {name: text for name, text in values.items() if not name.startswith(PREFIX)}
        typed = {_argument_of(name): values[name] for name in _inputs_in(values)}
        inputs = _inputs(_task_of(services, caller, values), positional)
        further = {} if named is None else named
        if not inputs:
            further |= {name: _guessed(text) for name, text in typed.items() if text.strip()}
        for each in inputs:
            name = _argument_of(each.input)
            stored = further.pop(name, None)
            kept[each.input] = typed.get(name) or _shown(each, stored)
        if named is None:  # text that cannot be parsed stays as it was typed
            return kept
        return kept | {"kwargs": json.dumps(further, ensure_ascii=False) if further else ""}

    def problems(
        self, services: Services, caller: Caller, kind: str, values: Values, stored: Mapping[str, Any]
    ) -> list[InvalidInput]:
        found: list[InvalidInput] = []
        for name in ("args", "kwargs", *_inputs_in(values)):
            try:
                json_of(values, name, list if name == "args" else dict) if name in self.fields else _value(values, name)
            except InvalidInput as error:
                found.append(error)
        task, unread = _task_of(services, caller, values), {each.field for each in found}
        if task is None or unread & {"args", "kwargs"}:
            return found or super().problems(services, caller, kind, values, stored)
        readable = {name: text for name, text in values.items() if _argument_of(name) not in unread}
        payload = self.payload(kind, readable, stored)
        known = unread | {each.name for each in task.arguments.positional[: len(payload["args"])]}
        for argument in task.arguments.listed:
            if argument.name not in known:
                found += _argument_problem(task, argument, payload["kwargs"])
        order = [argument.name for argument in task.arguments.listed]
        found.sort(key=lambda error: order.index(error.field) if error.field in order else -1)
        return found or super().problems(services, caller, kind, values, stored)

    def input_in(self, field: str, values: Values) -> str:
        return next((name for name in _inputs_in(values) if _argument_of(name) == field), field)

    def context(self, services: Services, caller: Caller, values: Values) -> dict[str, Any]:
        positional = _json_or(values, "args", list) or []
        task = _task_of(services, caller, values)
        return {
            "tasks": services.kind(JobKind).registry.describe(caller),
            "chosen_task": None if task is None else task.describe(),
            "arguments": _inputs(task, positional),
        }


def _task_of(services: Services, caller: Caller, values: Values) -> Task | None:
    """Return the task that the form names; None if there is no such task, or if it names a pipeline."""
    return services.kind(JobKind).registry.visible(values["task"].strip(), caller)


def _json_or(values: Values, name: str, wanted: type[Any]) -> Any:
    """Return the JSON that was typed, or None if it cannot be parsed."""
    try:
        return json_of(values, name, wanted)
    except InvalidInput:
        return None


def _inputs_in(values: Values) -> list[str]:
    return [name for name in values if _argument_of(name)]


def _argument_of(name: str) -> str:
    """Return the argument that an input is for; empty if the input is for none."""
    return name.split("-", 2)[2] if name.startswith(PREFIX) and name.count("-") >= 2 else ""


def _inputs(task: Task | None, positional: Sequence[Any]) -> list[ArgumentInput]:
    """Return an input for each argument that can be given by name and is not given by position."""
    if task is None:
        return []
    taken = {each.name for each in task.arguments.positional[: len(positional)]}
    return [_input(each) for name, each in task.arguments.named.items() if name not in taken]


def _input(argument: TaskArgument) -> ArgumentInput:
    schema = argument.shape.schema
    parts = [part for part in schema.get("anyOf", [schema]) if part.get("type") != "null"]
    part = parts[0] if len(parts) == 1 else {}
    choices = [json.dumps(each) for each in part.get("enum", ())]
    if part.get("type") == "boolean":
        choices = ["true", "false"]
    type_ = "json" if choices else _TYPES.get(part.get("type", ""), "json")
    hint = schema.get("description", "")
    if not argument.required and argument.default is not None:
        hint = f"{hint} Default: {_default(argument)}.".strip()
    if type_ == "json" and not choices:
        hint = f"{hint} JSON.".strip()
    label = argument.name.replace("_", " ")
    name = f"{PREFIX}{type_}-{argument.name}"
    return ArgumentInput(name, label[:1].upper() + label[1:], type_, hint, argument.required, choices)


def _default(argument: TaskArgument) -> str:
    try:
        return json.dumps(argument.default, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(argument.default)[:60]


def _value(values: Values, name: str) -> Any:
    """Return what was typed for an argument."""
    argument = _argument_of(name)
    if name.startswith(f"{PREFIX}text-") or not values[name].strip():
        return values[name]
    read = number_of if name.startswith(f"{PREFIX}number-") else json_of
    return read({argument: values[name]}, argument)


def _shown(each: ArgumentInput, stored: Any) -> str:
    if stored is None:
        return ""
    return text_of(stored) if each.type != "json" else json.dumps(stored, ensure_ascii=False)


def _guessed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _argument_problem(task: Task, argument: TaskArgument, given: Mapping[str, Any]) -> list[InvalidInput]:
    if argument.name not in given:
        missing = f"missing; the task {task.name} needs it"
        return [InvalidInput(field=argument.name, problem=missing)] if argument.required else []
    try:
        argument.shape.check(argument.name, given[argument.name])
    except InvalidInput as error:
        return [error]
    return []


FORM = JobForm()
