"""The forms that create and edit a schedule, with a preview of its times."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from secrets import token_hex
from typing import Any, Final

from starlette.responses import Response

from duetime.dashboard import form_fields, preferences
from duetime.dashboard.kind_forms import Values, form_of, may_create
from duetime.dashboard.queries import schedule_at
from duetime.dashboard.request import Form, PageRequest, at
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.engine.fingerprint import fingerprint
from duetime.engine.rule_edits import WHOLE_RULE
from duetime.service.errors import error_class
from duetime.service.masking import masked_payload, refuse_other_places
from duetime.service.operations.create import CreateSchedule, new_schedule
from duetime.service.operations.create import create as create_schedule
from duetime.service.operations.declaration import Answer
from duetime.service.operations.edit import EditSchedule, edit
from duetime.service.operations.schedules import FiringTimes, PreviewTimes, preview
from duetime.service.presenters import View, schedule_shape
from duetime.service.text import whole_number
from duetime.service.vocabulary import Schedule, known_zone
from duetime.service.when import with_cron_fault

FIRST: Final[Values] = {"when": "phrase", "phrase": "in 1 hour", "unit": "minutes"}
"""What a new form contains."""
LONGEST_KEY: Final = 64
LOOK: Final = "look"
"""The intent that a script sends while the user types: it returns only the preview part of the form."""
SHOWN: Final = 5


def _titles(request: PageRequest) -> dict[str, str]:
    """Return the titles of the kinds that can be created here, by the name of the kind."""
    specs = request.call.services.specs
    return {name: spec.title or spec.name for name, spec in specs.items() if may_create(spec)}


def _chosen_kind(request: PageRequest, kind: str) -> str:
    titles = _titles(request)
    return kind if kind in titles else next(iter(titles))


def new_page(request: PageRequest) -> Response:
    kind_name = request.parameter("kind")
    if kind_name and kind_name not in _titles(request):
        return _created_elsewhere(request, kind_name)
    kind = _chosen_kind(request, kind_name)
    empty = form_fields.read(Form([]), kind)
    return _form(request, kind, empty | FIRST | {"timezone": request.call.zone}, key=token_hex(8))


def _created_elsewhere(request: PageRequest, kind: str) -> Response:
    """Say how a schedule of this kind is created, if it is not created here."""
    spec, command = request.call.services.specs.get(kind), form_of(kind).create_command
    return request.render(
        "created_elsewhere.html",
        200 if spec is not None else 404,
        kind=kind,
        plural=None if spec is None else spec.plural,
        command=request.command(*command) if command else None,
        titles=_titles(request),
    )


def create(request: PageRequest, form: Form) -> Response:
    kind = _chosen_kind(request, form.get("kind"))
    values, key = form_fields.read(form, kind), form.get("key")[:LONGEST_KEY]
    if form.get("switch"):
        kind, values = _switched(request, form, kind, values)
        return _form(request, kind, values, key=key, carried=_carried(request, form, kind))

    def create_now() -> Response:
        created, warnings, _ = create_schedule(request.call, _create_request(request, kind, values, key))
        texts = [each.text for each in warnings]
        return request.redirect(at(created.schedule.definition.public_id), did="created", warnings=texts)

    show = partial(_form, request, kind, values, key=key, carried=_carried(request, form, kind))
    return _submitted(request, form, values, create_now, show, partial(_problems, request, kind, values, None))


def _switched(request: PageRequest, form: Form, before: str, values: Values) -> tuple[str, Values]:
    """Return the kind to which the user switched, with everything that was typed: the text becomes the text of that
    kind."""
    kind = _chosen_kind(request, form.get("switch"))
    switched_values, field = form_fields.read(form, kind), form_of(kind).text_field
    if field and not switched_values[field]:
        switched_values[field] = values.get(form_of(before).text_field, "")
    return kind, switched_values


def _carried(request: PageRequest, form: Form, kind: str) -> list[tuple[str, str]]:
    """Return what was typed for the other kinds, so that it is still there after switching back."""
    own = (form_of(kind).fields, form_of(kind).prefix)
    others = [form_of(name) for name in _titles(request) if name != kind]
    names = [name for other in others for name in other.fields if name not in own[0]]
    further = [pair for other in others for pair in form.beginning(other.prefix).items() if other.prefix != own[1]]
    return [(name, form.get(name)) for name in dict.fromkeys(names) if form.get(name)] + further


def _submitted(
    request: PageRequest,
    form: Form,
    values: Values,
    act: Callable[[], Response],
    show: Callable[..., Response],
    check: Callable[[], list[DuetimeError]],
) -> Response:
    """Do what the form was submitted for. `show` renders the form again, with the errors if there are any; `check`
    returns everything that is wrong with it."""
    if form.get("intent") == LOOK:  # no alarms, because this is requested at every pause in typing
        return request.render("preview.html", alarms=(), preview=_preview(request, values))
    preset = form_fields.PRESETS.get(form.get("preset"))
    if preset is not None:
        values |= {"when": "phrase", "phrase": preset[1]}
    values["timezone"] = form.get("zone_here") or values["timezone"]
    if preset is not None or form.get("zone_here") or form.get("intent") == "preview":
        return show()
    try:
        return act()
    except DuetimeError as error:
        # This error determines the response; the others are found field by field.
        problems = check() if error_class(error.code).status == 422 else []
        is_known = {each.field for each in problems} & {error.field, form_fields.input_of_policy(error.field)}
        return show(problems if is_known else [*problems, error], error)


def _problems(request: PageRequest, kind: str, values: Values, schedule: Schedule | None) -> list[DuetimeError]:
    """Return everything that is wrong with what was typed, in the order of the fields."""
    services, fields, problems = request.call.services, form_of(kind), list[InvalidInput]()
    stored = {} if schedule is None else json.loads(schedule.definition.payload)
    owner = request.caller.owner if schedule is None else schedule.definition.owner
    try:
        if not values["name"].strip():
            fields.name_of(values)
    except InvalidInput as error:
        problems.append(error)
    caller = request.caller._replace(owner=owner)
    named = {each.field for each in problems}
    problems += [each for each in fields.problems(services, caller, kind, values, stored) if each.field not in named]
    problems += _timing_problems(request, values)
    return [*problems, *form_fields.policy_problems(values)]


def _timing_problems(request: PageRequest, values: Values) -> list[InvalidInput]:
    """Return what is wrong with the time zone, and what is wrong with the times regardless of the zone."""
    problems: list[InvalidInput] = []
    try:
        known_zone(values["timezone"].strip() or request.call.zone)
    except DuetimeError as error:
        problems.append(InvalidInput(error.message, field="timezone"))
        values = values | {"timezone": "UTC"}
    try:
        _previewed(request, values, 1)
    except InvalidInput as error:
        problems.append(error)
    except DuetimeError as error:
        problems.append(InvalidInput(field=error.field or form_fields.MAIN.get(values["when"]), problem=error.problem))
    return problems


def _create_request(request: PageRequest, kind: str, values: Values, key: str) -> CreateSchedule:
    """Return the request. Its idempotency key is form nonce + fingerprint, so a double submit creates one schedule."""
    new = CreateSchedule(
        kind,
        form_of(kind).payload(kind, values, {}),
        form_fields.zone_option(values),
        form_fields.trigger(values),
        form_fields.policy(values, form_fields.POLICY, {}),
        values["name"].strip() or form_of(kind).name_of(values),
    )
    identity = fingerprint(new_schedule(request.call, new), request.call.zone)
    return new._replace(key=f"form-{key}-{identity}") if key else new


def edit_page(request: PageRequest) -> Response:
    schedule = schedule_at(request)
    kind = schedule.definition.kind
    return _form(request, kind, form_fields.values_of(schedule, _usual(request, kind)), schedule=schedule)


def save(request: PageRequest, form: Form) -> Response:
    schedule = schedule_at(request)
    kind, public_id = schedule.definition.kind, schedule.definition.public_id
    values, version = form_fields.read(form, kind), form.get("version")

    def save_now() -> Response:
        changes = _changes(request, schedule, values)
        if not changes:
            return request.redirect(at(public_id), did="unchanged")
        changed = EditSchedule(schedule=schedule, version=whole_number(version, 18) or 0, **changes)
        _, warnings, notes = edit(request.call, changed)
        return request.redirect(at(public_id), did="saved", notes=notes, warnings=[each.text for each in warnings])

    show = partial(_form, request, kind, values, schedule=schedule, version=version)
    return _submitted(request, form, values, save_now, show, partial(_problems, request, kind, values, schedule))


def _usual(request: PageRequest, kind: str) -> View:
    return form_fields.usual_policy(request.call.scheduler, kind)


def _changes(request: PageRequest, schedule: Schedule, values: Values) -> dict[str, Any]:
    """Return only what differs from the form's initial values, so that the rest keeps details the form cannot show."""
    kind, stored = schedule.definition.kind, json.loads(schedule.definition.payload)
    usual, fields = _usual(request, kind), form_of(kind)
    before = form_fields.values_of(schedule, usual)
    changes: dict[str, Any] = {}
    if values["name"] != before["name"]:
        changes["name"] = values["name"].strip()
    if form_fields.differing(before, values, ("timezone", *form_fields.TRIGGER)):
        type_, config = form_fields.trigger(values)
        changes |= {"trigger": (type_, {**WHOLE_RULE, **config}), "times": form_fields.zone_option(values)}
    if values[form_fields.STARTING].strip():
        changes["starting"] = values[form_fields.STARTING]
    further = fields.prefix and any(name.startswith(fields.prefix) for name in values)
    if further or form_fields.differing(before, values, fields.fields):
        payload = fields.payload(kind, values, stored)
        if request.caller.depth and masked_payload(kind, stored) != stored:
            refuse_other_places(kind, payload, stored, request.caller.depth)
        if payload != fields.payload(kind, before, stored):  # the name stays, unless another one was typed
            changes = {"name": schedule.definition.name, **changes, "payload": payload}
    if changed := form_fields.differing(before, values, form_fields.policy_inputs(fields.waits)):
        changes["policy"] = form_fields.policy(values, changed, usual)
    return changes


