"""Models of bodies and queries, built from the requests of the operations that routes carry out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, Field, create_model

from duetime.rest.requests import Anything, Json, Number, Text
from duetime.rest.requests import Time as TimeText
from duetime.service.operations.declaration import Argument, ScheduleReference, Time, arguments_of

R = TypeVar("R")


def model_of(name: str, request: type, base: type[BaseModel], *without: str) -> Any:
    """Return the model of the arguments of an operation, apart from those that the path of the route contains."""
    fields: dict[str, Any] = {each.name: _field(each) for each in arguments_of(request) if each.name not in without}
    return create_model(name, __base__=base, __module__=__name__, __doc__=request.__doc__, **fields)


def request_of(request: type[R], model: BaseModel, **further: Any) -> R:
    """Return the request that a body or a query makes."""
    fields = vars(model)
    values = {each.attribute: fields[each.name] for each in arguments_of(request) if each.name in fields}
    return request(**values, **further)


def _field(argument: Argument) -> tuple[Any, Any]:
    declared, is_text = argument.field, argument.type is str and not argument.field.choices
    type_ = _type(argument)
    default = ... if argument.is_required else argument.default
    bounds = {"ge": declared.minimum, "le": declared.maximum, "max_length": declared.max_length}
    limits: dict[str, Any] = {name: bound for name, bound in bounds.items() if bound is not None}
    if is_text:
        type_ = Annotated[type_, Field(min_length=1, **limits)]
        limits = {}
    optional = type_ | None if default is None else type_
    if isinstance(default, tuple):
        return optional, Field(default_factory=list, description=declared.description)
    return optional, Field(default, description=declared.description, **limits)


def _type(argument: Argument) -> Any:
    type_ = argument.type
    if type_ == Time:
        return TimeText
    if type_ == ScheduleReference:
        return Annotated[Text, Field(min_length=1, max_length=200)]
    if type_ is str:
        return Literal[argument.field.choices] if argument.field.choices else Text
    if type_ is Any:
        return Anything
    if get_origin(type_) is Mapping:
        return Json
    if get_origin(type_) is Sequence:
        declared = argument.field
        bounds = Field(min_length=declared.min_items, max_length=declared.max_items, fail_fast=True)
        items, text = get_args(get_args(type_)[0]), Annotated[Text, Field(max_length=200)]
        item: Any = Number | text if items == (int, str) else text if str in items else Number
        return Annotated[list[item], bounds]
    return type_
