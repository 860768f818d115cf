"""The fields of the schedule form that all kinds share: conversion of stored values to editable text, and back."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any, Final, NamedTuple

from duetime.dashboard.kind_forms import Values, form_of, number_of, text_of
from duetime.dashboard.request import Form
from duetime.engine.clock import SECOND
from duetime.engine.encoding import json_object
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.engine.policy.options import make_policy, policy_to_json
from duetime.engine.scheduler import Scheduler
from duetime.engine.triggers.build import readable
from duetime.service.errors import reword
from duetime.service.masking import masked
from duetime.service.options import PolicyOption, policy_options
from duetime.service.policy_words import duration as duration_words
from duetime.service.policy_words import option_words
from duetime.service.presenters import View, policy_shape, trigger_shape
from duetime.service.text import plain_times
from duetime.service.vocabulary import Schedule
from duetime.service.when import TriggerParts, about_option, duration, read_phrase, read_policy, when_of

UNITS: Final = ("seconds", "minutes", "hours", "days", "weeks")
_DAYS: Final = {"weeks": 604_800, "days": 86_400}
_EXACT: Final = {"hours": 3600, "minutes": 60, "seconds": 1}
TRIGGER: Final = (
    "when", "phrase", "run_at", "every", "unit", "anchor", "between", "weekdays", "expression", "dst", "rrule",
    "dtstart", "start", "end", "jitter",
)  # fmt: skip
_OPTIONS: Final = {option.argument: option for option in policy_options().values()}
"""The options of the policy by the names of their inputs."""
POLICY: Final = tuple(_OPTIONS)
STARTING: Final = "starting"
"""The field of an edit that says from when the new times apply."""
PRESETS: Final = {
    "daily": ("Daily", "every day at 9:00"),
    "weekdays": ("Weekdays", "every weekday at 9:00"),
    "weekly": ("Weekly", "every monday at 9:00"),
    "monthly": ("Monthly", "1st of the month at 9:00"),
}
"""Name and phrase of the buttons that fill in when a schedule fires."""


def read(form: Form, kind: str) -> Values:
    fields = form_of(kind)
    names = ("name", "timezone", *TRIGGER, STARTING, *fields.fields, *POLICY)
    return {name: form.get(name) for name in names} | form.beginning(fields.prefix)


_PARTS: Final = {
    "once": (("run_at",), ()),
    "phrase": ((), ()),
    "interval": ((), ("anchor", "between", "weekdays")),
    "cron": (("expression",), ("dst",)),
    "rrule": (("rrule",), ("dtstart",)),
}
"""Fields of each type of trigger: those that it needs, and those that may be empty."""


def trigger(values: Values) -> TriggerParts:
    type_ = values["when"]
    if type_ not in _PARTS:
        raise InvalidInput(field="when", problem="choose one of once, every, cron, rule and words")
    needed, further = _PARTS[type_]
    optional = [name for name in (*further, "start", "end") if values[name].strip()]
    config: dict[str, Any] = {name: values[name] for name in (*needed, *optional)}
    if type_ == "phrase":
        type_, phrase, _ = when_of("when", values["phrase"])
        config = {**phrase, **config}
    elif type_ == "interval":
        config[values["unit"] if values["unit"] in UNITS else "minutes"] = number_of(values, "every")
    if values["jitter"].strip():
        config["jitter"] = seconds_of(values, "jitter")
    return type_, config


def zone_option(values: Values) -> dict[str, str]:
    """Return the option for the time zone, if one was typed."""
    zone = values["timezone"].strip()
    return {"timezone": zone} if zone else {}


MAIN: Final = {"phrase": "phrase", "once": "run_at", "interval": "every", "cron": "expression", "rrule": "rrule"}
"""The field of each type of trigger that says when."""


LABELS: Final = {
    "phrase": "When",
    "run_at": "At",
    "expression": "Cron expression",
    "rrule": "Recurrence rule",
    "timezone": "Time zone",
    "start": "Not before",
    "end": "Not after",
    STARTING: "New times apply from",
}
"""The labels of inputs that differ from their names."""


def about_times(values: Values, error: DuetimeError) -> DuetimeError:
    """Return an error about the trigger as one about the input in which it was typed, with times for people."""
    named = about_option(error, "when" if values["when"] == "phrase" else MAIN.get(values["when"], "when"))
    details = {"problem": plain_times(named.problem)} if "problem" in named.details else {}
    return reword(named, plain_times(named.message), **details)


def seconds_of(values: Values, name: str, *, zero: bool = False) -> float:
    """Return a duration in seconds: a number of them, or a text such as 30s, 5m or 2h; with `zero`, also 0s."""
    with suppress(InvalidInput):
        return number_of(values, name)
    try:
        return duration(values[name].strip(), name, zero=zero) / SECOND
    except InvalidInput:
        raise InvalidInput(field=name, problem="must be a duration such as 30s, 5m or 2h") from None


_PLAIN: Final = re.compile(r"[\w./:@-]+")
"""A value of a condition that needs no quotes."""


def _lasting_rule(trigger: str) -> str:
    """Return a stored trigger; if its rule changes at some time, return the later rule."""
    stored = json_object(trigger) or {}
    return json.dumps(stored["after"]) if stored.get("type") == "changing" and "after" in stored else trigger


def timing_values(trigger: str) -> Values:
    """Convert a stored trigger to form values."""
    shape = trigger_shape(_lasting_rule(trigger))
    values = {name: text_of(shape.get(name)) for name in TRIGGER}
    values |= {"unit": "minutes", "jitter": text_of(shape.get("jitter") or None), "when": shape["type"]}
    if shape["type"] not in _PARTS:  # the form has no fields of its own for what waits for something to happen
        phrase = _happening_words(shape) if readable(trigger) else ""
        values |= {"when": "phrase", "phrase": phrase if _means(phrase, shape) else ""}
    return values | _interval_values(shape)


def _happening_words(shape: View) -> str:
    """Return the phrase that means a trigger which waits for an event or another schedule; none for other triggers."""
    length = _interval_values({"seconds": shape.get("at_most_every", 0)})
    limit = f" at most every {length['every']}{length['unit'][0]}" if length else ""
    if shape["type"] == "after":
        return f"after {shape['name']} {shape['outcome']}{limit}"
    conditions = [f"{path} = {_condition_words(values)}" for path, values in shape.get("where", {}).items()]
    where = f" where {' and '.join(conditions)}" if conditions else ""
    return f"on {shape['event']}{where}{limit}" if shape["type"] == "event" else ""


def _means(phrase: str, shape: View) -> bool:
    """Return whether a phrase is read as what the trigger waits for: few names and values cannot be written as one."""
    with suppress(DuetimeError):
        type_, config = read_phrase(phrase)
        if type_ == "after":
            return (type_, config["schedule"], config["outcome"]) == (
                shape["type"],
                shape.get("name"),
                shape.get("outcome"),
            )
        where = {
            path: each if each == "*" or isinstance(each, list) else [each]
            for path, each in config.get("where", {}).items()
        }
        return (type_, config.get("event"), where) == (shape["type"], shape.get("event"), shape.get("where", {}))
    return False


def _condition_words(values: str | list[str]) -> str:
    """Return the values of a condition; those that a phrase would not read as they are stand in quotes."""
    if isinstance(values, str):
        return values
    quotes = {each: "" if _PLAIN.fullmatch(each) else "'" if '"' in each else '"' for each in values}
    return " or ".join(f"{quote}{each}{quote}" for each, quote in quotes.items())


def _interval_values(shape: View) -> Values:
    """Return the number and the unit of an interval. Exact seconds are never shown as days, which keep the wall-clock
    time; a sum of days and exact time is shown as hours."""
    days, seconds = shape.get("days", 0), shape.get("seconds", 0)
    if not isinstance(days, int) or not isinstance(seconds, int | float) or days + seconds <= 0:
        return {}
    units = _EXACT if seconds else _DAYS
    total = days * 86_400 + seconds
    unit = next((name for name, size in units.items() if total % size == 0), "seconds")
    return {"every": text_of(total if unit == "seconds" else int(total) // units[unit]), "unit": unit}


def usual_policy(scheduler: Scheduler, kind: str) -> View:
    """Return the default policy of this kind."""
    defaults = scheduler.kinds[kind].defaults if kind in scheduler.kinds else {}
    usual = make_policy({"pause_after": scheduler.limits.pause_after, **defaults})
    return policy_shape(policy_to_json(usual)) or {}


def policy(values: Values, names: tuple[str, ...], usual: View) -> dict[str, Any]:
    """Return these options of a policy; an empty field means the default."""
    typed_values = {name: _policy_value(values, name) for name in names}
    return {name: usual.get(name) if value is None else value for name, value in typed_values.items()}


def _policy_value(values: Values, name: str) -> Any:
    text = values[name].strip()
    if not text:
        return None
    rule = _OPTIONS[name].rule
    if rule.type == "flag":
        return True
    if rule.type == "duration":
        return seconds_of(values, name, zero=not rule.low)
    return number_of(values, name) if rule.type == "count" else text


class OptionInput(NamedTuple):
    """The input of an option of the policy. A list has `choices`, with their texts."""

    name: str
    type: str
    label: str
    hint: str
    choices: list[tuple[str, str]]
    is_rare: bool


def option_inputs(usual: View, *, waits: bool, without: tuple[str, ...]) -> list[OptionInput]:
    """Return the inputs of the policy for a kind with these defaults. `waits` says whether its runs may wait for
    somebody, `without` names inputs that the kind shows itself."""
    return [_option_input(_OPTIONS[name], usual.get(name)) for name in policy_inputs(waits) if name not in without]


def _option_input(option: PolicyOption, usual: Any) -> OptionInput:
    (label, hint, is_rare, _), type_ = option.input, option.rule.type
    texts = {choice: option_words(option, choice) for choice in option.rule.choices}
    choices = [(choice, words[:1].upper() + words[1:]) for choice, words in texts.items()]
    if type_ == "choice":
        choices.insert(0, ("", f"Default: {texts[usual]}"))
    elif usual is not None and type_ not in ("flag", "tags"):
        hint = f"{hint} Default: {duration_words(usual) if type_ == 'duration' else usual}.".strip()
    return OptionInput(option.argument, type_, label, hint, choices, is_rare)


_TOGETHER: Final = ("notify_on", "untaken", "expire_after_seconds")
"""Options that need another one."""


def policy_problems(values: Values) -> list[InvalidInput]:
    """Return what is wrong with each option of the policy, or with their combination if each is valid alone."""
    problems: list[InvalidInput] = []
    for name in POLICY:
        try:
            options = policy(values, (name,), {})
            make_policy({} if name in _TOGETHER else read_policy(options))
        except InvalidInput as error:
            problems.append(InvalidInput(field=name, problem=error.problem))
    if problems:
        return problems
    try:
        make_policy(read_policy(policy(values, POLICY, {})))
    except InvalidInput as error:
        return [InvalidInput(field=input_of_policy(error.field), problem=error.problem)]
    return []


def input_of_policy(field: str | None) -> str:
    """Return the input for an option of the policy; durations are typed in seconds."""
    return f"{field}_seconds" if f"{field}_seconds" in POLICY else field or ""


def policy_inputs(waits: bool) -> tuple[str, ...]:
    """Return the inputs of the policy that the form has for a kind: `waits` tells whether its runs may wait for
    somebody to take them. An edit changes no option that the form does not show."""
    return tuple(name for name, option in _OPTIONS.items() if waits or not option.input.is_for_waiting)


def policy_values(stored: str, usual: View) -> Values:
    """Convert a stored policy to form values; defaults are left empty."""
    shape = policy_shape(stored) or {}
    changed = {name: shape.get(name) for name in POLICY if shape.get(name) != usual.get(name)}
    texts = {name: ", ".join(value) for name, value in changed.items() if isinstance(value, list)}
    return {name: "on" if changed.get(name) is True else text_of(changed.get(name)) for name in POLICY} | texts


def values_of(schedule: Schedule, usual: View) -> Values:
    definition = schedule.definition
    return {
        "name": masked(definition.name),
        STARTING: "",
        "timezone": str(trigger_shape(definition.trigger).get("timezone", "")),
        **timing_values(definition.trigger),
        **form_of(definition.kind).values(definition.kind, json.loads(definition.payload)),
        **policy_values(definition.policy, usual),
    }


def differing(before: Values, after: Values, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if before.get(name, "") != after[name])
