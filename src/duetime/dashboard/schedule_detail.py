"""The page of one schedule: its definition, next instants, history and actions."""

from __future__ import annotations

import json
from typing import Final

from starlette.responses import Response

from duetime.dashboard.form_fields import usual_policy
from duetime.dashboard.queries import schedule_at, schedule_or_tombstone
from duetime.dashboard.request import Form, PageRequest, at
from duetime.dashboard.schedule_list import BULK, Change, sparklines
from duetime.engine.model import Run, Schedule, ScheduleState
from duetime.engine.scheduler import Scheduler
from duetime.service.errors import refuse, unwrap
from duetime.service.masking import masking_of
from duetime.service.presenters import (
    View,
    attempt_view,
    instant_view,
    next_instants,
    policy_shape,
    run_shapes,
    schedule_shape,
)

HISTORY: Final = 20
NEXT: Final = 10
_OVER = (ScheduleState.ENDED, ScheduleState.CANCELLED, ScheduleState.DELETED)

ACTIONS: Final[dict[str, tuple[str, Change]]] = {
    **BULK,
    "run": ("fired", Scheduler.run_now),
    "delete": ("deleted", Scheduler.delete),
}
CONFIRMED: Final = ("cancel", "delete")


def schedule_page(request: PageRequest) -> Response:
    schedule = schedule_or_tombstone(request)
    public_id, state = schedule.definition.public_id, schedule.progress.state
    page = unwrap(
        request.scheduler.history(
            request.caller, public_id, limit=HISTORY, cursor=request.parameter("cursor") or None, count_to=0
        )
    )
    shape = schedule_shape(schedule, request.zone)
    instants = next_instants(schedule, request.now, NEXT)
    return request.render(
        "schedule.html",
        it=shape,
        payload=masking_of(schedule.definition.kind).hide_on_page(shape["payload"]) or {},
        policy=_policy(schedule, usual_policy(request.scheduler, schedule.definition.kind)),
        next=[instant_view(instant, request.zone) for instant in instants],
        warnings=_warnings(request, schedule) if instants else [],
        drawn=sparklines(request, [schedule])[0],
        runs=run_rows(request, page.items),
        next_page=page.cursor,
        first_page=bool(request.parameter("cursor")),
        paused=state == ScheduleState.PAUSED,
        over=state in _OVER,
        deleted=state == ScheduleState.DELETED,
    )


def _warnings(request: PageRequest, schedule: Schedule) -> list[str]:
    return [each.text for each in request.call.services.schedule_warnings(schedule)]


def _policy(schedule: Schedule, usual: View) -> list[tuple[str, str, bool]]:
    """Return the name and value of each option, and whether it differs from the default."""
    shape = policy_shape(schedule.definition.policy)
    if shape is None:
        return [("policy", "cannot be read", True)]
    return [(name.replace("_", " "), _value(value), value != usual[name]) for name, value in shape.items()]


def _value(value: object) -> str:
    return "\u2013" if value is None else str(value) if isinstance(value, str) else json.dumps(value)


def run_rows(request: PageRequest, found: list[Run]) -> list[View]:
    """Return views of runs with their earlier attempts, which only retried runs have."""
    shapes = run_shapes(request.scheduler, found, request.zone)
    for run, shape in zip(found, shapes, strict=True):
        tried = request.scheduler.attempts(request.caller, run.id) if run.attempt > 1 or run.deaths else []
        shape["attempts"] = [attempt_view(each, request.zone) for each in tried]
    return shapes


# -- actions --------------------------------------------------------------------------------------------------------


def confirm_page(request: PageRequest) -> Response:
    """Render a page that asks for confirmation, which needs no JavaScript."""
    action = request.http.path_params["action"]
    if action not in CONFIRMED:
        raise refuse("not_found", "There is no such page.")
    return request.render("confirm.html", it=schedule_shape(schedule_at(request), request.zone), action=action)


def act(request: PageRequest, form: Form) -> Response:
    action = request.http.path_params["action"]
    if action not in ACTIONS:
        raise refuse("not_found", "There is no such page.")
    public_id = schedule_at(request).definition.public_id
    done, change = ACTIONS[action]
    unwrap(change(request.scheduler, request.caller, public_id))
    return request.redirect("/schedules" if action == "delete" else at(public_id), did=done)
