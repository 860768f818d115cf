"""The commands `add` and `edit` of every kind: options for its payload, beside those that all kinds have. A kind
without commands of its own gets one option for each field of its payload model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from duetime.service.kind_spec import KindSpec, load
from duetime.service.options import policy_options, time_options
from duetime.terminal.context import Application, Db, Json, opened, value_of
from duetime.terminal.schedules.commands import Id, kind_commands
from duetime.terminal.schedules.kind_view import KindView, standard_view
from duetime.terminal.schedules.options import (
    EditCommandOptions,
    Key,
    Name,
    PolicyCommandOptions,
    TriggerOptions,
)
from duetime.terminal.typer_ext import PlainCommand, argument, bundled

if TYPE_CHECKING:
    from duetime.service.operations.create import CreateSchedule
    from duetime.service.payload_model import PayloadField

ONE_WAY = "Give exactly one of --at, --delay, --every, --cron, --rrule and --when."


@dataclass(frozen=True)
class PayloadOptions:
    """Options for the payload of a kind. A subclass is a dataclass of options with the names of its fields."""

    def given(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None and value is not False}

    def fields(self, main: str | None, policy: dict[str, Any]) -> dict[str, Any]:
        """Return the payload fields that are given. `main` is the argument of `add`, or its option in `edit`. A kind
        may move options from the policy to its payload."""
        return self.given()

    @contextmanager
    def opened(self, db: str | None, *, adds: bool) -> Iterator[Application]:
        """Open the application for one command."""
        with opened(db, making=adds) as app:
            yield app

    def add(self, app: Application, request: CreateSchedule, json_: bool) -> None:
        """Create the schedule and print it."""
        from duetime.terminal.schedules.change import add_schedule

        add_schedule(app, request, json_)


class Main(NamedTuple):
    """The argument of `add`, and the option of `edit` for the same value."""

    argument: Any
    option: Any


_NAME = Main(Annotated[str, argument("NAME", "Name of the schedule.")], Name)


def add_and_edit(
    commands: typer.Typer,
    view: KindView,
    payload: type[PayloadOptions],
    main: Main | None = None,
    *,
    add_help: str,
    edit_help: str,
    examples: str = "",
    required: Container[str] = (),
    guarded: bool = False,
) -> None:
    """Add the commands to the group of a kind. `main` is a part of the payload; by default, the argument is the name.
    `add` needs the `required` options. If `guarded`, another recipient does not get hidden values by an edit."""

    def add(
        main_: Any,
        trigger: TriggerOptions,
        payload_: Any,
        policy: PolicyCommandOptions,
        name: Name = None,
        key: Key = None,
        db: Db = None,
        json_: Json = False,
    ) -> None:
        from duetime.service.operations.create import CreateSchedule

        chosen = policy.given()
        fields = payload_.fields(main_, chosen)
        name = main_ if main is None else name
        request = CreateSchedule(str(view.kind), fields, trigger.given(), policy=chosen, name=name, key=key)
        with payload_.opened(db, adds=True) as app:
            payload_.add(app, request, json_)

    def edit(
        id: Id,
        trigger: EditCommandOptions,
        payload_: Any,
        policy: PolicyCommandOptions,
        name: Name = None,
        main_: Any = None,
        db: Db = None,
        json_: Json = False,
    ) -> None:
        from duetime.service.operations.edit import EditSchedule
        from duetime.terminal.schedules.change import edit_schedule
        from duetime.terminal.schedules.display import find_here

        chosen = policy.given()
        changes = {"fields": payload_.fields(main_, chosen), "policy": chosen, "guarded": guarded}
        changes |= {"name": main_ if main is None else name, "times": trigger.given(), "starting": trigger.starting}
        with payload_.opened(db, adds=False) as app:
            edit_schedule(app, EditSchedule(schedule=find_here(app, view, id), **changes), json_)

    texts, removed = main or _NAME, () if main else ("name",)
    for command, help_, annotation in ((add, add_help, texts.argument), (edit, edit_help, texts.option)):
        command.__annotations__ |= {"main_": annotation, "payload_": payload}
        function = _with_signature(bundled(command), removed, required if command is add else ())
        commands.command(cls=PlainCommand, help=help_, epilog=examples if command is add else None)(function)


def _with_signature(
    function: Callable[..., None], removed: Container[str], required: Container[str]
) -> Callable[..., None]:
    """Return the function of a command without some of its options, and with others required."""
    parameters = [
        each.replace(default=inspect.Parameter.empty) if each.name in required else each
        for each in inspect.signature(function).parameters.values()
        if each.name not in removed
    ]
    vars(function)["__signature__"] = inspect.Signature(parameters)
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    return function


# Kinds that only their payload model describes.

_RESERVED = {*time_options(), *policy_options(), "tz", "starting", "id", "name", "key", "db", "json_"}


def standard_commands(spec: KindSpec) -> typer.Typer:
    from duetime.service.payload_model import inputs_of  # the commands of other kinds need none of it

    view, inputs = standard_view(spec), inputs_of(load(spec.payload), _RESERVED, "payload_")
    commands = kind_commands(view, f"{spec.plural.capitalize()}: {spec.title[:1].lower()}{spec.title[1:]}, scheduled.")

    def fields(self: PayloadOptions, _main: str | None, _policy: dict[str, Any]) -> dict[str, Any]:
        """Return the given values. A text stays a text; any other value is parsed as JSON and checked by the kind."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        is_plain = {name: field.schema.get("type") in ("string", "boolean") for name, field in inputs.items()}
        return {inputs[name].name: each if is_plain[name] else value_of(each) for name, each in given.items()}

    options = [(name, _option(name, field), None) for name, field in inputs.items()]
    payload = make_dataclass(
        "ModelOptions", options, bases=(PayloadOptions,), namespace={"fields": fields}, frozen=True
    )
    add_and_edit(
        commands,
        view,
        payload,
        add_help=f"Schedule a {spec.name}. {ONE_WAY}",
        edit_help=f"Change a {spec.name}. What is not given stays the same, and a run in progress keeps its values.",
        required=[name for name, field in inputs.items() if field.required],
    )
    return commands


def _option(name: str, field: PayloadField) -> Any:
    flag, type_ = "--" + name.replace("_", "-"), field.schema.get("type")
    if type_ == "boolean":
        return Annotated[
            bool | None, typer.Option(f"{flag}/--no-{flag[2:]}", help=field.description, show_default=False)
        ]
    text = field.description if type_ == "string" else f"{field.description} As JSON.".strip()
    return Annotated[str | None, typer.Option(flag, metavar=str(type_ or "value").upper(), help=text)]
