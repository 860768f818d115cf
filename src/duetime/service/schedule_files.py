"""Schedules as entries of a file: a table of options and payload fields, under the names that all interfaces use.
`new_of` reads an entry, and `values_of` writes one that reads back as the schedule that is stored."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Final, NamedTuple

from duetime.engine.actor import FILE_KEYS
from duetime.engine.clock import SECOND
from duetime.engine.encoding import json_object
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.engine.model import Definition, Schedule
from duetime.engine.policy.follow_ups import MESSAGE_KEY
from duetime.engine.policy.options import policy_from_json
from duetime.engine.redaction import map_texts, masked, texts_in
from duetime.engine.scheduler import OPERATORS_OWN
from duetime.engine.times.zones import known_zone
from duetime.engine.validation import NewSchedule
from duetime.service.kind_spec import known_specs
from duetime.service.masking import masked_payload
from duetime.service.operations.create import CreateSchedule, is_same_json, new_schedule, rule_as_of
from duetime.service.options import TIME_LIMITS, option_name, policy_options, time_options
from duetime.service.presenters import reads_as, trigger_shape
from duetime.service.services import Call
from duetime.service.text import plural
from duetime.service.when import read_policy

OWN: Final = ("name", "id", "trigger", "payload")
"""Names in an entry besides those of options and payload fields: the name, which schedule of the store it is, the whole
trigger, and the whole payload."""
PREFIX: Final = "payload_"
"""Begins the name of a payload field that is called like an option."""
_OF_PARTS: Final = {"cron": ("cron", "expression"), "rrule": ("rrule", "rrule"), "once": ("at", "run_at")}
"""The option that states a type of trigger, and the part of the trigger that is its value."""


class FileEntry(NamedTuple):
    """An entry of a file: `[jobs.backup]`."""

    kind: str
    name: str
    """The last part of the heading, which is the name of the schedule unless it has another one."""
    values: Mapping[str, Any]

    @property
    def path(self) -> str:
        spec = known_specs().get(self.kind)
        return f"{self.kind if spec is None else spec.plural}.{self.name}"


def followed_by(call: Call, trigger: Mapping[str, Any]) -> str:
    """Return the schedule that a trigger of the store follows, as files name it."""
    schedule = call.scheduler.find(call.caller, trigger["schedule"], deleted=True)
    return str(trigger["name"]) if schedule is None else schedule.definition.reference


def is_option(name: str) -> bool:
    return name in OWN or name in time_options() or option_name(name) in policy_options()


def new_of(call: Call, entry: FileEntry, key: str) -> NewSchedule:
    """Return the schedule that an entry describes."""
    values = entry.values
    times = {name: value for name, value in values.items() if name in time_options()}
    policy = {name: value for name, value in values.items() if option_name(name) in policy_options()}
    bare = {name: name.removeprefix(PREFIX) for name in values if not is_option(name)}
    fields = {field if is_option(field) else name: values[name] for name, field in bare.items()}
    payload = {**_object(values, "payload"), **fields}
    name = values.get("name", entry.name)
    if "trigger" not in values:
        return new_schedule(call, CreateSchedule(entry.kind, payload, times, None, policy, name, key))
    if further := [each for each in times if each != "timezone"]:
        raise InvalidInput(field=further[0], problem="a trigger says when as a whole; leave one of the two out")
    trigger = dict(_object(values, "trigger"))
    type_, zone = str(trigger.pop("type", "")), trigger.pop("timezone", times.get("timezone"))
    return NewSchedule(entry.kind, name, type_, trigger, payload, read_policy(policy), zone, key)


def _object(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = values.get(name, {})
    if not isinstance(table, Mapping):
        raise InvalidInput(field=name, problem="must be a table, or a text with a JSON object")
    return table


# -- writing ----------------------------------------------------------------------------------------------------------


def values_of(call: Call, schedule: Schedule, name: str, paths: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of an entry that reads back as this schedule. `paths` are the entries of other schedules in the
    file, by their ids, which one that follows them names."""
    definition, payload = schedule.definition, json_object(schedule.definition.payload) or {}
    own = {} if definition.name == name else {"name": definition.name}
    whole = {f"{PREFIX}{each}" if is_option(each) else each: value for each, value in payload.items()}
    whole = {"payload": payload} if _has_null(payload) else whole  # which TOML does not have
    short = {each: value for each, value in whole.items() if value not in ([], {})}
    times = next(each for each in _times_of(call, definition, paths) if _is_exact(call, each, definition))
    usual = None
    with suppress(DuetimeError):  # such as a time that has passed, or a task that this process does not know
        new = new_of(call, FileEntry(definition.kind, name, short | times), "file")
        usual = call.scheduler.plan(call.caller, new).definition
    is_short = usual is not None and is_same_json(usual.payload, definition.payload)
    policy, without = (policy_from_json(each.policy if each else "{}") for each in (definition, usual))
    options = [each for each in policy_options() if getattr(policy, each) not in (None, getattr(without, each))]
    values = {each: _option_value(each, getattr(policy, each)) for each in options}
    return own | (short if is_short else whole) | times | values


def _has_null(value: Any) -> bool:
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return value is None or any(map(_has_null, items))


