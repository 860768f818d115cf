"""Payload models: a dataclass that describes the payload of a kind, which then needs no tools, command or form of its
own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeAlias, get_type_hints

from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller, Prepared, ThreadUse
from duetime.service.json_types import JsonType, json_type_of
from duetime.service.kind_spec import KindHooks


class PayloadField(NamedTuple):
    """A field of a payload model. The text under `description` in the field's metadata is shown to users."""

    name: str
    type: JsonType
    required: bool
    default: Any
    description: str

    @property
    def schema(self) -> dict[str, Any]:
        return {**self.type.schema, "description": self.description} if self.description else dict(self.type.schema)


def fields_of(model: type[Any]) -> tuple[PayloadField, ...]:
    """Return the fields of a dataclass, in their order."""
    hints = get_type_hints(model, include_extras=True)
    return tuple(_field(each, json_type_of(hints[each.name])) for each in dataclasses.fields(model))


def _field(field: dataclasses.Field[Any], type_: JsonType) -> PayloadField:
    made = None if field.default_factory is dataclasses.MISSING else field.default_factory()
    default = made if field.default is dataclasses.MISSING else field.default
    required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    return PayloadField(field.name, type_, required, default, field.metadata.get("description", ""))


def inputs_of(model: type[Any], taken: Container[str], prefix: str) -> dict[str, PayloadField]:
    """Return the fields by the names of their inputs. A name that another input already uses gets the prefix."""
    return {prefix + field.name if field.name in taken else field.name: field for field in fields_of(model)}


def checked_payload(model: type[Any], payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payload with its defaults. Raise InvalidInput, naming the field, if it does not fit the model."""
    fields = {field.name: field for field in fields_of(model)}
    for name in payload:
        if name not in fields:
            raise InvalidInput(field=name, problem=f"there is no such field; choose from {', '.join(fields)}")
    for field in fields.values():
        if field.required and field.name not in payload:
            raise InvalidInput(field=field.name, problem="is missing; give it")
        if field.name in payload:
            field.type.check(field.name, payload[field.name])
    return {field.name: payload.get(field.name, field.default) for field in fields.values()}


Check: TypeAlias = Callable[[str, Any], Any]
"""Returns the value of a field, or raises InvalidInput that names the field."""


def rule(fits: Callable[[Any], bool], problem: str) -> Check:
    """Return a check with one condition. `problem` says what is valid."""

    def check(field: str, value: Any) -> Any:
        if not fits(value):
            raise InvalidInput(field=field, problem=problem)
        return value

    return check


def whole_number(least: int, most: int) -> Check:
    def fits(value: Any) -> bool:
        return type(value) is int and least <= value <= most

    return rule(fits, f"must be a whole number from {least} to {most}")


class ModelKind(KindHooks):
    """Base of a kind whose payload is described by a dataclass. Subclasses add `name`, `model` and `execute`."""

    name: str
    model: ClassVar[type[Any]]
    subject: ClassVar[str] = ""
    """Payload field under which its schedules are filed, so that lists can be filtered by it."""
    defaults: Mapping[str, Any] = MappingProxyType({})
    counts_depth = True
    thread_use = ThreadUse.SHARED
    remembered: tuple[str, ...] = ()

    def public_id(self, now: Instant, trigger_type: str) -> str:
        return f"{self.name}_{{id}}_{now // SECOND}"

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        checked = checked_payload(self.model, payload)
        return Prepared(checked, str(checked.get(self.subject, self.name))[:200])

    def close(self) -> None:
        """Do nothing, because there is nothing to stop."""
