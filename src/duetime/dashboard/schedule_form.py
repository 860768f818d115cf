"""The forms that create and edit a schedule, with a preview of its times."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from secrets import token_hex
from typing import Any, Final
from zoneinfo import available_timezones

from starlette.responses import Response

from duetime.dashboard import form_fields
from duetime.dashboard.kind_forms import Values, form_of, may_create
from duetime.dashboard.queries import schedule_at
from duetime.dashboard.request import Form, PageRequest, at
from duetime.engine.errors import DuetimeError
from duetime.engine.model import Schedule
from duetime.engine.result import Err
from duetime.engine.validation import Changes, NewSchedule, fingerprint
from duetime.service.errors import err_of, shown, unwrap
from duetime.service.presenters import View, preview_view, schedule_shape
from duetime.service.text import whole_number

FIRST: Final[Values] = {
    "when": "once",
    "phrase": "every weekday at 9:00",
    "run_at": "in 1 hour",
    "every": "15",
    "unit": "minutes",
    "expression": "0 9 * * 1-5",
}
LONGEST_KEY: Final = 64
LOOK: Final = "look"
"""The intent that a script sends while the user types: it returns only the preview part of the form."""
SHOWN: Final = 5
OVERLAPS: Final = {"skip": "skip", "queue": "wait in line", "allow": "run beside it"}


def _titles(request: PageRequest) -> dict[str, str]:
    """Return what each kind that can be created here is called, by the name of the kind."""
    specs = request.call.services.specs
    return {name: spec.title or spec.name for name, spec in specs.items() if may_create(spec)}


def _chosen_kind(request: PageRequest, kind: str) -> str:
    titles = _titles(request)
    return kind if kind in titles else next(iter(titles))


def new_page(request: PageRequest) -> Response:
    kind = _chosen_kind(request, request.parameter("kind"))
    empty = form_fields.read(Form([]), kind)
    return _form(request, kind, empty | FIRST | {"timezone": request.zone}, key=token_hex(8))


def create(request: PageRequest, form: Form) -> Response:
    kind = _chosen_kind(request, form.get("kind"))
    values, key = form_fields.read(form, kind), form.get("key")[:LONGEST_KEY]

    def create_now() -> Response:
        made = unwrap(request.call.services.create(request.caller, _new(request, kind, values, key)))
        return request.redirect(at(made.schedule.definition.public_id), did="created")

    return _submitted(request, form, values, create_now, partial(_form, request, kind, values, key=key))


def _submitted(
    request: PageRequest, form: Form, values: Values, act: Callable[[], Response], show: Callable[..., Response]
) -> Response:
    """Do what the form was sent for. `show` renders the form again, with an error if there is one."""
    if form.get("intent") == LOOK:  # no alarms, since this is requested at every pause in typing
        return request.render("preview.html", alarms=(), preview=_preview(request, values))
    if form.get("intent") == "preview":
        return show()
    try:
        return act()
    except DuetimeError as error:
        return show(err_of(error))


def _new(request: PageRequest, kind: str, values: Values, key: str) -> NewSchedule:
    """Build the schedule. Its idempotency key is form nonce + fingerprint, so a double submit creates one schedule."""
    timing = form_fields.timing(values)
    new = NewSchedule(
        kind=kind,
        name=values["name"].strip() or form_of(kind).name_of(values) or kind,
        trigger_type=timing.type,
        trigger_config=timing.config,
        payload=form_of(kind).payload(kind, values, {}),
        policy=form_fields.policy(values, form_fields.POLICY, {}),
        timezone=timing.timezone or request.zone,
    )
    return replace(new, idempotency_key=f"form-{key}-{fingerprint(new)}") if key else new


def edit_page(request: PageRequest) -> Response:
    schedule = schedule_at(request)
    kind = schedule.definition.kind
    return _form(request, kind, form_fields.values_of(schedule, _usual(request, kind)), schedule=schedule)


def save(request: PageRequest, form: Form) -> Response:
    schedule = schedule_at(request)
    kind, public_id = schedule.definition.kind, schedule.definition.public_id
    values, version = form_fields.read(form, kind), form.get("version")

    def save_now() -> Response:
        changes = _changes(schedule, values, version, _usual(request, kind))
        if changes is not None:
            unwrap(request.call.services.edit(request.caller, schedule, changes))
        return request.redirect(at(public_id), did="unchanged" if changes is None else "saved")

    show = partial(_form, request, kind, values, schedule=schedule, version=version)
    return _submitted(request, form, values, save_now, show)


def _usual(request: PageRequest, kind: str) -> View:
    return form_fields.usual_policy(request.scheduler, kind)


def _changes(schedule: Schedule, values: Values, version: str, usual: View) -> Changes | None:
    """Return only what differs from the form's initial values, so that the rest keeps details the form cannot show."""
    before, kind = form_fields.values_of(schedule, usual), schedule.definition.kind
    given: dict[str, Any] = {}
    if values["name"] != before["name"]:
        given["name"] = values["name"].strip()
    if form_fields.differing(before, values, ("timezone", *form_fields.TRIGGER)):
        timing = form_fields.timing(values)
        given |= {"trigger_type": timing.type, "trigger_config": timing.config, "timezone": timing.timezone}
    if form_fields.differing(before, values, form_of(kind).fields):
        given["payload"] = form_of(kind).payload(kind, values, json.loads(schedule.definition.payload))
    if changed := form_fields.differing(before, values, form_fields.POLICY):
        given["policy"] = form_fields.policy(values, changed, usual)
    return Changes(**given, version=whole_number(version, 18) or 0) if given else None


def _form(
    request: PageRequest,
    kind: str,
    values: Values,
    err: Err | None = None,
    *,
    schedule: Schedule | None = None,
    version: str | None = None,
    key: str = "",
) -> Response:
    """Render the form with what was typed, valid or not. A kind that cannot be created here says so at once."""
    services, fields = request.call.services, form_of(kind)
    problem = err or (services.hooks(kind).refusal() if schedule is None else None)
    owner = request.caller.owner if schedule is None else schedule.definition.owner
    return request.render(
        "form.html",
        200 if err is None else shown(err.code).status,
        kind=kind,
        titles=_titles(request),
        values=values,
        problem=None if problem is None else problem.message,
        wrong=None if err is None else fields.input_of(str(err.details.get("field"))),
        preview=_preview(request, values),
        it=None if schedule is None else schedule_shape(schedule, request.zone),
        version=version or (str(schedule.definition.version) if schedule is not None else ""),
        key=key,
        form_template=fields.template,
        named_by=fields.named_by_label,
        own_policy=fields.own_policy,
        topics=services.delivery_topics(owner),
        zones=sorted(name for name in available_timezones() if "/" in name or name == "UTC"),
        units=form_fields.UNITS,
        usual=_usual(request, kind),
        overlaps=OVERLAPS,
        policy_names=form_fields.POLICY,
        how_is_set=any(values[name] for name in form_fields.POLICY if name not in fields.own_policy),
        **(fields.context(services, request.caller._replace(owner=owner)) if kind in services.kinds else {}),
    )


def _preview(request: PageRequest, values: Values) -> View:
    zone = values["timezone"].strip() or request.zone
    try:
        timing = form_fields.timing(values)
        shown = unwrap(request.scheduler.preview(timing.type, timing.config, timezone=zone, count=SHOWN))
    except DuetimeError as error:
        return {"problem": err_of(error).message}
    return preview_view(shown.english, shown.instants, shown.warnings, zone) | {"problem": None}
