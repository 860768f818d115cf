"""How an operation is declared: the arguments of its request with their types, bounds and descriptions; its answer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from datetime import datetime
from functools import cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from duetime.engine.clock import Instant, instant_of
from duetime.engine.errors import DuetimeError, InvalidInput, UnreadableTime
from duetime.engine.model import Schedule
from duetime.engine.times import clock_local, read_instant
from duetime.engine.times.zones import known_zone
from duetime.engine.value_class import dataclass
from duetime.service.errors import refuse
from duetime.service.kind_spec import check_kind
from duetime.service.presenters import trigger_shape
from duetime.service.services import Call
from duetime.service.warnings import ScheduleWarning

T = TypeVar("T")


class Answer(NamedTuple, Generic[T]):
    """The answer of an operation; an interface shows all of it, and adds nothing of its own."""

    value: T
    warnings: Sequence[ScheduleWarning] = ()
    notes: Sequence[str] = ()
    """Sentences about the value for a person."""


@dataclass(frozen=True, slots=True)
class Field:
    """Describes an argument of a request, in the annotation of its type."""

    description: str
    brief: str = ""
    """A description for agents, whose every conversation contains it; by default, the other one."""
    minimum: float | None = None
    maximum: float | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    choices: tuple[str, ...] = ()
    name: str | None = None
    """Its name in the interfaces, if that is no name in Python."""


Time = str | datetime | Instant
"""A time as it was written, such as `tomorrow 9am`, or one that was read already."""
ScheduleReference = str | int | Schedule
"""The id, the number or the unambiguous name of a schedule, or a schedule that was read already."""


MAX_LIMIT: Final = 1000
Kind = Annotated[str | None, Field("Filter by kind, such as job.", max_length=200)]
Owner = Annotated[str | None, Field("Only this owner; for operators, who otherwise see all.", max_length=200)]
Tagged = Annotated[str | None, Field("Only with this tag.", brief="With this tag.", max_length=200)]
Limit = Annotated[int, Field("Maximum number of results.", brief="At most; default 20.", minimum=1, maximum=MAX_LIMIT)]
Cursor = Annotated[
    str | None,
    Field("`next_cursor` of the previous page.", brief="next_cursor of the last page.", max_length=200),
]


class Argument(NamedTuple):
    """An argument of an operation, for the adapter of an interface."""

    name: str
    """Its name in the interfaces."""
    attribute: str
    """Its name in the request class."""
    type: Any
    """Its type, without None."""
    is_required: bool
    default: Any
    field: Field


_NOUNS: Final[dict[Any, str]] = {
    str: "a text", bool: "True or False", int: "a whole number", float: "a number", Mapping: "a mapping",
    Sequence: "a list",
}  # fmt: skip


class OperationRequest:
    """The request of an operation. A value of another type than declared is refused: a program may give anything."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_types(self)


def check_types(request: Any) -> None:
    declared: Any = type(request)
    for attribute, name, types in _types_of(declared):
        value = getattr(request, attribute)
        if type(value) not in types:
            check_type(name, value, *types)


def check_type(name: str, value: object, *types: type) -> None:
    if not isinstance(value, types) or (isinstance(value, str) and str not in types):  # a text is no list
        named = [each for each in types if each in _NOUNS and not (each is int and float in types)]
        nouns = " or ".join(_NOUNS[each] for each in named)
        raise InvalidInput(field=name, problem=f"must be {nouns}, not {value!r:.80}")


@cache
def _types_of(request: type) -> tuple[tuple[str, str, tuple[type, ...]], ...]:
    """Return the attributes of a request whose types can be checked, the names of their arguments, and the types."""
    rows = []
    for attribute, annotation in get_type_hints(request, include_extras=True).items():
        hint, field = get_args(annotation)[:2] if get_origin(annotation) is Annotated else (annotation, None)
        parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        types = [get_origin(part) or getattr(part, "__supertype__", part) for part in parts]
        types += [int] if float in types else []
        if all(isinstance(each, type) and each not in (Any, object, tuple) for each in types):
            rows.append((attribute, (field and field.name) or attribute, tuple(types)))
    return tuple(rows)


_declared: dict[type, tuple[Argument, ...]] = {}


def arguments_of(request: type) -> tuple[Argument, ...]:
    """Return the arguments that a request class declares for all interfaces. Fields without a description are for the
    programs that make a request, not for its users."""
    if request not in _declared:
        _declared[request] = tuple(_arguments(request))
    return _declared[request]


