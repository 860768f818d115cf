"""The forms in which a schedule is made and edited, with a preview of its times."""

from __future__ import annotations

import json
from typing import Any, Final
from zoneinfo import available_timezones

from starlette.responses import Response

from duetime.core.drafting import Changes, NewSchedule
from duetime.core.errors import DuetimeError
from duetime.core.model import Schedule
from duetime.core.result import Err
from duetime.faces.http.api.refusing import answer_of
from duetime.faces.present import preview_view
from duetime.faces.views import View, schedule_shape
from duetime.faces.web import fields
from duetime.faces.web.fields import Values
from duetime.faces.web.reading import schedule_at
from duetime.faces.web.visit import Form, Visit, at

TITLES: Final = {"job": "Run a task", "prompt": "Wake an agent", "notification": "Tell a person"}
FIRST: Final[Values] = {
    "when": "once",
    "run_at": "in 1 hour",
    "every": "15",
    "unit": "minutes",
    "expression": "0 9 * * 1-5",
}
LONGEST_NAME: Final = 80
SHOWN: Final = 5


def new_page(visit: Visit) -> Response:
    kind = visit.asked("kind") if visit.asked("kind") in fields.KINDS else fields.KINDS[0]
    empty = fields.read(Form([]), kind)
    return _form(visit, kind, empty | FIRST | {"timezone": visit.zone})


def create(visit: Visit, form: Form) -> Response:
    kind = form.one("kind") if form.one("kind") in fields.KINDS else fields.KINDS[0]
    values = fields.read(form, kind)
    if form.one("intent") == "preview":
        return _form(visit, kind, values)
    try:
        made = visit.scheduler.create(visit.caller, _new(visit, kind, values))
    except DuetimeError as error:
        made = _err(error)
    if isinstance(made, Err):
        return _form(visit, kind, values, made)
    return visit.go(at(made.value.definition.public_id), did="created")


def _new(visit: Visit, kind: str, values: Values) -> NewSchedule:
    timing = fields.timing(values)
    return NewSchedule(
        kind=kind,
        name=values["name"].strip() or _first_words(values, kind),
        trigger_type=timing.type,
        trigger_config=timing.config,
        payload=fields.payload(kind, values, {}),
        policy=fields.policy(values),
        timezone=values["timezone"].strip() or visit.zone,
    )


def _first_words(values: Values, kind: str) -> str:
    """Of what it says or does, where it has no name of its own."""
    said = {"job": "task", "prompt": "prompt", "notification": "title"}[kind]
    words = values[said] or values.get("message", "")
    return " ".join(words.split())[:LONGEST_NAME]


# -- editing --------------------------------------------------------------------------------------------------------


def edit_page(visit: Visit) -> Response:
    schedule = schedule_at(visit)
    return _form(visit, schedule.definition.kind, fields.values_of(schedule), schedule=schedule)


def save(visit: Visit, form: Form) -> Response:
    schedule = schedule_at(visit)
    kind, public_id = schedule.definition.kind, schedule.definition.public_id
    values = fields.read(form, kind)
    version = form.one("version")
    if form.one("intent") == "preview":
        return _form(visit, kind, values, schedule=schedule, version=version)
    try:
        changes = _changes(schedule, values, version)
        if changes is None:
            return visit.go(at(public_id), did="unchanged")
        saved = visit.scheduler.edit(visit.caller, public_id, changes)
    except DuetimeError as error:
        saved = _err(error)
    if isinstance(saved, Err):
        return _form(visit, kind, values, saved, schedule=schedule, version=version)
    return visit.go(at(public_id), did="saved")


def _changes(schedule: Schedule, values: Values, version: str) -> Changes | None:
    """Only what differs from what the form was filled with, so that the rest keeps its finer points."""
    before, kind = fields.values_of(schedule), schedule.definition.kind
    given: dict[str, Any] = {}
    if values["name"] != before["name"]:
        given["name"] = values["name"].strip()
    if fields.differing(before, values, ("timezone", *fields.TRIGGER)):
        timing = fields.timing(values)
        zone = values["timezone"].strip() or None
        given |= {"trigger_type": timing.type, "trigger_config": timing.config, "timezone": zone}
    if kind in fields.PAYLOAD and fields.differing(before, values, fields.PAYLOAD[kind]):
        given["payload"] = fields.payload(kind, values, json.loads(schedule.definition.payload))
    if changed := fields.differing(before, values, fields.POLICY):
        given["policy"] = fields.policy(values, changed)
    fits = version.isascii() and version.isdigit() and len(version) < 19
    return Changes(**given, version=int(version) if fits else 0) if given else None


# -- the form itself ------------------------------------------------------------------------------------------------


def _form(
    visit: Visit,
    kind: str,
    values: Values,
    err: Err | None = None,
    *,
    schedule: Schedule | None = None,
    version: str | None = None,
) -> Response:
    """With what was typed, whatever was wrong with it."""
    status = 200 if err is None else answer_of(err).status_code
    return visit.page(
        "form.html",
        status,
        kind=kind,
        titles=TITLES,
        values=values,
        problem=None if err is None else err.message,
        wrong=None if err is None else err.details.get("field"),
        preview=_preview(visit, values),
        it=None if schedule is None else schedule_shape(schedule, visit.zone),
        version=version or (str(schedule.definition.version) if schedule is not None else ""),
        tasks=visit.call.desk.tasks(visit.caller) if kind == "job" else [],
        agents=visit.house.agents,
        channels=visit.house.channels,
        zones=sorted(name for name in available_timezones() if "/" in name or name == "UTC"),
        units=fields.UNITS,
        policy_names=fields.POLICY,
    )


def _preview(visit: Visit, values: Values) -> View:
    zone = values["timezone"].strip() or visit.zone
    try:
        timing = fields.timing(values)
        shown = visit.scheduler.preview(timing.type, timing.config, timezone=zone, count=SHOWN)
    except DuetimeError as error:
        shown = _err(error)
    if isinstance(shown, Err):
        return {"problem": shown.message}
    view = preview_view(shown.value.english, shown.value.instants, shown.value.warnings, zone)
    return view | {"problem": None}


def _err(error: DuetimeError) -> Err:
    field = getattr(error, "field", None)
    return Err(error.code, error.message, {} if field is None else {"field": field})
