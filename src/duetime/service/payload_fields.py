"""The fields of a payload model, a dataclass that describes the payload of a kind: their types, texts, bounds and
checks, from which the interfaces make arguments, options and inputs. Commands import this, so it imports little."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Container, Mapping
from functools import cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from duetime.engine.errors import InvalidInput
from duetime.engine.value_class import NamedTuple, dataclass
from duetime.service.json_types import JsonType, json_type_of

Check: TypeAlias = Callable[[str, Any], Any]
"""Returns the value of a field, or raises InvalidInput that names the field."""


@dataclass(frozen=True, slots=True)
class About:
    """What a field of a payload declares besides its type, in its annotation. Every part may be left out."""

    description: str = ""
    """A sentence for the command, the form and the tools."""
    brief: str = ""
    """A shorter one for agents, whose every conversation contains it."""
    check: Check | None = None
    """Replaces the check of the type."""
    minimum: int | None = None
    maximum: int | None = None
    """The bounds of a whole number, or of the length of a list."""
    option: str | None = None
    """Its option on the command line, such as `--header HEADER`; empty if it has none. By default, it has its name."""
    heading: str = ""
    """The heading of its option in the help."""
    argument: str = ""
    """Its placeholder as the argument of `add`, in place of the name of the schedule. `edit` has the option."""
    is_text_input: bool = False
    """Whether `-` reads it from standard input."""
    read_item: Callable[[str], Any] | None = None
    """Reads one text of an option that is repeated: an item of a list, or the name and the value of an entry."""


class PayloadField(NamedTuple):
    """A field of a payload model."""

    name: str
    type: JsonType
    required: bool
    default: Any
    about: About

    @property
    def schema(self) -> dict[str, Any]:
        """Its JSON schema for agents."""
        texts = {"description": self.about.brief or self.about.description}
        least, most = ("minItems", "maxItems") if self.type.schema.get("type") == "array" else ("minimum", "maximum")
        bounds = {least: self.about.minimum, most: self.about.maximum}
        return {**self.type.schema, **{name: each for name, each in (texts | bounds).items() if each not in (None, "")}}

    @property
    def input_schema(self) -> dict[str, Any]:
        """The schema of what people type for it, who leave it empty instead of null; empty if there are several."""
        parts = [part for part in self.type.schema.get("anyOf", [self.type.schema]) if part.get("type") != "null"]
        return parts[0] if len(parts) == 1 else {}

    @property
    def input_type(self) -> str:
        """The JSON type of what people type for it: string, integer, number or boolean; any other value is typed as
        JSON."""
        type_: str = self.input_schema.get("type", "")
        return type_ if type_ in ("string", "integer", "number", "boolean") else "json"

    def check(self, value: Any) -> Any:
        """Return the value. Raise InvalidInput, naming the field, if it is not valid."""
        if self.about.check is not None:
            return self.about.check(self.name, value)
        if self.about.maximum is not None:
            return whole_number(self.about.minimum or 0, self.about.maximum)(self.name, value)
        self.type.check(self.name, value)
        return value


def fields_of(model: type) -> Collection[PayloadField]:
    """Return the fields of a dataclass, in their order."""
    return _fields_by_name(model).values()


@cache
def _fields_by_name(model: Any) -> Mapping[str, PayloadField]:
    hints = get_type_hints(model, include_extras=True)
    return {each.name: _field(each, hints[each.name]) for each in dataclasses.fields(model)}


def _field(field: dataclasses.Field[Any], hint: Any) -> PayloadField:
    type_, about = get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, None)
    if not isinstance(about, About):
        type_, about = hint, About(field.metadata.get("description", ""))
    if field.default is None and get_origin(type_) in (Union, UnionType):  # None means that it is not given
        type_ = reduce(or_, (part for part in get_args(type_) if part is not NoneType))
    built = None if field.default_factory is dataclasses.MISSING else field.default_factory()
    default = built if field.default is dataclasses.MISSING else field.default
    required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    return PayloadField(field.name, json_type_of(type_), required, default, about)


def inputs_of(model: type, taken: Container[str], prefix: str) -> dict[str, PayloadField]:
    """Return the fields by the names of their inputs. A name that another input already uses gets the prefix."""
    return {prefix + field.name if field.name in taken else field.name: field for field in fields_of(model)}


def checked_payload(model: type, payload: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the payload with its defaults, without those that are None. Raise InvalidInput, naming the field, if it
    does not fit the model."""
    fields = _fields_by_name(model)
    refuse_unknown(payload, fields, kind)
    checked = {}
    for name, field in fields.items():
        if name in payload and (payload[name] is not None or field.required):
            checked[name] = field.check(payload[name])
        elif field.required and field.about.check is not None:
            field.about.check(name, None)  # it says what is valid
        elif field.required:
            raise InvalidInput(field=name, problem="is missing; give it")
        elif field.default is not None:
            checked[name] = field.default
    return checked


def refuse_unknown(payload: Mapping[str, Any], known: Collection[str], kind: str) -> None:
    """Refuse a payload with a field that its kind does not have."""
    for name in payload:
        if name not in known:
            problem = f"a {kind} has no such field; it has {', '.join(known)}"
            raise InvalidInput(field=str(name)[:60], problem=problem)


def rule(fits: Callable[[Any], bool], problem: str) -> Check:
    """Return a check with one condition. `problem` says what is valid."""

    def check(field: str, value: Any) -> Any:
        if not fits(value):
            raise InvalidInput(field=field, problem=problem)
        return value

    return check


@cache  # every create checks some
def whole_number(least: int, most: int) -> Check:
    def fits(value: Any) -> bool:
        return type(value) is int and least <= value <= most

    return rule(fits, f"must be a whole number from {least} to {most}")
