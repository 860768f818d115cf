"""Models of request bodies and queries: strict, without unknown fields, and described for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    create_model,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticKnownError

from duetime.engine.clock import DAY, SECOND
from duetime.engine.errors import InvalidTrigger
from duetime.rest.errors import NO_NUL
from duetime.service.kind_spec import known_specs
from duetime.service.options import TIME_LIMITS, PolicyOption, policy_options, time_options
from duetime.service.when import WAYS, TriggerParts

KINDS = " or ".join(", ".join(known_specs()).rsplit(", ", 1))
_DEEPEST = 50


def _shallow(value: Any) -> Any:
    """Limit the nesting, so that readers with a small stack can parse the value."""
    level: list[Any] = [value]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return value
    raise ValueError(f"must not be nested deeper than {_DEEPEST} levels")


def _children(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [each for each in inner if isinstance(each, dict | list)]


Text = Annotated[str, Field(pattern=NO_NUL)]
Name = Annotated[Text, Field(min_length=1, max_length=200)]
Time = Annotated[
    Text,
    Field(max_length=100, description="ISO 8601, or words such as `in 2 hours`; without offset, in the time zone."),
]
Zone = Annotated[Text, Field(max_length=100, description="An IANA name such as Europe/Berlin.")]
Number = Annotated[int, Field(ge=1, le=2**63 - 1)]
Amount = Annotated[float, Field(ge=0, le=10**10)]
Json = Annotated[dict[str, Any], AfterValidator(_shallow)]
Anything = Annotated[Any, AfterValidator(_shallow)]


class Known(BaseModel):
    """A body or query without unknown names. The first one ends the validation, because errors cost more than names."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _end_at_unknown_name(cls, value: Any) -> Any:
        if isinstance(value, dict) and not value.keys() <= cls.model_fields.keys():
            names = {field.alias or name for name, field in cls.model_fields.items()}
            unknown = next((name for name in value if name not in names), None)
            if unknown is not None:
                error = InitErrorDetails(type="extra_forbidden", loc=(unknown,), input=None)
                raise ValidationError.from_exception_data(cls.__name__, [error])
        return value


class Given(Known):
    """A body of which nothing is guessed: a text is no number."""

    model_config = ConfigDict(strict=True)


class GivenInZone(Given):
    timezone: Zone | None = None


# -- options, from `service.options` ----------------------------------------------------------------------------------

_Length = Annotated[Text, Field(max_length=100)] | Annotated[float, Field(ge=0, le=10**10)]
_TIME_TYPES: dict[str, Any] = {
    "when": Annotated[Text, Field(max_length=1000)],
    "on": Annotated[Text, Field(max_length=1000)],
    "after": Annotated[Text, Field(max_length=300)],
    "delay": _Length,
    "every": _Length,
    "cron": Annotated[Text, Field(max_length=1000)],
    "rrule": Annotated[Text, Field(max_length=2000)],
    "jitter": Annotated[Text, Field(max_length=100)] | Annotated[float, Field(ge=0, le=DAY / SECOND)],
    "timezone": Zone,
}


def _time_fields(*names: str) -> dict[str, Any]:
    """Return the fields for options of times; texts and numbers of seconds stay as they are."""
    options = time_options()
    return {
        name: (_TIME_TYPES.get(name, Time) | None, Field(default=None, description=options[name].sentence))
        for name in names or options
    }


if TYPE_CHECKING:

    class TimesGiven(Given):
        """Options of times."""

        timezone: Zone | None = None

    class Timed(Given):
        """The limits of a trigger."""
else:
    TimesGiven = create_model("TimesGiven", __base__=Given, __module__=__name__, **_time_fields())
    _jitter_text = "Maximum random delay of each start, in seconds."
    _jitter = Annotated[float, Field(ge=0, le=DAY / SECOND)] | None, Field(default=None, description=_jitter_text)
    _limits = {**_time_fields("timezone", *TIME_LIMITS), "jitter": _jitter}
    Timed = create_model("Timed", __base__=Given, __module__=__name__, **_limits)