def _for_people(input: str, err: DuetimeError) -> str:
    """Return the message with the label of its input, such as "timeout" for `timeout_seconds`."""
    field, message = err.field or "", with_cron_fault(err.message)
    if not field or not message.startswith(f"{field}:") or "-" in input:  # an argument of a task has its name as label
        return message
    words = input.removesuffix("_seconds").replace("_", " ")
    return f"{form_fields.LABELS.get(input, words[:1].upper() + words[1:])}{message.removeprefix(field)}"


def _input_of(kind: str, values: Values, err: DuetimeError) -> str:
    """Return the input that an error is about."""
    field = str(err.field)
    if field == "when":
        return form_fields.MAIN.get(values["when"], field)
    form = form_of(kind)
    name = form.input_in(field, values)
    return name if name != field or field in form.fields else form_fields.input_of_policy(field)


def _form(
    request: PageRequest,
    kind: str,
    values: Values,
    errors: Sequence[DuetimeError] = (),
    err: DuetimeError | None = None,
    *,
    schedule: Schedule | None = None,
    version: str | None = None,
    key: str = "",
    carried: Sequence[tuple[str, str]] = (),
) -> Response:
    """Render the form with what was typed, valid or not. For a kind that cannot be created here, it says so at once."""
    services, fields = request.call.services, form_of(kind)
    refusal = services.hooks(kind).outside().refusal() if schedule is None and not errors else None
    owner = request.caller.owner if schedule is None else schedule.definition.owner
    caller = request.caller._replace(owner=owner)
    values = fields.arrange(services, caller, values) if kind in services.kinds else values
    named = [form_fields.about_times(values, each) for each in errors or ([refusal] if refusal else [])]
    problems = [(_input_of(kind, values, each), each) for each in named]
    wrong = defaultdict(str, {name: with_cron_fault(each.problem) for name, each in reversed(problems)})
    options = form_fields.option_inputs(_usual(request, kind), waits=fields.waits, without=fields.own_policy)
    return request.render(
        "form.html",
        200 if err is None else error_class(err.code).status,
        kind=kind,
        titles=_titles(request),
        values=values,
        problems=[(name, _for_people(name, each)) for name, each in problems],
        wrong=wrong,
        first_wrong=problems[0][0] if problems else "",
        presets=form_fields.PRESETS,
        carried=carried,
        preview=_preview(request, values),
        it=None if schedule is None else schedule_shape(schedule, request.zone),
        version=version or (str(schedule.definition.version) if schedule is not None else ""),
        key=key,
        form_template=fields.template,
        named_by=fields.named_by_label,
        topics=services.delivery_topics(owner),
        zone_here=None if schedule is not None or request.browser_zone == values["timezone"] else request.browser_zone,
        zones=preferences.all_zones(),
        units=form_fields.UNITS,
        options=options,
        rare_is_open=any(each.is_rare and (values[each.name] or each.name in wrong) for each in options),
        how_is_wrong=any(name in wrong for name in form_fields.POLICY if name not in fields.own_policy),
        how_is_set=any(values[name] for name in form_fields.POLICY if name not in fields.own_policy),
        **(fields.context(services, caller, values) if kind in services.kinds else {}),
    )


def _preview(request: PageRequest, values: Values) -> View:
    """Return the next times. A field in which nothing was typed is not reported as wrong yet."""
    if not values.get(form_fields.MAIN.get(values["when"], ""), "").strip():
        return {"problem": None, "reads_as": ""}
    try:
        times, warnings, _ = _previewed(request, values, SHOWN)
    except DuetimeError as error:
        return {"problem": with_cron_fault(form_fields.about_times(values, error).problem)}
    return times.facts(values["timezone"].strip() or request.call.zone, warnings) | {"problem": None}


def _previewed(request: PageRequest, values: Values, count: int) -> Answer[FiringTimes]:
    times = PreviewTimes(times=form_fields.zone_option(values), trigger=form_fields.trigger(values), count=count)
    return preview(request.call, times)
