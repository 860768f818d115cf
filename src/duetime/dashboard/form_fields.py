"""The fields of the schedule form: conversion of stored values to editable text, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from duetime.dashboard.request import Form
from duetime.engine.errors import InvalidInput
from duetime.engine.model import Schedule
from duetime.engine.policy.options import make_policy, policy_to_json
from duetime.engine.scheduler import Scheduler
from duetime.service.masking import masked_payload, refuse_other_places, unmasked_payload
from duetime.service.presenters import View, policy_given, policy_shape, trigger_shape

Values = dict[str, str]

UNITS: Final = ("seconds", "minutes", "hours", "days", "weeks")
_UNIT_SECONDS: Final = {"weeks": 604_800, "days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1}
TRIGGER: Final = (
    "when",
    "run_at",
    "every",
    "unit",
    "anchor",
    "expression",
    "dst",
    "rrule",
    "dtstart",
    "start",
    "end",
    "jitter",
)
POLICY: Final = (
    "max_attempts",
    "timeout_seconds",
    "catch_up",
    "overlap",
    "max_runs",
    "pause_after",
    "at_most_once",
    "deliver_to",
    "notify_on",
)
PAYLOAD: Final[dict[str, tuple[str, ...]]] = {
    "job": ("task", "args", "kwargs"),
    "prompt": ("prompt", "agent"),
    "notification": ("message", "topic", "title", "priority", "tags", "click"),
    "request": ("payload",),
}
KINDS: Final = ("job", "prompt", "notification")
"""Kinds that can be created here; requests are created by programs."""
_HELD_BACK: Final = ("headers", "about")
"""Parts of a request that are never shown. Unless given anew they are kept, and its destination may not change."""


def read(form: Form, kind: str) -> Values:
    names = ("name", "timezone", *TRIGGER, *PAYLOAD.get(kind, ()), *POLICY)
    return {name: form.one(name) for name in names}


# -- trigger --------------------------------------------------------------------------------------------------------


class Timing(NamedTuple):
    type: str
    config: dict[str, Any]


def timing(values: Values) -> Timing:
    kind = values["when"]
    make = _TIMINGS.get(kind)
    if make is None:
        raise InvalidInput("when: choose one of once, every, cron and rule", field="when")
    shared: dict[str, Any] = {name: values[name] for name in ("start", "end") if values[name].strip()}
    if values["jitter"].strip():
        shared["jitter"] = _number(values, "jitter")
    return Timing(kind, make(values) | shared)


def _interval(values: Values) -> dict[str, Any]:
    unit = values["unit"] if values["unit"] in UNITS else "minutes"
    return {unit: _number(values, "every")} | _given(values, "anchor")


_TIMINGS: Final[dict[str, Callable[[Values], dict[str, Any]]]] = {
    "once": lambda values: {"run_at": values["run_at"]},
    "interval": _interval,
    "cron": lambda values: {"expression": values["expression"]} | _given(values, "dst"),
    "rrule": lambda values: {"rrule": values["rrule"]} | _given(values, "dtstart"),
}


def _given(values: Values, name: str) -> dict[str, Any]:
    return {name: values[name]} if values[name].strip() else {}


def _number(values: Values, name: str) -> float:
    try:
        number = float(values[name].strip())
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInput(f"{name}: must be a number such as 15", field=name)
    return int(number) if number.is_integer() else number


def timing_values(trigger: str) -> Values:
    """Convert a stored trigger to form values."""
    shape = trigger_shape(trigger)
    values = {name: _text(shape.get(name)) for name in TRIGGER}
    values |= {"when": shape["type"], "unit": "minutes", "jitter": _text(shape.get("jitter") or None)}
    seconds = shape.get("seconds")
    if isinstance(seconds, int | float) and seconds > 0:
        unit = next((name for name, size in _UNIT_SECONDS.items() if seconds % size == 0), "seconds")
        values |= {"every": _text(seconds if unit == "seconds" else int(seconds) // _UNIT_SECONDS[unit]), "unit": unit}
    return values


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# -- payload --------------------------------------------------------------------------------------------------------


def payload(kind: str, values: Values, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored payload with the values of the form; parts that the form does not show are kept."""
    if kind == "request":
        return _request(_json(values, "payload", dict), stored)
    said = _PAYLOADS[kind](values)
    shown = masked_payload(kind, dict(stored))
    return _restored(kind, {name: value for name, value in (shown | said).items() if value is not None}, {**stored})


