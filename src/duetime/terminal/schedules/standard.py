"""The standard command group of a kind that has none of its own: one option for each field of its payload model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from duetime.engine.validation import NewSchedule
from duetime.service.kind_spec import KindSpec, load
from duetime.service.options import policy_options, time_options
from duetime.service.payload_model import PayloadField, inputs_of
from duetime.terminal.context import Db, Json, opened, value_of
from duetime.terminal.schedules.change import add_schedule, edit_schedule
from duetime.terminal.schedules.commands import Id, kind_commands
from duetime.terminal.schedules.kind_view import standard_view
from duetime.terminal.schedules.options import EditCommandOptions, Key, Name, PolicyCommandOptions, TriggerOptions
from duetime.terminal.typer_ext import PlainCommand, argument, bundled

_RESERVED = {*time_options(), *policy_options(), "tz", "starting", "id", "name", "key", "db", "json_"}


def standard_commands(spec: KindSpec) -> typer.Typer:
    fields = inputs_of(load(spec.payload), _RESERVED, "payload_")
    view = standard_view(spec)
    commands = kind_commands(view, f"{spec.plural.capitalize()}: {spec.title[:1].lower()}{spec.title[1:]}, scheduled.")

    def add(
        name: Annotated[str, argument("NAME", "Name of the schedule.")],
        trigger: TriggerOptions,
        policy: PolicyCommandOptions,
        key: Key = None,
        db: Db = None,
        json_: Json = False,
        **given: Any,
    ) -> None:
        when, payload = trigger.parsed(), _payload(fields, given)
        new = NewSchedule(spec.name, name, when.type, when.config, payload, policy.given(), when.timezone, key)
        with opened(db, making=True) as app:
            add_schedule(app, new, json_)

    def edit(
        id: Id,
        trigger: EditCommandOptions,
        policy: PolicyCommandOptions,
        name: Name = None,
        db: Db = None,
        json_: Json = False,
        **given: Any,
    ) -> None:
        stated, payload = policy.given(), _payload(fields, given)
        with opened(db) as app:
            edit_schedule(app, view, id, trigger, json_, name=name, payload=payload, policy=stated)

    helped: dict[Callable[..., None], str] = {
        add: f"Schedule a {spec.name}. Give exactly one of --at, --delay, --every, --cron, --rrule and --when.",
        edit: f"Change a {spec.name}. What is not given stays the same, and a run in progress keeps its values.",
    }
    for command, help_ in helped.items():
        made = bundled(_with_options(command, fields, required=command is add))
        commands.command(cls=PlainCommand, help=help_)(made)
    return commands


def _with_options(
    function: Callable[..., None], fields: Mapping[str, PayloadField], *, required: bool
) -> Callable[..., None]:
    """Replace `**given` in the signature with a parameter for each field."""
    signature = inspect.signature(function, eval_str=True)
    own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [_option(name, field, required=required and field.required) for name, field in fields.items()]
    shown = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (own[0], *options, *own[1:])]
    vars(function)["__signature__"] = inspect.Signature(shown)
    return function


def _option(name: str, field: PayloadField, *, required: bool) -> inspect.Parameter:
    flag, type_ = "--" + name.replace("_", "-"), field.schema.get("type")
    kind, default = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty if required else None
    if type_ == "boolean":
        option = typer.Option(f"{flag}/--no-{flag[2:]}", help=field.description, show_default=False)
        return inspect.Parameter(name, kind, default=default, annotation=Annotated[bool | None, option])
    text = field.description if type_ == "string" else f"{field.description} As JSON.".strip()
    option = typer.Option(flag, metavar=str(type_ or "value").upper(), help=text)
    annotation = Annotated[str, option] if required else Annotated[str | None, option]
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _payload(fields: Mapping[str, PayloadField], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given values. A text stays a text; any other value is parsed as JSON and checked by the kind."""
    return {
        field.name: given[name] if field.schema.get("type") in ("string", "boolean") else value_of(given[name])
        for name, field in fields.items()
        if given[name] is not None
    }
