"""The forms that create and edit a schedule, with a preview of its times."""

from __future__ import annotations

import json
from dataclasses import replace
from secrets import token_hex
from typing import Any, Final
from zoneinfo import available_timezones

from starlette.responses import Response

from duetime.dashboard import form_fields
from duetime.dashboard.form_fields import Values
from duetime.dashboard.queries import schedule_at
from duetime.dashboard.request import Form, PageRequest, at
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.engine.model import Schedule
from duetime.engine.result import Err
from duetime.engine.validation import Changes, NewSchedule, fingerprint
from duetime.kinds.jobs.kind import JobKind
from duetime.rest.errors import answer_of
from duetime.service.presenters import View, preview_view, schedule_shape

TITLES: Final = {"job": "Run a task", "prompt": "Wake an agent", "notification": "Tell a person"}
FIRST: Final[Values] = {
    "when": "once",
    "run_at": "in 1 hour",
    "every": "15",
    "unit": "minutes",
    "expression": "0 9 * * 1-5",
}
LONGEST_NAME: Final = 80
LONGEST_KEY: Final = 64
LOOK: Final = "look"
"""The intent that a script sends while the user types: it returns only the preview part of the form."""
SHOWN: Final = 5


def new_page(visit: PageRequest) -> Response:
    kind = visit.asked("kind") if visit.asked("kind") in form_fields.KINDS else form_fields.KINDS[0]
    empty = form_fields.read(Form([]), kind)
    return _form(visit, kind, empty | FIRST | {"timezone": visit.zone}, key=token_hex(8))


def create(visit: PageRequest, form: Form) -> Response:
    kind = form.one("kind") if form.one("kind") in form_fields.KINDS else form_fields.KINDS[0]
    values, key = form_fields.read(form, kind), form.one("key")[:LONGEST_KEY]
    if form.one("intent") == LOOK:
        return _explained(visit, values)
    if form.one("intent") == "preview":
        return _form(visit, kind, values, key=key)
    try:
        made = visit.call.services.create(visit.caller, _new(visit, kind, values, key))
    except DuetimeError as error:
        made = _err(error)
    if isinstance(made, Err):
        return _form(visit, kind, values, made, key=key)
    return visit.go(at(made.value.schedule.definition.public_id), did="created")


def _new(visit: PageRequest, kind: str, values: Values, key: str) -> NewSchedule:
    """Build the schedule. Its idempotency key is form nonce + fingerprint, so a double submit creates one schedule."""
    timing = form_fields.timing(values)
    new = NewSchedule(
        kind=kind,
        name=values["name"].strip() or _first_words(values, kind),
        trigger_type=timing.type,
        trigger_config=timing.config,
        payload=form_fields.payload(kind, values, {}),
        policy=form_fields.policy(values),
        timezone=values["timezone"].strip() or visit.zone,
    )
    return replace(new, idempotency_key=f"form-{key}-{fingerprint(new)}") if key else new


def _first_words(values: Values, kind: str) -> str:
    """Derive a name from the title, or from the text or the task; raise an error if that is empty too."""
    said = {"job": "task", "prompt": "prompt", "notification": "message"}[kind]
    words = values.get("title", "").split() or values[said].split()
    if not words:
        raise InvalidInput(f"{said}: must not be empty", field=said)
    return " ".join(words)[:LONGEST_NAME]


# -- editing --------------------------------------------------------------------------------------------------------


def edit_page(visit: PageRequest) -> Response:
    schedule = schedule_at(visit)
    kind = schedule.definition.kind
    return _form(visit, kind, form_fields.values_of(schedule, _usual(visit, kind)), schedule=schedule)


