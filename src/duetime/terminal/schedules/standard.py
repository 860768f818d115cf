"""The commands `add` and `edit` of every kind, from its payload model: an option for each field, beside those that all
kinds have. A kind without commands of its own gets them with texts that suit any kind."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from duetime.engine.errors import InvalidInput
from duetime.service.kind_spec import KindSpec, load
from duetime.service.options import policy_options, time_options
from duetime.service.payload_fields import PayloadField, inputs_of
from duetime.service.text import value_of
from duetime.terminal.context import Application, Db, Json, given_text, opened, program
from duetime.terminal.declarations import CommandSet, argument, option, with_parameters
from duetime.terminal.errors import ONE_WAY, name_fields
from duetime.terminal.schedules.commands import Id, kind_commands
from duetime.terminal.schedules.kind_view import KindView, view_of
from duetime.terminal.schedules.options import EditCommandOptions, Key, Name, PolicyCommandOptions, TriggerOptions

if TYPE_CHECKING:
    from duetime.service.operations.create import CreateSchedule
    from duetime.service.vocabulary import Definition

_UNCHANGED = "Everything that is not given stays the same, and a run in progress keeps its values."
_RESERVED = {*time_options(), *policy_options(), "tz", "starting", "id", "name", "key", "db", "json_"}
_TYPES: dict[str, tuple[Any, str]] = {
    "string": (str, "TEXT"), "integer": (int, "N"), "number": (float, "N"), "json": (str, "JSON"),
}  # fmt: skip


@dataclass(frozen=True)
class PayloadOptions:
    """Options for the payload of a kind. `payload_options` adds a field for each option."""

    model: ClassVar[type[Any]]

    def fields(self, main: str | None, policy: dict[str, Any]) -> dict[str, Any]:
        """Return the payload fields that are given; the kind checks them. `main` is the argument of `add`, or its
        option in `edit`. A kind may move options from the policy to its payload."""
        inputs, main_field = _inputs(self.model)
        values = [(inputs[name], value) for name, value in vars(self).items() if name in inputs]
        values += [] if main_field is None else [(main_field, main)]
        return {field.name: _value(field, value) for field, value in values if value not in (None, ())}

    def typed(self, app: Application, fields: dict[str, Any], stored: Definition | None = None) -> dict[str, Any]:
        """Return the fields with values of the types that the work takes, which only the application knows. `stored` is
        the schedule to edit."""
        return fields

    def opened(self, db: str | None, *, adds: bool) -> AbstractContextManager[Application]:
        """Open the application for one command."""
        return opened(db, making=adds)

    def add(self, app: Application, request: CreateSchedule, json_: bool) -> None:
        """Create the schedule and print it."""
        from duetime.terminal.schedules.change import add_schedule

        add_schedule(app, request, json_)


def payload_options(
    model: type[Any], base: type[PayloadOptions] = PayloadOptions, **completions: Mapping[str, Any]
) -> type[PayloadOptions]:
    """Return the options for a payload model, with the completion of their values by the shell."""
    inputs, _ = _inputs(model)
    name_fields({field.name: _flag(name, field) for name, field in inputs.items()})
    options = [(name, _option(name, field, completions.get(name, {})), None) for name, field in inputs.items()]
    return make_dataclass("Options", options, bases=(base,), namespace={"model": model}, frozen=True)


def payload_argument(model: type[Any]) -> Any:
    """Return the argument of `add` that a payload model declares; by default, it is the name of the schedule."""
    _, field = _inputs(model)
    placeholder, text = ("NAME", "Name of the schedule.") if field is None else (field.about.argument, _help(field))
    return Annotated[str, argument(placeholder, text)]


def _inputs(model: type[Any]) -> tuple[dict[str, PayloadField], PayloadField | None]:
    """Return the fields that have options, by the names of these, and the field that is the argument of `add`."""
    inputs = {name: each for name, each in inputs_of(model, _RESERVED, "payload_").items() if each.about.option != ""}
    main = next((name for name, each in inputs.items() if each.about.argument), None)
    return inputs, None if main is None else inputs.pop(main)


def _flag(name: str, field: PayloadField) -> str:
    return (field.about.option or "--" + name.replace("_", "-")).partition(" ")[0]


def _help(field: PayloadField) -> str:
    text = field.about.description
    return f"{text.removesuffix('.')}; - reads standard input." if field.about.is_text_input else text


def _option(name: str, field: PayloadField, completion: Mapping[str, Any]) -> Any:
    flag, text, usage = _flag(name, field), _help(field), field.about.option
    more = {"rich_help_panel": field.about.heading or None, **completion}
    if field.about.read_item is not None:
        return Annotated[list[str] | None, option(usage or f"{flag} VALUE", f"{text} Repeatable.", **more)]
    if field.input_type == "boolean":
        return Annotated[bool | None, option(usage or f"{flag}/--no-{flag[2:]}", text, show_default=False, **more)]
    type_, placeholder = _TYPES[field.input_type]
    return Annotated[type_ | None, option(usage or f"{flag} {placeholder}", text, **more)]


def _value(field: PayloadField, value: Any) -> Any:
    """Return the value of an option. What is repeated becomes a list or an object, and what is neither a text nor a
    number is parsed as JSON."""
    if field.about.read_item is not None:
        items = map(field.about.read_item, value)
        return dict(items) if field.type.schema.get("type") == "object" else list(items)
    if field.about.is_text_input:
        return given_text(value)
    return value_of(value) if field.input_type == "json" else value


def standard_commands(
    spec: KindSpec,
    options: type[PayloadOptions] | None = None,
    *,
    summary: str = "",
    add_help: str = "",
    edit_help: str = "",
    examples: tuple[str, str] = ("", ""),
    guarded: bool = False,
) -> CommandSet:
    """Return the command group of a kind. The examples are those of the group and of `add`. If `guarded`, another
    recipient does not get hidden values by an edit."""
    view, options = view_of(spec), options or payload_options(load(spec.payload))
    inputs, main = _inputs(options.model)
    usual = f"{spec.plural.capitalize()}: {spec.title[:1].lower()}{spec.title[1:]}, scheduled."
    commands = kind_commands(view, summary or usual, examples[0])
    add, edit = _add_command(spec, main), _edit_command(view, main, guarded)
    required = [name for name, field in inputs.items() if field.required]
    add_help = f"{add_help or f'Schedule a {spec.name}.'} Give {ONE_WAY}."
    edit_help = edit_help or f"Change a {spec.name}. {_UNCHANGED}"
    renamed = Name if main is None else _option(main.name, main, {})
    for command, annotation in ((add, payload_argument(options.model)), (edit, renamed)):
        command.__annotations__ |= {"main_": annotation, "payload_": options}
        if main is None:  # it is the name
            parameters = inspect.signature(command, eval_str=True).parameters
            with_parameters(command, [each for each in parameters.values() if each.name != "name"])
    commands.command(help=add_help, epilog=examples[1], required=required)(add)
    commands.command(help=edit_help)(edit)
    return commands


def _add_command(spec: KindSpec, main: PayloadField | None) -> Callable[..., None]:
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

        chosen = policy.values()
        fields = payload_.fields(main_, chosen)
        name = main_ if main is None else name
        with payload_.opened(db, adds=True) as app:
            fields = payload_.typed(app, fields)
            request = CreateSchedule(spec.name, fields, trigger.values(), policy=chosen, name=name, key=key)
            payload_.add(app, request, json_)

    return add


def _edit_command(view: KindView, main: PayloadField | None, guarded: bool) -> Callable[..., None]:
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
        from duetime.service.operations.edit import EditSchedule, NothingToChange
        from duetime.terminal.schedules.change import edit_schedule
        from duetime.terminal.schedules.display import find_here

        chosen = policy.values()
        fields = payload_.fields(main_, chosen)
        changes: dict[str, Any] = {"policy": chosen, "guarded": guarded}
        changes |= {"name": main_ if main is None else name, "times": trigger.values(), "starting": trigger.starting}
        try:
            with payload_.opened(db, adds=False) as app:
                schedule = find_here(app, view, id)
                fields = payload_.typed(app, fields, schedule.definition)
                edit_schedule(app, EditSchedule(schedule=schedule, fields=fields, **changes), json_)
        except NothingToChange as error:
            raise InvalidInput(f"{error.message}; see {program(view.command, 'edit', '--help')}") from None

    return edit