def times_in(body: TimesGiven) -> dict[str, Any]:
    """Return the options of times that a body contains. In an edit, null removes a limit."""
    return body.model_dump(include=_TIME_NAMES, exclude_unset=True)


_TIME_NAMES = set(time_options())


# -- triggers -------------------------------------------------------------------------------------------------------


class Once(Timed):
    """At `run_at`, or after `delay`."""

    type: Literal["once"]
    run_at: Time | None = None
    delay: Annotated[Text, Field(max_length=100)] | None = Field(default=None, description="From now, such as 2h30m.")


class Interval(Timed):
    """The sum of its parts, starting at the anchor. Days and weeks keep the wall-clock time."""

    type: Literal["interval"]
    seconds: Amount | None = None
    minutes: Amount | None = None
    hours: Amount | None = None
    days: Amount | None = None
    weeks: Amount | None = None
    anchor: Time | None = Field(default=None, description="Start of the first interval; by default, now.")
    between: Annotated[Text, Field(max_length=100)] | None = Field(
        default=None, description="A daily window such as 09:00-17:00; the interval restarts with each window."
    )
    weekdays: Annotated[Text, Field(max_length=100)] | None = Field(
        default=None, description="The days on which the window applies, such as mon-fri."
    )


class Cron(Timed):
    type: Literal["cron"]
    expression: Annotated[Text, Field(max_length=1000)] = Field(
        description="minute hour day_of_month month day_of_week, in the wall-clock time of the zone."
    )
    dst: Literal["debian", "literal"] | None = Field(
        default=None, description="Clock changes: like Debian's cron (the default), or exactly by the wall clock."
    )


class Rrule(Timed):
    type: Literal["rrule"]
    rrule: Annotated[Text, Field(max_length=2000)] = Field(
        description="An iCalendar recurrence rule such as FREQ=MONTHLY;BYDAY=-1FR."
    )
    dtstart: Time | None = None


class OnEvent(GivenInZone):
    """When an event arrives under this name, with these values at these paths of its data."""

    type: Literal["event"]
    event: Annotated[Text, Field(max_length=100)] = Field(description="Its name, such as github.push or github.*.")
    where: Json | None = Field(default=None, description="Paths, each with a value, a list of them, or * for any.")
    at_most_every: _Length | None = Field(default=None, description="From one start to the next, such as 10m.")


class After(GivenInZone):
    """When a run of another schedule ends."""

    type: Literal["after"]
    schedule: Annotated[Text, Field(max_length=200)] = Field(description="The id or the name of the other schedule.")
    outcome: Literal["succeeds", "fails", "ends"] = "succeeds"
    name: Annotated[Text, Field(max_length=200)] | None = Field(default=None, description="Its name, in another store.")
    at_most_every: _Length | None = Field(default=None, description="From one start to the next, such as 10m.")


Trigger = Annotated[Once | Interval | Cron | Rrule | OnEvent | After, Field(discriminator="type")]


def _needed(trigger: Given | None, info: ValidationInfo) -> Given | None:
    """Require a trigger if no option, which are validated before it, says when."""
    if trigger is None and not any(info.data.get(way) is not None for way in WAYS):
        raise PydanticKnownError("missing")
    return trigger


_TRIGGER = "Unless one of the options says when."
TriggerOrOption = Annotated[Trigger | None, AfterValidator(_needed), Field(validate_default=True, description=_TRIGGER)]


def trigger_parts(trigger: Trigger | None, *, with_nulls: bool = False) -> TriggerParts | None:
    """Return the type and the configuration of a trigger. In an edit, null removes a limit."""
    if trigger is None:
        return None
    config = trigger.model_dump(exclude={"type"}, exclude_unset=with_nulls, exclude_none=not with_nulls)
    return trigger.type, config


@contextmanager
def naming_trigger(body: TimesGiven, trigger: object) -> Iterator[None]:
    """Let an error about a part of the trigger of a body name it as the client does, such as `trigger.expression`. An
    option of times has its own name."""
    try:
        yield
    except InvalidTrigger as error:
        if trigger is not None and error.field in _TRIGGER_PARTS and error.field not in times_in(body):
            error.details["field"] = f"trigger.{error.field}"
        raise