def _request(given: dict[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    held = {name: stored[name] for name in _HELD_BACK if name in stored and name not in given}
    changed = _restored("request", given, {**stored}) | held
    if any(held.values()):
        refuse_other_places("request", changed, stored)
    return changed


def _restored(kind: str, given: Any, stored: dict[str, Any]) -> dict[str, Any]:
    restored: dict[str, Any] = unmasked_payload(kind, given, stored)
    return restored


def _job(values: Values) -> dict[str, Any]:
    return {"task": values["task"], "args": _json(values, "args", list), "kwargs": _json(values, "kwargs", dict)}


def _notification(values: Values) -> dict[str, Any]:
    tags = [tag for tag in (part.strip() for part in values["tags"].split(",")) if tag]
    return {
        "message": values["message"],
        "topic": values["topic"].strip(),
        "title": values["title"] or None,
        "priority": int(_number(values, "priority")) if values["priority"] else None,
        "tags": tags or None,
        "click": values["click"].strip() or None,
    }


_PAYLOADS: Final[dict[str, Callable[[Values], dict[str, Any]]]] = {
    "job": _job,
    "prompt": lambda values: {"prompt": values["prompt"], "agent": values["agent"] or None},
    "notification": _notification,
}


def _json(values: Values, name: str, wanted: type[Any]) -> Any:
    text = values[name].strip()
    example = '["hello", 3]' if wanted is list else '{"words": 50}'
    try:
        value = json.loads(text) if text else wanted()
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, wanted):
        raise InvalidInput(f"{name}: must be JSON such as {example}", field=name)
    return value


def payload_values(kind: str, stored: Mapping[str, Any]) -> Values:
    shown = masked_payload(kind, dict(stored))
    if kind == "request":
        seen = {name: value for name, value in shown.items() if name not in _HELD_BACK}
        return {"payload": json.dumps(seen, indent=2, ensure_ascii=False)}
    values = {name: _text(shown.get(name)) for name in PAYLOAD.get(kind, ())}
    if kind == "job":
        values |= {
            name: json.dumps(shown[name], ensure_ascii=False) if shown.get(name) else "" for name in ("args", "kwargs")
        }
    if kind == "notification":
        values["tags"] = ", ".join(str(tag) for tag in shown.get("tags") or ())
    return values


# -- policy ---------------------------------------------------------------------------------------------------------


def usual_policy(scheduler: Scheduler, kind: str) -> View:
    """Return the default policy of this kind."""
    defaults = scheduler.kinds[kind].defaults if kind in scheduler.kinds else {}
    made = make_policy({"pause_after": scheduler.limits.pause_after, **defaults})
    return policy_shape(policy_to_json(made)) or {}


def policy(values: Values) -> dict[str, Any]:
    """Return the policy of a new schedule; an empty field means the default."""
    return policy_given({name: _policy_value(values, name) for name in POLICY})


def changed_policy(values: Values, names: tuple[str, ...], usual: View) -> dict[str, Any]:
    """Return the policy changes of an edit; an emptied field returns to the default."""
    asked = {name: _policy_value(values, name) for name in names}
    return policy_given({name: usual.get(name) if value is None else value for name, value in asked.items()})


def _policy_value(values: Values, name: str) -> Any:
    text = values[name].strip()
    if not text:
        return None
    if name == "at_most_once":
        return True
    return text if name in ("catch_up", "overlap", "deliver_to", "notify_on") else _number(values, name)


def policy_values(stored: str, usual: View) -> Values:
    """Convert a stored policy to form values; defaults are left empty."""
    shape = policy_shape(stored) or {}
    return {name: "" if shape.get(name) == usual.get(name) else _said(shape.get(name)) for name in POLICY}


def _said(value: Any) -> str:
    return "on" if value is True else _text(value)


# -- all fields -----------------------------------------------------------------------------------------------------


def values_of(schedule: Schedule, usual: View) -> Values:
    definition = schedule.definition
    return {
        "name": definition.name,
        "timezone": str(trigger_shape(definition.trigger).get("timezone", "")),
        **timing_values(definition.trigger),
        **payload_values(definition.kind, json.loads(definition.payload)),
        **policy_values(definition.policy, usual),
    }


def differing(before: Values, after: Values, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if before.get(name, "") != after[name])