def _arguments(request: Any) -> Iterator[Argument]:
    hints = get_type_hints(request, include_extras=True)
    for each in fields(request):
        hint = hints[each.name]
        if get_origin(hint) is not Annotated:
            continue
        type_, field = get_args(hint)[:2]
        is_required = each.default is MISSING and each.default_factory is MISSING
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        yield Argument(field.name or each.name, each.name, _without_none(type_), is_required, default, field)


def _without_none(type_: Any) -> Any:
    if get_origin(type_) not in (Union, UnionType):
        return type_
    return reduce(or_, (each for each in get_args(type_) if each is not NoneType))


def read_time(
    call: Call, time: Time | None, field: str, *, first: bool = False, last: bool = False, past: bool = False
) -> Instant | None:
    """Return the instant of an argument. With `first` or `last`, it is an inclusive end of a range, and a day without a
    time means all of that day. With `past`, it may be `yesterday` or `2 hours ago`, and a weekday is the most recent
    one."""
    time = with_offset(time, call.zone)
    if time is None or isinstance(time, int):
        return time
    if isinstance(time, datetime) and time.tzinfo is not None:
        return instant_of(time)
    text = time.isoformat() if isinstance(time, datetime) else time
    try:
        return read_instant(text, call.zone, call.scheduler.clock.now(), first=first, last=last, past=past)
    except UnreadableTime as error:
        from duetime.engine.times.unread import about_part  # only needed for an error

        example = "Try 2026-02-10T18:00:00, or words such as tomorrow 18:00."
        raise UnreadableTime(field=field, problem=f"{about_part(text, error).message} {example}") from None
    except DuetimeError as error:
        raise InvalidInput(f"{field}: {error.message}", field=field) from None


def read_time_of(
    call: Call, schedule: Schedule | None, time: Time | None, field: str, *, last: bool = False, past: bool = False
) -> Instant | None:
    """Read a time as `read_time` does, but a naive `datetime` in the zone of the schedule."""
    rule = {} if schedule is None or not is_naive(time) else trigger_shape(schedule.definition.trigger)
    return read_time(call.in_zone(rule.get("timezone")), time, field, last=last, past=past)


def is_naive(time: object) -> bool:
    return isinstance(time, datetime) and time.tzinfo is None


def with_offset(time: Any, zone: str) -> Any:
    """Return a naive `datetime` with its zone if it is the second of two equal times, because its text would mean the
    first; any other value as it is."""
    return time.replace(tzinfo=known_zone(zone)) if is_naive(time) and time.fold else time


def with_offsets(call: Call, times: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options of times as `with_offset` does."""
    if not any(getattr(each, "fold", 0) for each in times.values()):
        return times
    zone = call.in_zone(times.get("timezone")).zone
    return {name: with_offset(value, zone) for name, value in times.items()}


def read_range(
    call: Call, start: Time | None, end: Time | None, names: tuple[str, str], *, past: bool = False
) -> tuple[Instant | None, Instant | None]:
    """Return the instants of a range, whose end includes all of a day without a time. Refuse a range that ends before
    it starts. `names` are the arguments for start and end."""
    first = read_time(call, start, names[0], first=True, past=past)
    last = read_time(call, end, names[1], last=True, past=past)
    if first is not None and last is not None and last < first:
        order = " is before ".join(clock_local(each, call.zone) for each in (last, first))
        raise InvalidInput(field=names[1], problem=f"{order}, the time of {names[0]}; give a later time")
    return first, last


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedRequest(OperationRequest):
    """Selects what a list contains by kind and owner, and which page of it."""

    kind: Kind = None
    owner: Owner = None
    limit: Limit = 100
    cursor: Cursor = None
    count_to: int | None = None
    """Number up to which all that match are counted; None for the usual one."""

    def query(self, call: Call) -> dict[str, Any]:
        """Return the part of a query that all lists have in common. Refuse an unknown kind and another's owner."""
        check_kind(self.kind)
        kinds = () if call.kinds is None else tuple(call.kinds)
        count = {} if self.count_to is None else {"count_to": self.count_to}
        owner = check_owner(call, self.owner)
        return {"owner": owner, "kind": self.kind, "kinds": kinds, "limit": self.limit, "cursor": self.cursor, **count}


def check_owner(call: Call, owner: str | None) -> str | None:
    """Return the owner to filter by; None for all that the caller may see. Only operators may name another owner."""
    if owner is not None and not call.caller.operator and owner != call.caller.owner:
        raise refuse("operators_only", "owner: needs a token with the scope operator; leave it out", "owner")
    return owner


def check_choice(name: str, value: str | None, choices: Collection[str]) -> str | None:
    """Return the value of an argument that has to be one of several words, if it has one."""
    if value is not None and value not in choices:
        raise InvalidInput(f"Unknown {name}: {value[:100]}. Choose one of: {', '.join(choices)}", field=name)
    return value