_TRIGGER_PARTS = {name for each in get_args(get_args(Trigger)[0]) for name in each.model_fields} - {"type"}


# -- policies -------------------------------------------------------------------------------------------------------


_TYPES: dict[str, Any] = {
    "count": int,
    "duration": float,
    "flag": bool,
    "topic": Annotated[Text, Field(max_length=200)],
    "address": Annotated[Text, Field(max_length=2000)],
    "gate": Annotated[Text, Field(max_length=4096)],
    "tags": Annotated[list[Text], Field(max_length=100)] | Annotated[Text, Field(max_length=1000)],
}


def _policy_field(option: PolicyOption) -> Any:
    """Return the type and the field of an option; a duration is in seconds, of which a thousandth is the least."""
    rule, bounds = option.rule, dict[str, Any]()
    type_ = Literal[rule.choices] if rule.type == "choice" else _TYPES[rule.type]
    if rule.type == "count":
        bounds = {"ge": rule.low, "le": rule.high}
    elif rule.type == "duration":
        bounds = {"ge": max(rule.low, SECOND // 1000 if rule.low else 0) / SECOND, "le": rule.high / SECOND}
    return type_ | None, Field(default=None, description=option.texts.sentence, **bounds)


if TYPE_CHECKING:

    class PolicyGiven(Given): ...
else:
    PolicyGiven = create_model(
        "PolicyGiven",
        __base__=Given,
        __doc__="Absent fields have the kind's defaults. In an edit, absent fields stay unchanged; null restores the "
        "default.",
        __module__=__name__,
        **{option.argument: _policy_field(option) for option in policy_options().values()},
    )


# -- bodies of requests -----------------------------------------------------------------------------------------------

_PAYLOAD = (
    f"What it does, by kind. {' '.join(f'{spec.name}: {spec.payload_fields}.' for spec in known_specs().values())}"
    " Credentials are shown as *** when it is read; what is sent back so on an edit stays as it was."
)


class NewScheduleGiven(TimesGiven):
    kind: Annotated[Text, Field(min_length=1, max_length=50)] = Field(
        description=f"{KINDS}.", examples=[next(iter(known_specs()), "")]
    )
    name: Name
    trigger: TriggerOrOption = None
    max_runs: int | None = Field(default=None, ge=1, le=2**53, description="As in the policy.")
    payload: Json = Field(description=_PAYLOAD, examples=[{"task": "echo", "args": ["hello"]}])
    policy: PolicyGiven = PolicyGiven()
    idempotency_key: Name | None = Field(
        default=None,
        description="Repeating a request with the same key returns the first result, like the header Idempotency-Key.",
    )


class EditGiven(TimesGiven):
    """Absent fields stay unchanged, and so do fields that are null, except that null removes start, end and jitter. A
    new trigger keeps these three of the old one. A single time moves only the next occurrence of a rule. At least one
    field must change something."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    name: Name | None = None
    trigger: Trigger | None = None
    payload: Json | None = Field(default=None, description=_PAYLOAD)
    policy: PolicyGiven | None = None
    next: Time | None = Field(default=None, description="Move only the next occurrence; the rule stays.")
    starting: Time | None = Field(
        default=None, description="With a new trigger: when it takes effect; the old one applies until then."
    )
    version: int | None = Field(
        default=None, ge=1, le=2**53, description="Only if it still has this version, like the header If-Match."
    )


class PreviewGiven(TimesGiven):
    trigger: TriggerOrOption = None
    count: int = Field(default=5, ge=1, le=100)


# -- query parameters: filters, pages and zones; unknown names are refused, as in bodies -----------------------------


class Asked(Known):
    timezone: Zone | None = Field(
        default=None, description="The time zone for reading and showing times; by default, the caller's."
    )


class Paged(Asked):
    limit: int = Field(default=100, ge=1, le=1000, description="Maximum number of results.")
    cursor: Annotated[Text, Field(max_length=200, description="`next_cursor` of the previous page.")] | None = None


class EventsAsked(Asked):
    owner: Name | None = Field(default=None, description="Only this owner; for operators, who otherwise see all.")