def save(visit: PageRequest, form: Form) -> Response:
    schedule = schedule_at(visit)
    kind, public_id = schedule.definition.kind, schedule.definition.public_id
    values = form_fields.read(form, kind)
    version = form.one("version")
    if form.one("intent") == LOOK:
        return _explained(visit, values)
    if form.one("intent") == "preview":
        return _form(visit, kind, values, schedule=schedule, version=version)
    try:
        changes = _changes(schedule, values, version, _usual(visit, kind))
        if changes is None:
            return visit.go(at(public_id), did="unchanged")
        saved = visit.call.services.edit(visit.caller, schedule, changes)
    except DuetimeError as error:
        saved = _err(error)
    if isinstance(saved, Err):
        return _form(visit, kind, values, saved, schedule=schedule, version=version)
    return visit.go(at(public_id), did="saved")


def _usual(visit: PageRequest, kind: str) -> View:
    return form_fields.usual_policy(visit.scheduler, kind)


def _changes(schedule: Schedule, values: Values, version: str, usual: View) -> Changes | None:
    """Return only what differs from the form's initial values, so that the rest keeps details the form cannot show."""
    before, kind = form_fields.values_of(schedule, usual), schedule.definition.kind
    given: dict[str, Any] = {}
    if values["name"] != before["name"]:
        given["name"] = values["name"].strip()
    if form_fields.differing(before, values, ("timezone", *form_fields.TRIGGER)):
        timing = form_fields.timing(values)
        zone = values["timezone"].strip() or None
        given |= {"trigger_type": timing.type, "trigger_config": timing.config, "timezone": zone}
    if kind in form_fields.PAYLOAD and form_fields.differing(before, values, form_fields.PAYLOAD[kind]):
        given["payload"] = form_fields.payload(kind, values, json.loads(schedule.definition.payload))
    if changed := form_fields.differing(before, values, form_fields.POLICY):
        given["policy"] = form_fields.changed_policy(values, changed, usual)
    fits = version.isascii() and version.isdigit() and len(version) < 19
    return Changes(**given, version=int(version) if fits else 0) if given else None


# -- the form itself ------------------------------------------------------------------------------------------------


def _form(
    visit: PageRequest,
    kind: str,
    values: Values,
    err: Err | None = None,
    *,
    schedule: Schedule | None = None,
    version: str | None = None,
    key: str = "",
) -> Response:
    """Render the form with what was typed, valid or not. What cannot be created here is said before anybody types."""
    status = 200 if err is None else answer_of(err).status_code
    foreseen = visit.call.services.hooks(kind).refusal() if schedule is None else None
    told = err or foreseen
    owner = visit.caller.owner if schedule is None else schedule.definition.owner
    return visit.page(
        "form.html",
        status,
        kind=kind,
        titles=TITLES,
        values=values,
        problem=None if told is None else told.message,
        wrong=None if err is None else err.details.get("field"),
        preview=_preview(visit, values),
        it=None if schedule is None else schedule_shape(schedule, visit.zone),
        version=version or (str(schedule.definition.version) if schedule is not None else ""),
        key=key,
        tasks=visit.call.services.kind(JobKind).registry.describe(visit.caller) if kind == "job" else [],
        agents=visit.house.agents(owner),
        usual_agent=_usual_agent(visit, owner) if kind == "prompt" else "",
        channels=visit.house.channels(owner),
        zones=sorted(name for name in available_timezones() if "/" in name or name == "UTC"),
        units=form_fields.UNITS,
        policy_names=form_fields.POLICY,
        how_is_set=any(values[name] for name in form_fields.POLICY if name != "deliver_to" or kind != "prompt"),
    )


def _usual_agent(visit: PageRequest, owner: str) -> str:
    """Return the agent of a prompt that names none, as its kind decides."""
    return visit.scheduler.kinds["prompt"].prepare({"prompt": "who?"}, visit.caller._replace(owner=owner)).subject


def _explained(visit: PageRequest, values: Values) -> Response:
    return visit.page(
        "preview.html", alarms=(), preview=_preview(visit, values)
    )  # no alarms, since this is requested at every pause in typing


def _preview(visit: PageRequest, values: Values) -> View:
    zone = values["timezone"].strip() or visit.zone
    try:
        timing = form_fields.timing(values)
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
