"""The fields of a job in the dashboard's form: its task, and one input for each argument that the task takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from duetime.dashboard.kind_forms import FormInput, KindForm, Values, form_input, json_of, number_of, text_of
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.kinds.jobs.arguments import TaskArgument
from duetime.kinds.jobs.kind import JobKind
from duetime.kinds.jobs.registry import Task
from duetime.service.payload_fields import About, PayloadField
from duetime.service.services import Services
from duetime.service.text import value_of

PREFIX: Final = "arg-"
"""Prefix of the names of argument inputs; a type and the name of the argument follow: `arg-number-words`."""


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
        texts = {name: json.dumps(value, ensure_ascii=False) if value else "" for name, value in arguments.items()}
        return super().show(payload) | texts

    def arrange(self, services: Services, caller: Caller, values: Values) -> Values:
        """Move named arguments into inputs of their own if the task is known, and back into JSON if it is not."""
        named, positional = _json_or(values, "kwargs", dict), _json_or(values, "args", list) or []
        texts = {name: text for name, text in values.items() if not name.startswith(PREFIX)}
        typed = {_argument_of(name): values[name] for name in _inputs_in(values)}
        inputs = _inputs(_task_of(services, caller, values), positional)
        further = {} if named is None else named
        if not inputs:
            further |= {name: value_of(text) for name, text in typed.items() if text.strip()}
        for each in inputs:
            name = _argument_of(each.name)
            stored = further.pop(name, None)
            texts[each.name] = typed.get(name) or _show(each, stored)
        if named is None:  # text that cannot be parsed stays as it was typed
            return texts
        return texts | {"kwargs": json.dumps(further, ensure_ascii=False) if further else ""}

    def problems(
        self, services: Services, caller: Caller, kind: str, values: Values, stored: Mapping[str, Any]
    ) -> list[InvalidInput]:
        problems: list[InvalidInput] = []
        for name in ("args", "kwargs", *_inputs_in(values)):
            try:
                json_of(values, name, list if name == "args" else dict) if name in self.fields else _value(values, name)
            except InvalidInput as error:
                problems.append(error)
        task, unread = _task_of(services, caller, values), {each.field for each in problems}
        if task is None or unread & {"args", "kwargs"}:
            return problems or super().problems(services, caller, kind, values, stored)
        readable = {name: text for name, text in values.items() if _argument_of(name) not in unread}
        payload = self.payload(kind, readable, stored)
        known = unread | {each.name for each in task.arguments.positional[: len(payload["args"])]}
        for argument in task.arguments.listed:
            if argument.name not in known:
                problems += _argument_problem(task, argument, payload["kwargs"])
        order = [argument.name for argument in task.arguments.listed]
        problems.sort(key=lambda error: order.index(error.field) if error.field in order else -1)
        return problems or super().problems(services, caller, kind, values, stored)

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


def _json_or(values: Values, name: str, type_: type[Any]) -> Any:
    """Return the JSON that was typed, or None if it cannot be parsed."""
    try:
        return json_of(values, name, type_)
    except InvalidInput:
        return None


def _inputs_in(values: Values) -> list[str]:
    return [name for name in values if _argument_of(name)]


def _argument_of(name: str) -> str:
    """Return the argument that an input is for; empty if the input is for none."""
    return name.split("-", 2)[2] if name.startswith(PREFIX) and name.count("-") >= 2 else ""


def _inputs(task: Task | None, positional: Sequence[Any]) -> list[FormInput]:
    """Return an input for each argument that can be given by name and is not given by position."""
    if task is None:
        return []
    taken = {each.name for each in task.arguments.positional[: len(positional)]}
    return [_input(each) for name, each in task.arguments.named.items() if name not in taken]


def _input(argument: TaskArgument) -> FormInput:
    default, about = (
        None if argument.required else argument.default,
        About(argument.shape.schema.get("description", "")),
    )
    field = PayloadField(argument.name, argument.shape, argument.required, default, about)
    each = form_input(field, "", checkboxes=False)
    return each._replace(name=f"{PREFIX}{each.type}-{argument.name}")


def _value(values: Values, name: str) -> Any:
    """Return what was typed for an argument."""
    argument = _argument_of(name)
    if name.startswith(f"{PREFIX}text-") or not values[name].strip():
        return values[name]
    read = number_of if name.startswith(f"{PREFIX}number-") else json_of
    return read({argument: values[name]}, argument)


def _show(each: FormInput, stored: Any) -> str:
    if stored is None:
        return ""
    return text_of(stored) if each.type != "json" else json.dumps(stored, ensure_ascii=False)


def _argument_problem(task: Task, argument: TaskArgument, arguments: Mapping[str, Any]) -> list[InvalidInput]:
    if argument.name not in arguments:
        missing = f"missing; the task {task.name} needs it"
        return [InvalidInput(field=argument.name, problem=missing)] if argument.required else []
    try:
        argument.shape.check(argument.name, arguments[argument.name])
    except InvalidInput as error:
        return [error]
    return []


FORM = JobForm()