def _times_of(call: Call, definition: Definition, paths: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield ways to say when, the most readable ones first; the last one always fits."""
    shape = trigger_shape(definition.trigger)
    is_usual = shape["type"] in ("after", "event") and shape.get("timezone") == call.services.zone
    zoned = {} if is_usual else {"timezone": shape.get("timezone")}  # the file may be applied where another is usual
    if shape["type"] == "after":
        every = f" at most every {shape['at_most_every']} seconds" if "at_most_every" in shape else ""
        followed = paths.get(shape["schedule"]) or followed_by(call, shape)
        yield {"after": f"{followed} {shape['outcome']}{every}", **zoned}
    yield {"when": reads_as(definition.trigger).replace(f" ({shape.get('timezone')})", ""), **zoned}
    option, part = _OF_PARTS.get(shape["type"], ("every", "seconds"))
    if part in shape:
        yield {option: shape[part], **{name: shape[name] for name in TIME_LIMITS if name in shape}, **zoned}
    yield {"trigger": shape}


def _is_exact(call: Call, times: Mapping[str, Any], definition: Definition) -> bool:
    """Return whether times mean the stored trigger, as of when it was written."""
    with suppress(DuetimeError):
        new = new_of(call, FileEntry(definition.kind, "", times), "")
        zone, stored = known_zone(new.timezone or call.services.zone).key, json_object(definition.trigger)
        return any(rule_as_of(new, zone, each) == stored for each in (definition.created, definition.updated))
    return "trigger" in times or "after" in times


def _option_value(name: str, value: Any) -> Any:
    type_: str = policy_options()[name].rule.type
    if type_ == "duration":
        return value / SECOND if value % SECOND else value // SECOND
    return [each for each in value.split(",") if each] if type_ == "tags" else value


def tables_of(
    call: Call, schedules: Sequence[Schedule], owner: str, file: str
) -> tuple[dict[str, dict[str, Any]], list[Schedule], list[str]]:
    """Return a file of an owner's schedules, those that it contains, and notes. Entries that a file of this name made
    are its own, and others have ids. Credentials are references. What code or the settings declare is left out."""
    own, left = f"{FILE_KEYS}{file}:", (OPERATORS_OWN, MESSAGE_KEY)
    chosen = [each for each in schedules if each.definition.owner == owner and not each.definition.key.startswith(left)]
    chosen.sort(key=lambda each: not each.definition.key.startswith(own))  # these have their headings already
    call = call._replace(caller=call.caller._replace(owner=owner))
    paths, variables = dict[str, str](), dict[str, str]()
    for each in chosen:
        paths[each.definition.public_id] = _path_of(each.definition, own, paths.values())
    tables: dict[str, dict[str, Any]] = {}
    for each in chosen:
        plural_, _, name = paths[each.definition.public_id].partition(".")
        id = {} if each.definition.key.startswith(own) else {"id": each.definition.reference}
        values = _without_secrets(each.definition.kind, name, values_of(call, each, name, paths), variables)
        if "payload" in values:
            values["payload"] = json.dumps(values["payload"], ensure_ascii=False)
        tables.setdefault(plural_, {})[name] = id | values
    others = f"{plural(len(schedules) - len(chosen), 'schedule')} left out: of other owners, or declared elsewhere"
    secrets = f"secrets are variables of the environment; set {', '.join(variables)} before you apply the file"
    return tables, chosen, [others][: len(schedules) - len(chosen)] + [secrets][: len(variables)]


def _path_of(definition: Definition, own: str, others: Collection[str]) -> str:
    """Return the heading that a schedule has in its file, or one that is made of its name."""
    if definition.key.startswith(own):
        return definition.key.removeprefix(own)
    name = re.sub(r"[^a-z0-9]+", "-", definition.name.lower())[:40].strip("-") or definition.kind
    return _first_free(FileEntry(definition.kind, name, {}).path, "-", lambda path: path not in others)


def _first_free(text: str, separator: str, is_free: Callable[[str], bool]) -> str:
    return next(each for number in count(1) if is_free(each := text if number == 1 else f"{text}{separator}{number}"))


def _without_secrets(kind: str, entry: str, values: dict[str, Any], variables: dict[str, str]) -> dict[str, Any]:
    """Return values with references in place of what is hidden when they are shown; `variables` has their values."""
    fields = {name.removeprefix(PREFIX): each for name, each in values.items() if not is_option(name)}
    options = {name: each for name, each in values.items() if is_option(name) and name != "payload"}
    views = masked_payload(kind, values.get("payload", fields)), masked(options)
    hidden = {text for _, text in texts_in(values)} - {text for view in views for _, text in texts_in(view)}

    def change(name: str, text: str) -> str:
        if text not in hidden:
            return text.replace("${", "$${")
        name = re.sub(r"[^A-Z0-9]+", "_", f"{entry}_{name}".upper()).strip("_")
        name = name if name[:1].isalpha() else f"SECRET_{name}"
        name = _first_free(name, "_", lambda each: variables.get(each, text) == text)
        variables[name] = text
        return f"${{{name}}}"

    changed: dict[str, Any] = map_texts(values, change)
    return changed
